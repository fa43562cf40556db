"""The options of all commands, each defined once. Every one is also read from `DQSQL_<NAME>`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from dqsql.cli.completion import complete_selector

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = click.Path(file_okay=False, path_type=Path)


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # Before click 8.2 it is not generic.
    _Choice = click.Choice


class OutputChoice(_Choice):
    """A way of output. One of another command may be in the environment for all of them: `text`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click does, but for what the environment says."""
        source = ctx and param and param.name and ctx.get_parameter_source(param.name)
        if source is ParameterSource.ENVIRONMENT and value in _OUTPUTS:
            value = value if value in self.choices else _OUTPUTS[0]
        return super().convert(value, param, ctx)


_OUTPUTS = ("text", "json", "github", "name", "path")


class _BatchNames(click.types.StringParamType):
    """Names of batches, which may have blanks; in the environment, commas part them."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """The names, without the blanks around them."""
        return [name for part in rv.split(",") if (name := part.strip())]


def option(*flags: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that gives a command an option, which is also read from `DQSQL_<FLAG>`.

    Not `DQSQL_BATCHES`: variables are named as the first flag is, not as the parameter.
    """
    envvar = "DQSQL_" + flags[0].split("/")[0].lstrip("-").replace("-", "_").upper()
    return click.option(*flags, envvar=envvar, **settings)


# In dbt's words where dbt has them.
_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "select": option(
        "--select",
        "-s",
        "-m",
        "--models",
        multiple=True,
        metavar="SELECTOR...",
        shell_complete=complete_selector,
        help="Check models: names, tag:.., path:.., state:..; several are a union.",
    ),
    "exclude": option(
        "--exclude",
        multiple=True,
        metavar="SELECTOR...",
        shell_complete=complete_selector,
        help="Check models to leave out of the selection.",
    ),
    "selector": option(
        "--selector", metavar="NAME", help="The name of a selection in selectors.yml."
    ),
    "target": option("--target", "-t", help="The target of the profile to run against."),
    "profile": option("--profile", help="The profile to use instead of the project's."),
    "profiles_dir": option("--profiles-dir", type=_FOLDER, help="The folder with profiles.yml."),
    "project_dir": option(
        "--project-dir", type=_FOLDER, default=Path(), help="The project's folder [default: here]."
    ),
    "vars": option(
        "--vars", metavar="YAML", help="Variables that override the project's: '{name: value}'."
    ),
    "full_refresh": option(
        "--full-refresh",
        "-f",
        is_flag=True,
        help="Check all batches again and replace what is stored.",
    ),
    "fail_fast": option(
        "--fail-fast", "-x", is_flag=True, help="Stop after the first check model with a failure."
    ),
    "batches": option(
        "--batch",
        "batches",
        multiple=True,
        type=_BatchNames(),
        metavar="BATCH...",
        help="Check these batches, new or not.",
    ),
    "event_time_start": option(
        "--event-time-start", metavar="TIME", help="Check the batches from this one on, new or not."
    ),
    "event_time_end": option(
        "--event-time-end", metavar="TIME", help="Check the batches before this one, new or not."
    ),
    "auto": option(
        "--auto",
        multiple=True,
        metavar="TABLE",
        help="Watch tables without check files: schema.table, or all of a schema: 'sales.*'.",
    ),
    "batch_by": option(
        "--batch-by",
        metavar="EXPR",
        help="With --auto: what names the batch of a row [default: the date that a table is"
        " partitioned by].",
    ),
    "store_failures": option(
        "--store-failures", is_flag=True, help="Keep samples of failing rows in dq_failures."
    ),
    "quarantine": option(
        "--quarantine/--no-quarantine",
        default=None,
        help="Split rows into good and quarantined tables [default: as in the project's settings].",
    ),
    "only_new": option(
        "--only-new",
        is_flag=True,
        help="Exit with 0 if nothing is new, even if batches wait for a review.",
    ),
    "timing": option(
        "--timing",
        is_flag=True,
        help="Print to standard error where the seconds went, by phase and model.",
    ),
    "dbt_tests": option(
        "--dbt-tests/--no-dbt-tests",
        default=None,
        help="Adopt the generic tests of a dbt project [default: as in its settings].",
    ),
    "state": option(
        "--state", type=_FOLDER, help="Earlier artefacts, for state:modified, result:fail .."
    ),
    "threads": option(
        "--threads",
        type=click.IntRange(min=1),
        help=(
            "How many models to check at a time [default: as in the profile, else 1;"
            " with little data, one per core]."
        ),
    ),
    "output": option(
        "--output",
        type=OutputChoice(["text", "json"]),
        default="text",
        help="json prints one JSON object to standard output and nothing else.",
    ),
    "run_output": option(
        "--output",
        type=OutputChoice(["text", "json", "github"]),
        default="text",
        help=(
            "json prints one JSON object to standard output and nothing else; github also"
            " marks findings at the lines of the files, for GitHub Actions."
        ),
    ),
    "reason": option(
        "--reason", required=True, metavar="TEXT", help="The reason, which is stored."
    ),
    "author": option(
        "--author", metavar="NAME", help="Your name, which is stored [default: your user name]."
    ),
    "log_format": option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="json prints one JSON object per event.",
    ),
    "quiet": option("--quiet", "-q", is_flag=True, help="Print errors and failures only."),
    "color": option(
        "--color/--no-color",
        "--use-colors/--no-use-colors",
        default=None,
        help="Colour [default: on a terminal]; NO_COLOR is respected.",
    ),
    "debug": option("--debug", "-d", is_flag=True, help="Show the traceback of errors."),
}

GLOBAL = ("log_format", "quiet", "color", "debug")
PROJECT = ("project_dir", "profiles_dir", "profile", "target", "vars")
TESTS = ("dbt_tests",)
TABLES = ("auto", "batch_by")
STATE = ("state",)
SELECTION = ("select", "exclude")
# Also those of selectors.yml by themselves, and artefacts to compare with.
SELECTOR = ("selector",)


def options(*names: str) -> Callable[[F], F]:
    """Return a decorator that gives a command the named options, in this order."""

    def decorate(function: F) -> F:
        for name in reversed(names):
            function = _OPTIONS[name](function)
        return function

    return decorate


def expand_multiple(args: Sequence[str], params: Iterable[click.Parameter]) -> list[str]:
    """Return the arguments with `--select a b` written as `--select a --select b`.

    click's options take a fixed number of values; dbt's take all that follow. A command with
    positional arguments is left alone, since they could not be told apart.
    """
    known = list(params)
    if any(isinstance(p, click.Argument) for p in known):
        return list(args)
    repeatable = {
        flag for p in known if isinstance(p, click.Option) and p.multiple for flag in p.opts
    }
    expanded: list[str] = []
    current: str | None = None
    values = 0
    for position, token in enumerate(args):
        if token == "--":
            return [*expanded, *args[position:]]
        if token.startswith("-") and token != "-":
            flag, equals, _ = token.partition("=")
            current = flag if flag in repeatable else None
            values = 1 if equals else 0
        elif current is not None:
            if values:
                expanded.append(current)
            values += 1
        expanded.append(token)
    return expanded


def words(values: Sequence[str]) -> tuple[str, ...]:
    """Return the selectors in repeated options, each of which may hold several."""
    return tuple(word for value in values for word in value.split())
