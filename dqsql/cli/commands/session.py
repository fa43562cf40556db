"""`dqsql session`: a Spark session that stays warm between commands."""

from __future__ import annotations

import re
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@click.group("session", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Keep a Spark session warm, so that commands start in a second or two.

    The session is a Spark Connect server on this machine, for you alone. `run`, `suggest`,
    `profile` and all other commands that need Spark find it by themselves: in this project, and in
    others whose settings of Spark are the same, spark.sql.warehouse.dir among them.
    """


@command.command("start", cls=Command)
@options(*PROJECT)
@option(
    "--idle",
    default="30m",
    metavar="TIME",
    help="Stop after this time without use: 90s, 30m, 2h [default: 30m].",
)
@with_session
def start(session: Session, *, idle: str, **where: Any) -> int:
    """Start the warm session of the project's target.

    If the project reads at most 32 MB of files, the session suits small data, and checks large
    data at half the speed. Stop it and start it again when your data has grown.

    On Linux, a process with dqsql's libraries in memory (about 220 MB) runs your commands as long
    as the session lasts, so that they start at once.
    """
    from dqsql.cli import preload_server
    from dqsql.runner import warm

    seconds = _seconds(idle)
    with session.progress() as progress:
        progress.step("Starting Spark")
        status, started = warm.start(idle=seconds, **where)
    # The one beside a session that is running may have been killed.
    preload_server.start(anew=started)
    session.say(f"{'Started' if started else 'Already running'}: {status}")
    return 0


@command.command("status", cls=Command)
@options(*PROJECT)
@with_session
def status(session: Session, **where: Any) -> int:
    """Show whether a warm session is running; exits with 1 if there is none."""
    from dqsql.runner import warm

    warm_session = warm.status(**where)
    session.say(str(warm_session) if warm_session else "No warm session is running.")
    return 0 if warm_session else 1


@command.command("stop", cls=Command)
@options(*PROJECT)
@with_session
def stop(session: Session, **where: Any) -> int:
    """Stop the warm session of the project's target."""
    from dqsql.runner import warm

    stopped = warm.stop(**where)
    session.say(f"Stopped: {stopped}" if stopped else "No warm session is running.")
    return 0


def _seconds(text: str) -> float:
    """A duration in seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smh])", text.strip())
    if match is None or float(match.group(1)) <= 0:
        raise UsageError(f"--idle takes a time such as 90s, 30m or 2h, not {text!r}")
    return float(match.group(1)) * _UNITS[match.group(2)]
