"""`dqsql clean`: remove the target folder and nothing else, or what is old in the tables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import ConfigError
from dqsql.model.wording import plural
from dqsql.report.text import printable
from dqsql.resources import expanded

# What dqsql writes at the top of the folder; a folder with other things needs dqsql's own mark.
_OWN_NAMES = frozenset(
    {"compiled", "logs", "manifest.json", "run_results.json", "sources.json", "junit.xml"}
    | {"report.html"}
)


@click.command("clean", cls=Command)
@option(
    "--older-than",
    metavar="AGE",
    help="Instead, delete verdicts, samples and runs older than this (400d, 8w) from the tables.",
)
@options(*PROJECT)
@with_session
def command(
    session: Session, *, project_dir: Path, older_than: str | None, vars: str | None, **where: Any
) -> int:
    """Remove the folder of compiled SQL and artefacts. The warehouse is not touched.

    With --older-than that folder stays, old verdicts, samples of failing rows and runs are deleted
    from the warehouse tables, and small files are merged. Metrics stay: monitors learn from them.
    """
    import dqsql.monitors.registry  # noqa: F401 - settings of monitors are read below
    from dqsql.loading import parse_vars
    from dqsql.loading.project import read_target_path

    if older_than is not None:
        return _clean_tables(session, project_dir, older_than, vars=vars, **where)
    root = expanded(project_dir).resolve()
    folder = root / read_target_path(root, parse_vars(vars) if vars else {})
    if not folder.exists() and not folder.is_symlink():
        session.say(f"Nothing to remove: {printable(str(folder))} does not exist.")
        return 0
    refuse_unsafe(folder, root)
    remove(folder)
    session.say(f"Removed {printable(str(folder))}")
    return 0


def _clean_tables(session: Session, project_dir: Path, older_than: str, **where: Any) -> int:
    from dqsql.runner.upkeep import clean_tables

    cleaned = clean_tables(project_dir, older_than=older_than, **where)
    changed = [table for table in cleaned if table.rows or table.files]
    for table in changed:
        rows, files = plural(table.rows, "row"), plural(table.files, "file")
        session.say(f"{table.table}: {rows} and {files} deleted")
    if not changed:
        session.say(f"Nothing to delete in {plural(len(cleaned), 'table')}.")
    return 0


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it. Raises ConfigError when that fails."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{error.filename or folder} cannot be removed: {reason}") from error


def refuse_unsafe(folder: Path, root: Path) -> None:
    """Raise ConfigError unless the folder is a target folder inside the project."""
    hint = "set `target_path` in dqsql_project.yml to a separate folder, or remove it by hand"
    real = folder.resolve()
    if folder.is_symlink() or real == root or not real.is_relative_to(root):
        raise ConfigError(
            f"the target folder {folder} is not a folder inside the project: not removed", hint=hint
        )
    if not folder.is_dir():
        raise ConfigError(f"the target folder {folder} is not a folder: not removed", hint=hint)
    if table := _warehouse_table(folder):
        raise ConfigError(
            f"the target folder {folder} holds the warehouse table {table.name}: not removed",
            hint="set `warehouse` to a folder outside the target folder",
        )
    if not _is_own(folder):
        raise ConfigError(
            f"the folder {folder} holds files that dqsql did not write: not removed", hint=hint
        )


def _is_own(folder: Path) -> bool:
    from dqsql.report.artefacts import CACHE_TAG

    return (folder / CACHE_TAG).is_file() or {p.name for p in folder.iterdir()} <= _OWN_NAMES


def _warehouse_table(folder: Path) -> Path | None:
    """The first table of dqsql below a folder: the warehouse may lie there by mistake."""
    from dqsql.model.tables import ALL_TABLES

    names = {table.name for table in ALL_TABLES}
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            if name in names:
                return Path(parent) / name
    return None
