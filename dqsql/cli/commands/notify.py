"""`dqsql notify`: tell people of findings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.report.text import printable


@click.command("notify", cls=Command)
@options(*PROJECT)
@option("--dry-run", is_flag=True, help="Show what would be sent, and to whom.")
@options("output")
@with_session
def command(session: Session, *, dry_run: bool, **where: Any) -> int:
    """Send the messages that `on_finding` sets up; `dqsql run` does so at its end.

    There is one message when a finding is opened and one when it is resolved. Exits with 2 if a
    message could not be delivered.
    """
    from dqsql.runner.notify import notify

    with session.progress() as progress:
        outcome = notify(dry_run=dry_run, step=progress.step, **where)
    code = EXIT_ERROR if outcome.problems and not dry_run else 0
    sent = [{"route": r.name, "findings": [asdict(n) for n in ns]} for r, ns in outcome.sent]
    session.print_outcome(code, sent=sent, problems=list(outcome.problems))
    for route, notices in outcome.sent:
        session.say(f"{'Would send' if dry_run else 'Sent'} to {printable(route.name)}:")
        for notice in notices:
            session.say(f"  {notice.line}")
    for problem in outcome.problems:
        session.warn(problem)
    if not outcome.sent and (dry_run or not outcome.problems):
        session.say("Nothing to send.")
    return code
