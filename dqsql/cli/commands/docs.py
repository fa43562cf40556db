"""`dqsql docs`: the reference, as Markdown."""

from __future__ import annotations

from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session


@click.group("docs")
def command() -> None:
    """Print the reference as Markdown."""


@command.command("tables", cls=Command)
@with_session
def tables(session: Session, **_: Any) -> int:
    """Print what the columns of the warehouse tables mean."""
    from dqsql.cli.reference import tables_as_markdown

    session.out.line(tables_as_markdown())
    return 0


@command.command("annotations", cls=Command)
@with_session
def print_annotations(session: Session, **_: Any) -> int:
    """Print the checks and metrics that come with dqsql, with their formulas."""
    from dqsql.cli.reference import annotations_as_markdown

    session.out.line(annotations_as_markdown())
    return 0


@command.command("settings", cls=Command)
@with_session
def print_settings(session: Session, **_: Any) -> int:
    """Print what the settings of checks, models, the project and targets mean."""
    from dqsql.cli.reference import settings_as_markdown

    session.out.line(settings_as_markdown())
    return 0


@command.command("commands", cls=Command)
@with_session
def print_commands(session: Session, **_: Any) -> int:
    """Print all commands with their options."""
    from dqsql.cli.reference import commands_as_markdown

    root = click.get_current_context().find_root().command
    if isinstance(root, click.Group):
        session.out.line(commands_as_markdown(root))
    return 0


@command.command("views", cls=Command)
@option(
    "--dialect",
    type=click.Choice(["spark", "duckdb"]),
    default="spark",
    help="Who runs the script [default: spark].",
)
@options(*PROJECT)
@with_session
def views(session: Session, *, dialect: str, **where: Any) -> int:
    """Print the SQL script that makes the views for dashboards over this project's tables."""
    from dqsql.report.views import script
    from dqsql.runner.where import Where

    session.out.line(script(Where(**where).project().target, dialect))
    return 0
