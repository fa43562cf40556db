"""`dqsql finding`: what people do about findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.completion import complete_check
from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, SELECTION, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import UsageError
from dqsql.model.results import Status, state_text
from dqsql.model.wording import plural
from dqsql.report.console import styled_label
from dqsql.report.findings import SHORT_NAME, check_label
from dqsql.report.text import printable

if TYPE_CHECKING:
    from dqsql.runner.finding import Incident

_CHECKS = click.argument(
    "checks", nargs=-1, required=True, metavar="CHECK...", shell_complete=complete_check
)
_DAY = click.DateTime(["%Y-%m-%d"])


@click.group("finding")
def command() -> None:
    """List open findings, acknowledge, assign, mute, unmute, resolve and reopen them.

    CHECK is the id of a check, as `dqsql ls` shows it, or of a finding. Batches do not change:
    see `dqsql review` for these.
    """


@command.command("list", cls=Command)
@options(*SELECTION)
@option("--assigned-to", metavar="NAME", help="Only those assigned to this person.")
@options(*PROJECT, "output")
@with_session
def list_open(
    session: Session,
    *,
    select: Sequence[str],
    exclude: Sequence[str],
    assigned_to: str | None,
    **where: Any,
) -> int:
    """List the findings that are not resolved, whom they are assigned to and who reads the data."""
    from dqsql.runner.finding import open_findings

    with session.progress() as progress:
        findings = open_findings(
            step=progress.step, select=select, exclude=exclude, assigned_to=assigned_to, **where
        )
    session.print_outcome(findings=list(findings))
    for row in findings:
        _print(session, row)
    if findings:
        session.say(f"{plural(len(findings), 'open finding')}.")
    else:
        session.say_empty("No finding is open.", **where)
    return 0


def _print(session: Session, row: Mapping[str, Any]) -> None:
    label = check_label(row["check_name"], row["column_name"], SHORT_NAME)
    title = session.out.style(printable(f"{row['model']}: {label}"), "bold")
    extent = row["last_batch"]
    if row["batch_count"] > 1:
        extent = f"{row['batch_count']} batches, {row['first_batch']} to {row['last_batch']}"
    word = styled_label(Status(row["status"]), session.out)
    session.say(f"{word} {title} ({printable(extent)})")
    assigned = f", assigned to {row['assigned_to']}" if row["assigned_to"] else ""
    why = f": {row['reason']}" if row["reason"] else ""
    lines = (row["message"], row["impact"], f"{state_text(row)}{assigned}{why}")
    for line in (*filter(None, lines), f"id {row['finding_id']}"):
        session.say(printable(f"  {line}"))


@command.command("mute", cls=Command)
@_CHECKS
@options("reason", "author")
@option(
    "--until",
    "mute_until",
    type=_DAY,
    required=True,
    help="The first day on which messages are sent again.",
)
@options(*PROJECT, "output")
@with_session
def mute(session: Session, *, mute_until: datetime, **given: Any) -> int:
    """Stop messages about the open findings of CHECKs until a day."""
    from dqsql.runner.finding import acknowledge

    if mute_until.date() <= datetime.now(UTC).date():
        raise UsageError(
            f"--until {mute_until:%Y-%m-%d} is not in the future",
            hint="it is the first day on which messages are sent again, in UTC",
        )
    return _changed(session, acknowledge, mute_until=mute_until.date(), **given)


@command.command("assign", cls=Command)
@_CHECKS
@option("--to", required=True, metavar="NAME", help="Name of the person; '' for nobody.")
@options(*PROJECT, "output")
@with_session
def assign_to(session: Session, *, to: str, **given: Any) -> int:
    """Assign the open findings of CHECKs to somebody."""
    from dqsql.runner.finding import assign

    return _changed(session, assign, to=to or None, **given)


def _add(name: str, help_text: str, *asked: str) -> None:
    """Add a command that is a function of `runner.finding` by that name."""

    @command.command(name, cls=Command, help=help_text)
    @_CHECKS
    @options(*asked, "author", *PROJECT, "output")
    @with_session
    def change(session: Session, **given: Any) -> int:
        from dqsql.runner import finding

        return _changed(session, getattr(finding, name), **given)


_add(
    "acknowledge",
    "Acknowledge the open findings of CHECKs: no more messages are sent about them.",
    "reason",
)
_add("unmute", "Send messages about the muted findings of CHECKs again, from now on.")
_add(
    "resolve",
    "Resolve the open findings of CHECKs.\n\n"
    "The next batch in which a check finds something opens a new finding.",
    "reason",
)
_add(
    "reopen",
    "Open findings again that were acknowledged, muted or resolved; messages are sent again.",
)


def _changed(
    session: Session,
    change: Callable[..., tuple[Incident, ...]],
    *,
    checks: Sequence[str],
    **given: Any,
) -> int:
    with session.progress() as progress:
        incidents = change(checks, step=progress.step, **given)
    session.print_outcome(findings=[asdict(f) for f in incidents])
    for each in incidents:
        assigned = f", assigned to {each.assigned_to}" if each.assigned_to else ""
        until = f" until {each.muted_until:%Y-%m-%d}" if each.muted_until else ""
        session.say(printable(f"{each.finding_id}: {each.state}{until}{assigned}"))
    return 0
