"""`dqsql report`: what is stored, on one page of HTML."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.completion import complete_model
from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, SELECTION, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import UsageError
from dqsql.model.results import RESOLVED, Status
from dqsql.model.wording import first_of, plural
from dqsql.report.console import styled_label
from dqsql.report.model_page import model_record
from dqsql.report.page import LETTERS, ModelFacts, error_record, finding_lines
from dqsql.report.terminal import Terminal
from dqsql.report.text import number, padded, printable, shorten

if TYPE_CHECKING:
    from dqsql.report.page import Page
_EMPTY = "No batch of these models has been checked yet"
# What a verdict is in a strip: low where all is well.
_BLOCKS = {"p": "▁", "w": "▅", "f": "█", "e": "█", "n": "▃", "s": "·", ".": " "}
_WORDS = {
    LETTERS[s]: s.words
    for s in (Status.PASS, Status.WARN, Status.FAIL, Status.ERROR, Status.NO_DATA, Status.SKIPPED)
}
_COLORS = {"p": "green", "w": "yellow", "n": "yellow", "f": "red", "e": "red"}
_LABEL, _STRIP, _METRIC = 44, 40, 50
# Batches that are named.
_NAMED = 5


@click.command("report", cls=Command)
@options(*SELECTION, *PROJECT)
@option(
    "--days", type=click.IntRange(min=1), help="How many days of batches to show [default: 90]."
)
@option(
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: target/report.html of the project].",
)
@option(
    "--text",
    "text_of",
    metavar="MODEL",
    shell_complete=complete_model,
    help="Print one model to the terminal instead.",
)
@option(
    "--serve",
    is_flag=True,
    help="Serve the report to browsers on this computer instead, until interrupted.",
)
@option("--port", type=click.IntRange(0, 65535), help="The port of --serve [default: a free one].")
@options("output")
@with_session
def command(
    session: Session,
    *,
    select: Sequence[str],
    exclude: Sequence[str],
    days: int | None,
    output_file: Path | None,
    text_of: str | None,
    serve: bool,
    port: int | None,
    **where: Any,
) -> int:
    """Write a report of the newest batches as one HTML file that loads nothing else.

    Health by model and day, findings, all checks with their history, charts of metrics with what
    was allowed, coverage and cost. Reads the warehouse tables only.
    """
    from dqsql.runner.report import DAYS, write_report

    if text_of is not None and serve:
        raise UsageError("--text prints to the terminal, --serve to a browser: choose one")
    if port is not None and not serve:
        raise UsageError("--port is that of --serve", hint=f"dqsql report --serve --port {port}")
    if output_file is not None and (text_of is not None or serve):
        raise UsageError("--output-file is that of a written report, not of --text or --serve")
    if text_of is not None and (select or exclude):
        raise UsageError("--text names the one model that it prints: leave --select and --exclude")
    if text_of is not None or serve:
        select = (text_of,) if text_of is not None else select
        page = _page(session, select, exclude, days or DAYS, where)
        return _print(session, page) if text_of is not None else _serve(session, page, port or 0)
    with session.progress() as progress:
        made = write_report(
            days=days or DAYS,
            output_file=output_file,
            select=select,
            exclude=exclude,
            step=progress.step,
            **where,
        )
    session.print_outcome(
        path=str(made.path),
        models=made.models,
        batches=made.batches,
        findings=made.findings,
        waiting=made.waiting,
    )
    if not made.models:
        session.say(f"{_EMPTY}: the report is empty until `dqsql run`.")
    else:
        waiting = f", {plural(made.waiting, 'batch')} to be reviewed" if made.waiting else ""
        session.say(
            f"{plural(made.models, 'check model')}, {plural(made.batches, 'batch')},"
            f" {plural(made.findings, 'open finding')}{waiting}."
        )
    session.say(printable(f"Wrote {made.path}"))
    return 0


def _page(
    session: Session,
    select: Sequence[str],
    exclude: Sequence[str],
    days: int,
    where: Mapping[str, Any],
) -> Page:
    from dqsql.runner.compilation import Where
    from dqsql.runner.report import read_page

    with session.progress() as progress:
        project = Where(**where).stored_project()
        return read_page(project, days, select, exclude, step=progress.step)


def _print(session: Session, page: Page) -> int:
    session.print_outcome(
        models=[{"name": facts.name, **model_record(facts)} for facts in page.models]
    )
    for facts in page.models:
        for line in lines_of_model(facts, session.out):
            session.say(line)
    if not page.models:
        session.say(_EMPTY)
    return 0


def _serve(session: Session, page: Page, port: int) -> int:
    from dqsql.report.html import PageServer, render

    try:
        server = PageServer(render(page), port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}") from error
    with server:
        session.say(f"The report is at {server.url} (stop with Ctrl-C)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            session.say()
    return 0


def lines_of_model(facts: ModelFacts, out: Terminal) -> Iterator[str]:
    """What is wrong in a model, then a line for each check with a strip of its history."""
    record = model_record(facts)
    batches = record["batches"]
    yield out.style(facts.name, "bold")
    if (error := error_record(facts.costs)) is not None:
        extent = "" if error["whole"] else " in full"
        yield f"could not be checked{extent} since {error['since']} UTC: {error['text']}"
    if not batches:
        return
    extent = f"{plural(len(batches), 'batch')}, {batches[0]} to {batches[-1]}"
    drawn = f"strips show the newest {_STRIP}, " if len(batches) > _STRIP else ""
    yield f"{extent}; {drawn}numbers are of the newest"
    checks = [c for c in record["checks"] if not c["gone"]]
    yield from _legend(checks, out)
    for finding in finding_lines(facts):
        if finding["state"] == RESOLVED:
            continue
        since = finding["batches"][0]
        word = styled_label(Status(finding["status"]), out)
        yield ""
        count = plural(len(finding["batches"]), "batch")
        yield f"{word} {finding['label']}: since {since}, {count}"
        yield f"  {finding['message']}"
        if finding["cause"] is not None:
            yield f"  follows from {finding['cause'][1]}"
    yield from _waiting(facts)
    column = None
    for check in sorted(checks, key=lambda c: (c["column"], c["rank"], c["label"])):
        if check["column"] != column:
            column = check["column"]
            yield ""
            yield out.style(column or "the whole model", "bold")
        yield _line(check, out)


def _legend(checks: Iterable[Mapping[str, Any]], out: Terminal) -> Iterator[str]:
    """What the marks in the strips of these checks are."""
    shown = {letter for check in checks for letter in check["strip"][-_STRIP:]}
    words: dict[str, list[str]] = {}
    for letter, word in _WORDS.items():
        if letter in shown:
            words.setdefault(_BLOCKS[letter] if out.unicode else letter, []).append(word)
    if words:
        yield ", ".join(f"{mark} {' or '.join(meant)}" for mark, meant in words.items())


def _waiting(facts: ModelFacts) -> Iterator[str]:
    """The batches that wait for a review, and what to do about them."""
    batches = list(facts.waiting)
    if not batches:
        return
    named = printable(first_of(batches, _NAMED))
    yield ""
    yield f"{plural(len(batches), 'batch waits', 'batches wait')} for a review"
    yield f"  {named}: dqsql review list --select {printable(shlex.quote(facts.name))}"


def _line(check: Mapping[str, Any], out: Terminal) -> str:
    shown = check["strip"][-_STRIP:]
    text = padded(shorten(check["label"], _LABEL), _LABEL)
    strip = "".join(_styled(letter, out) for letter in shown) if out.unicode else shown
    newest = ""
    for series in check["series"][:1]:
        value = series["values"][-1]
        newest = "" if value is None else f"{number(value):<9} {_named(series)}"
    return f"  {text} {strip}{' ' * (_STRIP - len(shown))} {newest}".rstrip()


def _named(series: Mapping[str, Any]) -> str:
    """What a number is of: a monitor has many metrics, and a check need not name its own."""
    what = series["metric"] or series["title"]
    return "share of rows that pass" if what.startswith("compliance(") else shorten(what, _METRIC)


def _styled(letter: str, out: Terminal) -> str:
    color = _COLORS.get(letter)
    return out.style(_BLOCKS[letter], color) if color else _BLOCKS[letter]
