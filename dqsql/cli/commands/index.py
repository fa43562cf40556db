"""`dqsql index`: the patterns of a lake's columns, which `@pattern` learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.model.wording import plural
from dqsql.report.text import file_size, printable

if TYPE_CHECKING:
    from dqsql.monitors.lake_index import IndexSize
    from dqsql.runner.index import IndexResult

_AT_LEAST_ONE = click.IntRange(min=1)
_RATE = click.FloatRange(0, 1, max_open=True)


@click.group("index")
def command() -> None:
    """Build and show the index of patterns in the columns of a lake.

    @pattern learns the format of a column from its values and from this index; without one, from
    the index that comes with dqsql.
    """


@command.command("build", cls=Command)
@click.argument("relations", nargs=-1, metavar="[RELATION|GLOB]...")
@option("--tau", type=_AT_LEAST_ONE, help="Leave out values of more tokens [default: 8].")
@option("--max-values", type=_AT_LEAST_ONE, help="Rows to read of each relation [default: 1000].")
@options(*PROJECT, "output")
@with_session
def build(
    session: Session,
    *,
    relations: Sequence[str],
    tau: int | None,
    max_values: int | None,
    **where: Any,
) -> int:
    """Build the index anew from tables, schemas and files.

    RELATION is a check model, a source (nyc.flights), a table, or a schema (sales.*); GLOB names
    files ('data/*.parquet'; also csv, tsv, json, orc), relative to the project. Without either, all
    sources and check models of the project are read, these over their history.
    """
    from dqsql.runner import index
    from dqsql.runner.compilation import Where

    with session.progress() as progress:
        progress.step("Starting Spark")
        result = index.build(
            Where(**where), relations, tau=tau, max_values=max_values, step=progress.step
        )
    return _print_result(session, result)


@command.command("update", cls=Command)
@click.argument("relations", nargs=-1, metavar="[RELATION|GLOB]...")
@options(*PROJECT, "output")
@with_session
def update(session: Session, *, relations: Sequence[str], **where: Any) -> int:
    """Add tables, schemas and files to the index, without reading the others again.

    Relations that are already in the index are replaced. Names are as in `dqsql index build`.
    """
    from dqsql.runner import index
    from dqsql.runner.compilation import Where

    with session.progress() as progress:
        progress.step("Starting Spark")
        result = index.update(Where(**where), relations, step=progress.step)
    return _print_result(session, result)


@command.command("show", cls=Command)
@option("--limit", type=_AT_LEAST_ONE, default=20, help="Patterns to show [default: 20].")
@options(*PROJECT, "output")
@with_session
def show(session: Session, *, limit: int, **where: Any) -> int:
    """Show the common domains of the lake: patterns of many columns that match them well.

    Impurity is the mean share of values that do not match, in the columns where some do.
    """
    from dqsql.runner import index
    from dqsql.runner.compilation import Where

    with session.progress() as progress:
        progress.step("Reading the index")
        content = index.show(Where(**where), limit=limit)
    head = [asdict(p) for p in content.head]
    session.print_outcome(location=content.location, **asdict(content.report), head=head)
    session.say(_summary(content.location, content.report))
    session.say()
    session.say("columns  impurity  pattern")
    for domain in content.head:
        session.say(f"{domain.coverage:7,}  {domain.fpr:8.1%}  {printable(domain.pattern)}")
    return 0


@command.command("tag", cls=Command)
@click.argument("relation")
@click.argument("column")
@option(
    "--max-false-negatives",
    type=_RATE,
    default=0.1,
    metavar="SHARE",
    help="Share of the domain's values that the pattern may miss [default: 0.1].",
)
@options(*PROJECT, "output")
@with_session
def tag(
    session: Session, *, relation: str, column: str, max_false_negatives: float, **where: Any
) -> int:
    """Name the columns of the lake that share a domain with COLUMN of RELATION.

    Exits with 2 if no pattern in the index describes the domain.
    """
    from dqsql.patterns.infer import NoPattern
    from dqsql.runner import index
    from dqsql.runner.compilation import Where

    with session.progress() as progress:
        progress.step("Starting Spark")
        result = index.tag(
            Where(**where),
            relation,
            column,
            max_false_negatives=max_false_negatives,
            step=progress.step,
        )
    if isinstance(result, NoPattern):
        return _untagged(session, f"{relation}.{column}", result)
    if session.json:
        session.print_outcome(**asdict(result))
        return 0
    pattern = result.pattern
    session.say(
        f"{printable(pattern.pattern)}: in {plural(pattern.coverage, 'column')} of the index, "
        f"misses {pattern.false_negative_rate:.1%} of their values"
    )
    for shared in result.columns:
        session.say(f"{shared.share:7.1%}  {printable(shared.table)}  {printable(shared.column)}")
    if not result.columns:
        session.say("No other column of the lake shares the domain.")
    _print_notes(session, result.notes)
    return 0


def _untagged(session: Session, what: str, no_pattern: Any) -> int:
    if session.json:
        session.print_outcome(EXIT_ERROR, code=no_pattern.code, reason=no_pattern.reason)
    else:
        session.err.line(f"{printable(what)} has no pattern: {no_pattern.reason}")
    return EXIT_ERROR


def _print_result(session: Session, result: IndexResult) -> int:
    if session.json:
        session.print_outcome(
            location=result.location,
            **asdict(result.report),
            relations=list(result.relations),
            notes=list(result.notes),
        )
        return 0
    for name in result.relations:
        session.say(f"indexed {printable(name)}")
    _print_notes(session, result.notes)
    session.say(_summary(result.location, result.report))
    return 0


def _print_notes(session: Session, notes: Sequence[str]) -> None:
    for note in notes:
        session.err.line(f"note: {printable(note)}")


def _summary(location: str, report: IndexSize) -> str:
    return (
        f"{printable(location)}: {plural(report.patterns, 'pattern')} from"
        f" {plural(report.columns, 'column')} of {plural(report.tables, 'relation')};"
        f" {file_size(report.corpus_bytes)} of values were read"
    )
