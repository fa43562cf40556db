"""Profiles that were kept for the report, in `target/profiles.json`: one of each relation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError
from dqsql.json_text import read_json
from dqsql.model.project import Project
from dqsql.report.artefacts import write_json
from dqsql.report.profile import PROFILES, ProfileTable, profile_table


def save_profiles(project: Project, records: Sequence[Mapping[str, Any]]) -> Path:
    """Keep profiles, in place of earlier ones of the same relations, and return the file.

    Raises ConfigError when it cannot be read or written.
    """
    path = project.target_dir / PROFILES
    kept = _read(path)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    for record in records:
        kept[record["relation"]] = {"made_at": now, **record}
    write_json(path, {"profiles": [kept[name] for name in sorted(kept)]})
    return path


def saved_profiles(project: Project) -> dict[str, ProfileTable]:
    """The profiles that were kept, by relation. Raises ConfigError when the file is spoilt."""
    path = project.target_dir / PROFILES
    try:
        return {name: profile_table(record) for name, record in _read(path).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path) from error


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    if not path.exists():
        return {}
    try:
        records = read_json(path, {"profiles": [{"relation": str}]})["profiles"]
        return {str(record["relation"]): record for record in records or ()}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} holds no profiles", hint="delete it and run `dqsql profile --save` again"
    )
