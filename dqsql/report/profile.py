"""Profiles for people: the lines of a table, in the terminal and in the report.

They are made of the records that `dqsql profile --output json` prints and `--save` keeps, in
`target/profiles.json`: one of each relation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.errors import ConfigError
from dqsql.json_text import read_json
from dqsql.model.wording import plural
from dqsql.report.artefacts import write_json
from dqsql.report.text import number, printable, shorten

if TYPE_CHECKING:
    from dqsql.model.project import Project

_FILE = "profiles.json"
_NAME, _VALUES = 32, 48


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A column in words; `shares` are the heights of its histogram's bars, which sum to 1."""

    name: str
    kind: str
    filled: str
    distinct: str
    low: str
    mean: str
    high: str
    shares: tuple[float, ...]
    frequent: str


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """A profile in words. `made_at` is the day and minute, empty for one that was not kept."""

    relation: str
    size: str
    made_at: str
    columns: tuple[ColumnLine, ...]


def profile_table(record: Mapping[str, Any]) -> ProfileTable:
    """Say a profile's record in words. Raises KeyError or TypeError for what is none."""
    columns = tuple(_line(c) for c in record["columns"])
    rows, passes = plural(int(record["rows"]), "row"), plural(int(record["passes"]), "time")
    return ProfileTable(
        printable(str(record["relation"])),
        f"{rows}, {plural(len(columns), 'column')}, read {passes}",
        printable(str(record.get("made_at", ""))[:16].replace("T", " ")),
        columns,
    )


def save_profiles(project: Project, records: Sequence[Mapping[str, Any]]) -> Path:
    """Keep profiles, in place of earlier ones of the same relations, and return the file.

    Raises ConfigError when it cannot be read or written.
    """
    path = project.target_dir / _FILE
    kept = _read(path)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    for record in records:
        kept[record["relation"]] = {"made_at": now, **record}
    write_json(path, {"profiles": [kept[name] for name in sorted(kept)]})
    return path


def saved_profiles(project: Project) -> dict[str, ProfileTable]:
    """The profiles that were kept, by relation. Raises ConfigError when the file is spoilt."""
    path = project.target_dir / _FILE
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


def _line(column: Mapping[str, Any]) -> ColumnLine:
    low, mean, high = _ends(column)
    share, distinct, detected = (column[k] for k in ("completeness", "distinct", "detected_type"))
    kind = str(column["spark_type"]) if detected is None else f"string: {detected}"
    if column.get("nan"):
        kind += f", {column['nan']:,} NaN"
    return ColumnLine(
        shorten(printable(str(column["name"])), _NAME),
        printable(kind),
        "" if share is None else _percent(float(share)),
        "" if distinct is None else f"{distinct:,.0f}",
        low,
        mean,
        high,
        tuple(float(s) for s in column["histogram"]),
        "(private)" if column.get("private") else _frequent(column["distribution"]),
    )


def _ends(column: Mapping[str, Any]) -> tuple[str, str, str]:
    """Least, mean and greatest value; of texts that are no numbers, length."""
    summary, lengths = column["summary"], column["lengths"]
    if summary is not None:
        low, mean, high = (_number(summary[k]) for k in ("minimum", "mean", "maximum"))
        return low, mean, high
    if column["earliest"] is not None and column["latest"] is not None:
        return printable(column["earliest"][:19]), "", printable(column["latest"][:19])
    if lengths is None:
        return "", "", ""
    low, high = (f"{float(lengths[k]):.0f} ch" for k in ("minimum", "maximum"))
    return low, f"{float(lengths['mean']):.3g} ch", high


def _number(value: float | str | None) -> str:
    # JSON has infinities as words and NaN as null.
    return "NaN" if value is None else number(float(value))


def _percent(share: float) -> str:
    """A share that says 100 % only of everything, 0 % only of nothing."""
    return f"{share:.0%}" if share in (0, 1) else f"{min(max(share, 0.001), 0.999):.1%}"


def _value(text: str) -> str:
    """A value of a list: in quotes where it could not be told from what stands around it."""
    return f"'{text}'" if text != text.strip() or not text or "," in text else text


def _frequent(distribution: Mapping[str, Any] | None) -> str:
    if distribution is None:
        return ""
    values: Sequence[Any] = distribution["values"][:4]
    total = sum(distribution["counts"]) + distribution["other"]
    shown = (
        f"{_value(printable(str(v)))} {n / total:.0%}"
        for v, n in zip(values, distribution["counts"], strict=False)
    )
    return shorten(", ".join(shown), _VALUES)
