"""`dqsql ls`: list check models and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import (
    PROJECT,
    SELECTION,
    SELECTOR,
    STATE,
    TABLES,
    TESTS,
    OutputChoice,
    option,
    options,
    words,
)
from dqsql.cli.project import all_errors, compile_project, refuse_batch_by, watched_tables
from dqsql.cli.session import Session, with_session
from dqsql.errors import error_of
from dqsql.report.text import printable

if TYPE_CHECKING:
    from dqsql.runner.api import CompileResult

_TYPES = ("model", "check", "monitor", "source", "macro", "left_test")
_DEFAULT_TYPES = ("model", "check", "monitor")


@click.command("ls", cls=Command)
@options(*SELECTION, *SELECTOR, *STATE, *PROJECT, *TESTS, *TABLES)
@option(
    "--resource-type",
    "resource_types",
    type=click.Choice([*_TYPES, "all"]),
    multiple=True,
    help="What to list [default: model, check, monitor].",
)
@option(
    "--output",
    "shown",
    type=OutputChoice(["text", "name", "path", "json"]),
    default="text",
    help="text: unique ids; json: one JSON object per line.",
)
@with_session
def command(
    session: Session,
    *,
    auto: Sequence[str],
    batch_by: str | None,
    resource_types: Sequence[str],
    shown: str,
    **where: Any,
) -> int:
    """List the check models and checks that the selection finds. Needs no Spark.

    With --auto, list instead what is watched in tables without check files; this needs Spark.

    Sources and macros are always listed in full; a macro check_x or metric_x is used as @x. Tests
    of a dbt project that are left to dbt have the type left_test.
    """
    refuse_batch_by(batch_by, auto)
    if auto:
        place = {name: where[name] for name in PROJECT}
        with (
            session.progress() as progress,
            watched_tables(words(auto), batch_by, progress.step, place) as (compiled, _),
        ):
            pass
    else:
        compiled = compile_project(**where)
    wanted = resource_types or _DEFAULT_TYPES
    count = 0
    for record in _records(compiled):
        if record["resource_type"] in wanted or "all" in wanted:
            _print(session, record, shown)
            count += 1
    for warning in compiled.project.warnings:
        session.warn(warning)
    errors = all_errors(compiled)
    if errors:
        session.print_error(error_of(errors))
        return EXIT_ERROR
    if not count and not session.quiet:
        session.err.line("Nothing is selected.")
    return 0


def _records(compiled: CompileResult) -> Iterator[dict[str, Any]]:
    from dqsql.report.manifest import (
        check_records,
        left_record,
        macro_records,
        model_record,
        source_record,
    )

    for test in compiled.project.left_tests:
        yield left_record(test)
    yield from macro_records(compiled.project.macros)
    for source in compiled.project.sources:
        yield source_record(source)
    for plan in compiled.plans:
        yield model_record(plan.model, plan)
        yield from check_records(plan)


def _print(session: Session, record: dict[str, Any], shown: str) -> None:
    if shown == "json":
        session.print_json(record)
        return
    key = {"text": "unique_id", "name": "name", "path": "original_file_path"}[shown]
    reason = f": {record['reason']}" if shown == "text" and "reason" in record else ""
    session.out.line(printable(f"{record[key]}{reason}"))
