"""What the Tab key offers for models and checks: the names in the manifest that was written last.

Nothing is compiled, and where there is no manifest nothing is offered.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_MANIFEST = "manifest.json"
# Its own project file, or dbt's: then dqsql's artefacts have a folder beside those of dbt.
_PROJECTS = {"dqsql_project.yml": "", "dbt_project.yml": "dqsql"}
_TARGET_PATH = re.compile(r"^target[-_]path:\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
# What may stand before the name of a model: others that are joined, and parents.
_BEFORE = re.compile(r"^(?:.*,)?(?:@|\d*\+)?")


def complete_model(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """The names of the check models that begin with a text."""
    return _items(_models(_manifest(ctx)), text)


def complete_check(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """The ids of the checks that begin with a text."""
    checks = _manifest(ctx).get("checks") or {}
    return [
        CompletionItem(name, help=(entry.get("expression") if isinstance(entry, dict) else None))
        for name, entry in sorted(checks.items())
        if name.startswith(text)
    ]


def complete_selector(
    ctx: click.Context, param: click.Parameter | None, text: str
) -> list[CompletionItem]:
    """The names and tags of check models that the last part of a selection begins with."""
    manifest = _manifest(ctx)
    before = (_BEFORE.match(text) or [""])[0]
    tags = {f"tag:{t}" for m in _entries(manifest, "models") for t in m.get("tags") or ()}
    names = [*sorted(_models(manifest)), *sorted(tags)]
    return _items((f"{before}{name}" for name in names), text)


def _models(manifest: dict[str, Any]) -> list[str]:
    return [str(m["name"]) for m in _entries(manifest, "models") if "name" in m]


def _entries(manifest: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    entries = manifest.get(kind)
    return [e for e in entries.values() if isinstance(e, dict)] if isinstance(entries, dict) else []


def _items(names: Iterable[str], text: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(text)]


def _manifest(ctx: click.Context) -> dict[str, Any]:
    """The manifest of the project that the command line names; empty where it cannot be read."""
    root = Path(ctx.params.get("project_dir") or os.environ.get("DQSQL_PROJECT_DIR") or ".")
    for name, folder in _PROJECTS.items():
        try:
            settings = (root / name).read_text(encoding="utf-8")
            written = _TARGET_PATH.search(settings)
            target = written[1] if written else "target"
            manifest = json.loads((root / target / folder / _MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        return manifest if isinstance(manifest, dict) else {}
    return {}
