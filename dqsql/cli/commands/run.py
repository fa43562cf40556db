"""`dqsql run`: check the batches that are new."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dqsql.cli.artefacts import write_run_artefacts
from dqsql.cli.group import Command
from dqsql.cli.options import GLOBAL, PROJECT, SELECTION, SELECTOR, STATE, TESTS, options, words
from dqsql.cli.project import compile_project, target_dir
from dqsql.cli.session import Session, with_session

_RUN = (
    "full_refresh",
    "fail_fast",
    "batches",
    "event_time_start",
    "event_time_end",
    "store_failures",
    "quarantine",
    "only_new",
    "threads",
    "timing",
    "run_output",
)
_WHERE = ("target", "profile", "profiles_dir", "vars", "dbt_tests", "state", "selector")


@click.command("run", cls=Command)
@options(*SELECTION, *SELECTOR, *STATE, *PROJECT, *TESTS, *_RUN, *GLOBAL)
@with_session
def command(
    session: Session,
    *,
    project_dir: Path,
    select: Sequence[str],
    exclude: Sequence[str],
    batches: Sequence[str],
    output: str,
    timing: bool,
    **settings: Any,
) -> int:
    """Check the batches that are new, and store and print the verdicts.

    Exits with 1 when a check of severity error failed, also in the run before when nothing is new
    and nobody has reviewed it; with 2 when something could not be checked.
    """
    began = time.monotonic()
    from dqsql.report.artefacts import ensure_writable
    from dqsql.report.timing import timing_lines
    from dqsql.runner import api

    where = {name: settings[name] for name in _WHERE}
    compiled = compile_project(project_dir, select=select, exclude=exclude, **where)
    ensure_writable(target_dir(compiled))
    loaded = time.monotonic()
    with session.progress() as progress:
        result = api.run(
            project_dir,
            select=words(select),
            exclude=words(exclude),
            batches=tuple(batches),
            listener=session.listener(progress, compiled.plans),
            compiled=compiled,
            **settings,
        )
    checked = time.monotonic()
    write_run_artefacts(session, compiled, result)
    if timing:
        for line in timing_lines(result, loaded - began, time.monotonic() - checked):
            session.err.line(line)
    return result.exit_code
