"""`dqsql export`: the tables as a DuckDB file or as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, options
from dqsql.cli.session import Session, with_session
from dqsql.model.wording import plural
from dqsql.report.text import printable


@click.command("export", cls=Command)
@click.argument("destination", type=click.Path(path_type=Path), metavar="FILE.duckdb|FOLDER")
@options(*PROJECT)
@with_session
def command(session: Session, *, destination: Path, **where: Any) -> int:
    """Copy the tables for tools that cannot read Delta tables.

    A name that ends with .duckdb makes a DuckDB file; any other name makes a folder with one
    Parquet file per table.
    """
    from dqsql.runner.upkeep import export

    names = export(destination, **where)
    session.say(f"Wrote {plural(len(names), 'table')} to {printable(str(destination))}")
    return 0
