"""`dqsql report`: what is stored, on one page of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import GLOBAL, PROJECT, SELECTION, options, words
from dqsql.cli.session import Session, with_session
from dqsql.model.wording import plural
from dqsql.report.text import printable


@click.command("report", cls=Command)
@options(*SELECTION, *PROJECT)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    envvar="DQSQL_DAYS",
    help="How many days of batches to show [default: 90].",
)
@click.option(
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="DQSQL_OUTPUT_FILE",
    help="The file to write [default: target/report.html of the project].",
)
@options("output", *GLOBAL)
@with_session
def command(
    session: Session,
    *,
    project_dir: Path,
    select: Sequence[str],
    exclude: Sequence[str],
    days: int | None,
    output_file: Path | None,
    output: str,
    **where: Any,
) -> int:
    """Write a report of the newest batches: one HTML file that needs nothing but itself.

    Batches by status, findings by batch, charts of what monitors watch, and what they have learned.
    Reads the warehouse tables only.
    """
    from dqsql.runner.report import DAYS, write_report

    with session.progress() as progress:
        made = write_report(
            project_dir,
            days=days or DAYS,
            output_file=output_file,
            select=words(select),
            exclude=words(exclude),
            step=progress.step,
            **where,
        )
    if session.json:
        session.print_json(
            {
                "status": "success",
                "exit_code": 0,
                "path": str(made.path),
                "models": made.models,
                "batches": made.batches,
                "findings": made.findings,
            }
        )
    if not made.models:
        session.say("No batch has been checked yet: the report is empty until `dqsql run`.")
    else:
        session.say(
            f"{plural(made.models, 'check model')}, {plural(made.batches, 'batch')},"
            f" {plural(made.findings, 'finding')}."
        )
    session.say(printable(f"Wrote {made.path}"))
    return 0
