"""The entry point: `dqsql`."""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from dqsql.cli import group
from dqsql.cli.group import LazyGroup
from dqsql.cli.options import GLOBAL, options
from dqsql.engine import late_pandas

# Of matrices as small as histories are, threads take longer to meet than to multiply: a fifth of
# Python's processor time of a first run. It is read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A new command is one line here, and a module with a click command called `command`.
COMMANDS = {
    "init": "Write a starter project.",
    "debug": "Check the installation, project and connection.",
    "ls": "List check models and checks.",
    "compile": "Write the SQL of checks, without running it.",
    "run": "Check the batches that are new.",
    "retry": "Check again what failed in the last run.",
    "fit": "Learn and show the bounds of monitors.",
    "backtest": "Replay monitors over stored batches.",
    "explain": "Explain one verdict, and compute it again.",
    "review": "Accept or reject batches with findings.",
    "finding": "List, assign, mute and resolve findings.",
    "notify": "Send messages about findings.",
    "report": "Write what is stored as one page of HTML.",
    "index": "Build and show the index of a lake's patterns.",
    "profile": "Show what is in a relation.",
    "suggest": "Suggest checks for a relation.",
    "contract": "Read, write and compare data contracts.",
    "session": "Keep a Spark session warm for commands.",
    "doctor": "Check and repair the warehouse tables.",
    "export": "Copy the tables to DuckDB or Parquet.",
    "docs": "Print the reference as Markdown.",
    "clean": "Remove the target folder, or old results.",
}


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        # Reads the installed package's metadata, which takes a while.
        from dqsql.version import VERSION

        click.echo(f"dqsql {VERSION}")
        context.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@options(*GLOBAL)
@click.option(
    "--version",
    "-v",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
@click.pass_context
def cli(context: click.Context, /, **given: Any) -> None:
    """Data quality for Spark, in SQL.

    Exits with 0 when all is well, with 1 when a check of severity error failed, and with 2 when
    dqsql could not do its work.
    """
    context.obj = {
        name: value
        for name, value in given.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def main() -> None:
    """Run the program."""
    group.ends_with_command = late_pandas.postpones = True
    cli.main(prog_name="dqsql")
