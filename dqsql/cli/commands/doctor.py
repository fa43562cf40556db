"""`dqsql doctor`: whether the tables hold together."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, options
from dqsql.cli.session import Session, with_session
from dqsql.model.wording import plural
from dqsql.report.text import printable


@click.command("doctor", cls=Command)
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@options(*PROJECT, "output")
@with_session
def command(session: Session, *, repair: bool, **where: Any) -> int:
    """Compare the ledger with every table, and the tables' logs with their files.

    Exits with 0 if nothing is wrong or everything was repaired, with 1 if something is wrong or
    there are no tables, with 2 if the tables cannot be read.
    """
    from dqsql.runner.upkeep import doctor

    report = doctor(repair=repair, **where)
    session.print_outcome(report.exit_code, **asdict(report))
    for ailment in report.ailments:
        word = "mended" if ailment.mended else "note" if ailment.harmless else "wrong"
        session.say(f"{word}: {ailment.table}: {printable(ailment.what)}")
        session.say(f"    {printable(ailment.remedy)}")
    wrong = sum(not a.harmless and not a.mended for a in report.ailments)
    tables = plural(report.tables, "table")
    if not report.tables:
        session.say(f"There are no tables in {printable(report.location)}: no run has been there")
    elif not wrong:
        session.say(f"{tables} in {printable(report.location)}: nothing is wrong")
    else:
        session.say(f"{tables} in {printable(report.location)}: {plural(wrong, 'thing')} wrong")
        if not repair:
            session.say("`dqsql doctor --repair` repairs what can be repaired")
    return report.exit_code
