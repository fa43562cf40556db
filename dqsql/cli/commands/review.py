"""`dqsql review`: a person's verdicts on batches with findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.completion import complete_model
from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, SELECTION, option, options
from dqsql.cli.session import Session, with_session
from dqsql.model.by_key import by_key
from dqsql.model.wording import in_segments, plural
from dqsql.report.findings import check_label
from dqsql.report.text import printable

if TYPE_CHECKING:
    from dqsql.runner.review import Verdict, WaitingFinding

_SHOWN_CHECKS = 20
_NONE = "No batch waits for a review."
_STAYS = "its checks could not be evaluated; the next run applies the review"


@click.group("review")
def command() -> None:
    """Accept or reject batches with findings, and list those that wait for a review.

    Monitors learn from accepted batches only.
    """


def _verdict(function: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        options("reason", "author"),
        click.option("--all", "every", is_flag=True, help="All batches that wait for a review."),
        option("--until", "last", metavar="BATCH", help="The waiting batches up to this one."),
        option("--from", "first", metavar="BATCH", help="The waiting batches from this one on."),
        # As other commands name batches.
        click.option("--batch", "named", multiple=True, hidden=True),
        click.argument("batches", nargs=-1, metavar="[BATCH...]"),
        click.argument("model", shell_complete=complete_model),
    ):
        function = decorate(function)
    return function


@command.command("accept", cls=Command)
@_verdict
@options(*PROJECT, "output")
@with_session
def accept(session: Session, **given: Any) -> int:
    """Accept BATCHes of MODEL: they are good despite the findings, and monitors learn from them.

    --from and --until (both inclusive) and --all choose among the batches that wait for a review.
    """
    return _review(session, "accept", **given)


@command.command("reject", cls=Command)
@_verdict
@options(*PROJECT, "output")
@with_session
def reject(session: Session, **given: Any) -> int:
    """Reject BATCHes of MODEL: they are bad, and monitors do not learn from them.

    --from and --until (both inclusive) and --all choose among the batches that wait for a review.

    A batch that was repaired and passes when it is run again (dqsql run --batch) is accepted.
    """
    return _review(session, "reject", **given)


@command.command("list", cls=Command)
@options(*SELECTION, *PROJECT, "output")
@with_session
def list_waiting(
    session: Session, *, select: Sequence[str], exclude: Sequence[str], **where: Any
) -> int:
    """List the batches that wait for a review, with their findings of severity error."""
    from dqsql.runner.review import waiting

    with session.progress() as progress:
        batches = waiting(step=progress.step, select=select, exclude=exclude, **where)
    session.print_outcome(waiting=[asdict(b) for b in batches])
    for batch in batches:
        name = session.out.style(printable(f"{batch.model} {batch.batch}"), "bold")
        session.say(f"{name} ({plural(batch.rows, 'row')})")
        for line in lines_of(batch.findings):
            session.say(printable(f"  {line}"))
    if batches:
        session.say(f"{plural(len(batches), 'batch waits', 'batches wait')} for a review.")
    else:
        session.say_empty(_NONE, **where)
    return 0


def lines_of(findings: Sequence[WaitingFinding]) -> Iterator[str]:
    """A line for each check: what it found in the batch as a whole, else in the first segment.

    Of very many the first.
    """
    checks = by_key((f.check_id, f) for f in findings)
    for alike in islice(checks.values(), _SHOWN_CHECKS):
        first = min(alike, key=lambda f: f.segment or "")
        check = check_label(first.check, first.column)
        yield f"{check}: {first.message}{in_segments(first.segment, (f.segment for f in alike))}"

    if len(checks) > _SHOWN_CHECKS:
        yield f"... and {len(checks) - _SHOWN_CHECKS} more: --output json has all"


def _review(session: Session, verdict: Verdict, *, named: Sequence[str], **given: Any) -> int:
    from dqsql.runner.review import review

    given["batches"] = (*given["batches"], *named)
    with session.progress() as progress:
        reviewed = review(verdict=verdict, step=progress.step, **given)
    session.print_outcome(reviewed=[asdict(r) for r in reviewed])
    for one in reviewed:
        change = f"{one.before} -> {one.after}" if one.after != one.before else f"{one.after}"
        note = f" ({_STAYS})" if one.after == "incomplete" else ""
        session.say(printable(f"{one.model} {one.batch}: {change}{note}"))
    for one in reviewed:
        if one.note:
            session.say(printable(f"note: {one.note}"))
    if not reviewed:
        ranged = given["first"] is not None or given["last"] is not None
        session.say(f"No batch of {given['model']} in this range waits." if ranged else _NONE)
    return 0
