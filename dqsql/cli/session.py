"""What every command shares: where to print, how, and what to do with errors."""

from __future__ import annotations

import functools
import logging
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dqsql.cli.group import EXIT_ERROR
from dqsql.cli.options import GLOBAL, options, words
from dqsql.errors import DqsqlError
from dqsql.json_text import to_json
from dqsql.model.project import models_upstream
from dqsql.report.console import ConsoleListener
from dqsql.report.errors import failure_record, print_error
from dqsql.report.events import JsonListener
from dqsql.report.terminal import Progress, Terminal, standard_terminals
from dqsql.report.text import printable

if TYPE_CHECKING:
    from dqsql.runner.api import CompileResult


@dataclass(frozen=True, slots=True)
class Session:
    """One invocation of a command.

    `out` is for results, `err` for errors and progress; `log` is where the lines about the work
    go: standard output, unless that is kept for one JSON object.
    """

    out: Terminal
    err: Terminal
    project_dir: Path = field(default_factory=Path)
    quiet: bool = False
    json: bool = False
    json_log: bool = False
    debug: bool = False
    github: bool = False

    @property
    def log(self) -> Terminal:
        """Where the lines about the work go."""
        return self.err if self.json else self.out

    def say(self, text: str = "") -> None:
        """Print a line for people; not when quiet, nor when the output is JSON."""
        if not self.quiet and not self.json:
            self.out.line(text)

    def say_empty(self, text: str, **where: Any) -> None:
        """Say that a list is empty, and where no run has been that could have filled it."""
        from dqsql.runner.warehouse import unused_place

        place = unused_place(**where)
        self.say(text if place is None else printable(f"{text} No run has been in {place}."))

    def warn(self, text: str) -> None:
        """Print a warning to standard error, or as an event where logs are JSON; not when quiet."""
        if self.json_log:
            JsonListener(self.log, quiet=self.quiet).warning(text)
        elif not self.quiet:
            self.err.line(f"{self.err.style('WARNING', 'yellow')} {printable(text)}")

    def print_json(self, value: Any) -> None:
        """Print a value as one JSON object to standard output."""
        self.out.line(to_json(value))

    def print_outcome(self, code: int = 0, /, **values: Any) -> None:
        """Print what the command did as one JSON object, where that is asked for."""
        if self.json:
            status = {0: "success", 1: "fail"}.get(code, "error")
            self.print_json({"status": status, "exit_code": code, **values})

    def progress(self) -> Progress:
        """The spinner on standard error; silent with `--quiet` and JSON logs."""
        silent = self.quiet or self.json_log
        return Progress(Terminal(None) if silent else self.err)

    def listener(
        self, progress: Progress, compiled: CompileResult
    ) -> ConsoleListener | JsonListener:
        """What reports the progress of a run of a project, which says where its checks stand."""
        if self.json_log:
            return JsonListener(self.log, quiet=self.quiet)
        places = {c.id: f"{c.span.file}:{c.span.line}" for p in compiled.plans for c in p.declared}
        return ConsoleListener(
            self.log,
            progress,
            quiet=self.quiet,
            roots=(self.project_dir,),
            places=places,
            upstream=models_upstream(compiled.project.models),
        )

    def print_error(self, error: DqsqlError) -> None:
        """Print an error to standard error, or as an event where logs are JSON."""
        if self.json_log:
            JsonListener(self.log).error(error)
        else:
            print_error(self.err, error, (self.project_dir,))
        if self.debug:
            self.err.line("".join(traceback.format_exception(error)).rstrip())

    def fail(self, error: DqsqlError) -> None:
        """Report that the command could not do its work."""
        if self.json:
            self.print_json(failure_record(error))
        if self.github:
            from dqsql.report.ci import error_annotations

            for line in error_annotations(error, github_prefix(self.project_dir.resolve())):
                self.out.line(line)
        self.print_error(error)


def github_prefix(root: Path) -> str:
    """The project's folder in the repository, with a slash behind it, or nothing."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    base = Path(workspace).resolve() if workspace else Path.cwd().resolve()
    if not root.is_relative_to(base) or root == base:
        return ""
    return f"{root.relative_to(base).as_posix()}/"


def with_session(function: Callable[..., int]) -> Callable[..., None]:
    """Turn a function of a `Session` and options into a command's callback.

    The options of all commands and `--output` are the session's and not handed on; `select` and
    `exclude` are lists of words. The function returns the exit code. Errors of dqsql are printed
    and exit with 2; whatever else is raised is a defect and passes through.
    """

    @options(*GLOBAL)
    @functools.wraps(function)
    def callback(**given: Any) -> None:
        context = click.get_current_context()
        session = _session(context, given)
        given.update({key: words(given[key]) for key in ("select", "exclude") if key in given})
        try:
            code = function(session, **given)
        except DqsqlError as error:
            session.fail(error)
            code = EXIT_ERROR
        if session.out.failure is not None:
            session.err.line(f"standard output cannot be written: {session.out.failure}")
            code = EXIT_ERROR
        context.exit(code)

    return callback


def _session(context: click.Context, given: dict[str, Any]) -> Session:
    """Make the session of the options that concern it, and take those out of the given ones."""
    values = {name: given.pop(name, None) for name in GLOBAL}
    output = given.pop("output", None)
    for name, value in (context.obj or {}).items():
        # `dqsql --quiet run` is `dqsql run --quiet`; what stands behind the command wins.
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            values[name] = value
    _configure_logging(debug=bool(values["debug"]))
    out, err = standard_terminals(values["color"])
    return Session(
        out=out,
        err=err,
        project_dir=given.get("project_dir") or Path(),
        quiet=bool(values["quiet"]),
        json=output == "json",
        github=output == "github",
        json_log=values["log_format"] == "json",
        debug=bool(values["debug"]),
    )


def _configure_logging(*, debug: bool) -> None:
    """Keep what libraries log off the screen, unless it is asked for.

    Spark's client logs tracebacks of its own for every connection that an interrupt closes;
    whatever matters of them reaches the user as an exception.
    """
    if debug:
        logging.basicConfig(level=logging.INFO)
    elif not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())
