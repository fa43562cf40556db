"""`dqsql run`: check the batches that are new."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, SELECTION, SELECTOR, STATE, TABLES, TESTS, options, words
from dqsql.cli.project import (
    compile_project,
    forget_junit,
    listener_of,
    refuse_batch_by,
    watched_tables,
    write_run_artefacts,
)
from dqsql.cli.session import Session, with_session
from dqsql.engine.head_start import begin
from dqsql.errors import UsageError
from dqsql.model.events import OF_MODELS, START, WRITE
from dqsql.model.project import Project, local_folder
from dqsql.model.results import RunResult
from dqsql.model.tables import BATCHES
from dqsql.report.text import padded, printable

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
# What asks for work though no file has changed.
_ANYWAY = ("full_refresh", "event_time_start", "event_time_end")
_WHERE = (*PROJECT, *TESTS, *STATE, *SELECTOR)


@click.command("run", cls=Command)
@options(*SELECTION, *SELECTOR, *STATE, *PROJECT, *TESTS, *TABLES)
@options(*_RUN)
@with_session
def command(
    session: Session,
    *,
    auto: Sequence[str],
    batch_by: str | None,
    select: Sequence[str],
    exclude: Sequence[str],
    batches: Sequence[str],
    timing: bool,
    **settings: Any,
) -> int:
    """Check the batches that are new, and store and print the verdicts.

    Exits with 1 if a check of severity error failed, or if nothing is new and nobody has reviewed
    a failure of the run before; with 2 if something could not be checked.
    """
    began = time.monotonic()
    refuse_batch_by(batch_by, auto)
    if auto and (select or exclude):
        raise UsageError(
            "--select and --exclude are about check models, and --auto about tables without any",
            hint="name fewer tables: --auto sales.orders",
        )
    if not auto:
        begin(settings, surely=bool(batches) or any(settings[name] for name in _ANYWAY))
    from dqsql.report.artefacts import ensure_writable
    from dqsql.runner import api

    forget_junit(settings["project_dir"], settings["vars"])
    where = {name: settings[name] for name in _WHERE}
    if not auto:
        compiled = compile_project(select=select, exclude=exclude, loaded=_start_ahead, **where)
    with ExitStack() as stack:
        progress = stack.enter_context(session.progress())
        spark = None
        if auto:
            place = {name: settings[name] for name in PROJECT}
            watched = watched_tables(words(auto), batch_by, progress.step, place)
            compiled, spark = stack.enter_context(watched)
        ensure_writable(compiled.project.target_dir)
        loaded = time.monotonic()
        result = api.run(
            spark=spark,
            select=select,
            exclude=exclude,
            batches=tuple(batches),
            listener=listener_of(session, progress, compiled),
            compiled=compiled,
            **settings,
        )
    checked = time.monotonic()
    write_run_artefacts(session, compiled, result)
    if timing:
        for line in timing_lines(result, loaded - began, time.monotonic() - checked):
            session.err.line(line)
    return result.exit_code


def _start_ahead(project: Project) -> None:
    """Start Java while the project is compiled, in its first run: that is going to need it."""
    folder = local_folder(project.target)
    if folder is not None and not os.path.exists(folder / BATCHES.name):
        from dqsql.engine.launching import start_ahead

        start_ahead(project)


_NUMBER = 10
_LONGEST = 40


def timing_lines(result: RunResult, load: float, artefacts: float) -> list[str]:
    """A table of seconds: what the run did once, and a row for each model.

    `load` and `artefacts` are the seconds of reading and compiling the project, and of writing its
    files. Models that are checked at the same time share the processor: their seconds overlap.
    """
    names = {m.model: printable(m.model)[:_LONGEST] for m in result.models}
    width = max(map(len, (*names.values(), "read and compile the project")), default=0)
    once = [
        ("read and compile the project", load),
        ("start Spark", result.phases.get(START, 0.0)),
        ("write tables", result.phases.get(WRITE, 0.0)),
        ("write files in target/", artefacts),
    ]
    return [
        "Where the seconds went:",
        *(_timing_line(what, width, [seconds]) for what, seconds in once),
        padded("model", width) + "".join(f"{phase:>{_NUMBER}}" for phase in OF_MODELS),
        *(
            _timing_line(names[m.model], width, [m.phases.get(phase, 0.0) for phase in OF_MODELS])
            for m in result.models
        ),
    ]


def _timing_line(what: str, width: int, seconds: Sequence[float]) -> str:
    return padded(what, width) + "".join(f"{value:>{_NUMBER}.2f}" for value in seconds)
