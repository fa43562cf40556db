"""The group of commands: imported one by one, when called."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from dqsql.cli.completion import complete_selector
from dqsql.cli.interrupts import KILLED, Terminated, heed_sigterm, signal_of
from dqsql.cli.options import expand_multiple
from dqsql.errors import UsageError, nearest
from dqsql.report.terminal import standard_terminals

EXIT_ERROR = 2
ends_with_command = False
"""Whether nothing comes after the command, so that no memory need be given back."""


class Command(click.Command):
    """A command whose repeatable options take several values: `--select a b`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after the command's name."""
        given = expand_multiple(args, self.params)
        try:
            # Parsing takes the arguments off the list.
            return super().parse_args(ctx, [*given])
        except click.UsageError as error:
            if _asks_for_json(given):
                _print_failure(error)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may follow: click knows nothing of the second value of `--select a b`."""
        completions = super().shell_complete(ctx, incomplete)
        selecting = ctx.params.get("select") or ctx.params.get("exclude")
        if completions or not selecting or any(isinstance(p, click.Argument) for p in self.params):
            return completions
        return complete_selector(ctx, None, incomplete)


def _asks_for_json(args: Sequence[str]) -> bool:
    """Whether the output is to be JSON, as far as a command line tells that cannot be parsed."""
    asked = [b for a, b in pairwise(args) if a == "--output"]
    asked += [a.removeprefix("--output=") for a in args if a.startswith("--output=")]
    return (asked or [os.environ.get("DQSQL_OUTPUT", "")])[-1] == "json"


def _print_failure(error: click.UsageError) -> None:
    """Print a mistake in the options as `--output json` prints every other error."""
    from dqsql.json_text import to_json
    from dqsql.report.errors import failure_record

    click.echo(to_json(failure_record(UsageError(error.format_message()))))


class LazyGroup(click.Group):
    """A group that knows its commands by a table of what they do.

    Each is the click command called `command` in the module of its name.

    As a program it turns every outcome into an exit code: 0, 1 and 2 as the commands say, 2 for a
    wrong command line and for a defect of dqsql, 130 for an interrupt, 143 for
    SIGTERM.
    """

    def __init__(self, *args: Any, entries: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called `cmd_name`; None if there is none."""
        if cmd_name not in self._entries:
            return None
        command = importlib.import_module(f"dqsql.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one gets the nearest known name as a hint."""
        if args and args[0] not in self._entries and not args[0].startswith("-"):
            hint = nearest(args[0], self._entries) or "see dqsql --help"
            ctx.fail(f"No such command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._entries.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a program: parse, call the command, exit."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            heed_sigterm()
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort as error:
            _interrupted(error)
        except Exception as error:
            # The last resort of a program: Python itself would exit with 1, which here means
            # that a check failed. Nothing is hidden, the traceback is printed whole.
            _defect(error)
        sys.exit(code if isinstance(code, int) else 0)


def _interrupted(error: click.Abort) -> NoReturn:
    if ends_with_command:
        # The end is not to be interrupted, too.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    # click turns both an interrupt and an EOFError into Abort; only the first is the user's wish.
    if isinstance(error.__cause__, EOFError):
        _defect(error.__cause__)
    said = "Terminated" if isinstance(error.__cause__, Terminated) else "Interrupted"
    standard_terminals(None)[1].line(f"{said}; batches not finished are checked next time.")
    code = KILLED + signal_of(error.__cause__)
    if ends_with_command:
        from dqsql.engine.head_start import end_all

        # Python itself would wait for the models in other threads, as long as Spark takes.
        end_all()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _defect(error: BaseException) -> NoReturn:
    terminal = standard_terminals(None)[1]
    terminal.line("".join(traceback.format_exception(error)).rstrip())
    terminal.line("This is a bug in dqsql: please report it with the lines above.")
    sys.exit(EXIT_ERROR)
