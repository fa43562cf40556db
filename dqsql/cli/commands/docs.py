"""`dqsql docs`: the reference, as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.reference import (
    annotations_as_markdown,
    commands_as_markdown,
    settings_as_markdown,
    tables_as_markdown,
)
from dqsql.cli.session import Session, with_session


@click.group("docs")
def command() -> None:
    """Print the reference as Markdown."""


def _all_commands() -> str:
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)
    return commands_as_markdown(root)


def _page(name: str, page: Callable[[], str], help_text: str) -> None:
    """Add a command that prints a page of the reference."""

    @command.command(name, cls=Command, help=help_text)
    @with_session
    def show(session: Session) -> int:
        session.out.line(page())
        return 0


_page("tables", tables_as_markdown, "Print what the columns of the warehouse tables mean.")
_page(
    "annotations",
    annotations_as_markdown,
    "Print the checks and metrics that come with dqsql, with their formulas.",
)
_page(
    "settings",
    settings_as_markdown,
    "Print what the settings of checks, models, the project and targets mean.",
)
_page("commands", _all_commands, "Print all commands with their options.")


@command.command("views", cls=Command)
@option(
    "--dialect",
    type=click.Choice(["spark", "duckdb"]),
    default="spark",
    help="The engine that will run the script [default: spark].",
)
@options(*PROJECT)
@with_session
def views(session: Session, *, dialect: str, **where: Any) -> int:
    """Print the SQL script that makes the views for dashboards over this project's tables."""
    from dqsql.report.views import script
    from dqsql.runner.compilation import Where

    session.out.line(script(Where(**where).project().target, dialect))
    return 0
