"""The reference as Markdown, made of what the code says: checks, metrics, settings, commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from dqsql.errors import DqsqlError
from dqsql.loading import shipped_macros
from dqsql.loading.documents import read_document
from dqsql.model.monitors import monitor_specs
from dqsql.model.table import Table
from dqsql.model.tables import ALL_TABLES, PATTERN_INDEX
from dqsql.report.fingerprints import macro_texts
from dqsql.report.manifest import macro_records
from dqsql.resources import resource_dir
from dqsql.templating import MacroDef, MacroLibrary

_PREFIXES = {"check": "Checks", "metric": "Metrics"}
_MADE = "This page is what `dqsql docs {0}` prints."
_PLACES = {
    "check": (
        "Checks and monitors",
        "In braces after an annotation: `@mean > 3 {severity: warn}`.",
    ),
    "model": (
        "Check models",
        "In `config(..)`, or with a `+` under `models:` in `dqsql_project.yml` for a folder.",
    ),
    "project": ("The project", "In `dqsql_project.yml`; in a dbt project under `vars: dqsql:`."),
    "profile": (
        "Targets",
        "In `profiles.yml`. Other keys of dbt-spark are allowed there and ignored.",
    ),
}


# Pages of monitors that are not called like them.
_PAGES = {
    "alive": "../silence.md",
    "cadence": "../silence.md",
    "expected_segments": "../silence.md",
    "has_type": "../contracts.md",
    "schema_is": "../contracts.md",
    "stays_unique": "../auto.md",
    "schema": "../annotations.md",
    "pattern": "../patterns.md",
    "row_anomalies": "../rows.md",
    "drift_pvalue": "../drift.md",
    "matches_relation": "../between-relations.md",
}


# --- checks and metrics ------------------------------------------------------------------------


def annotations_as_markdown() -> str:
    """All shipped checks and metrics: what they say, and their formulas."""
    library = MacroLibrary(shipped_macros(), {"pattern_regex": lambda text: f"regex of {text}"})
    records = {r["name"]: r for r in macro_records(shipped_macros())}
    lines = [
        "# Checks and metrics",
        "",
        "All checks and metrics of dqsql. You write a check as it is (`@not_null`) and compare a"
        " metric (`@mean > 3`). On the line of a column, the column is the first argument;"
        " arguments with a question mark are optional. The formula says what is computed: SQL over"
        " aggregates and other metrics. A macro of the same name in your project replaces a"
        " shipped one."
        " [Annotations](../annotations.md) has the grammar, [monitors](../monitors.md) what is"
        " learned from history.",
        "",
        _MADE.format("annotations"),
    ]
    for prefix, title in _PREFIXES.items():
        lines += ["", f"## {title}", ""]
        for name in sorted(n for n in library.macros if n.startswith(f"{prefix}_")):
            lines += _macro(library, library.macros[name], records.get(name, {}))
    return "\n".join(lines)


def _macro(library: MacroLibrary, macro: MacroDef, record: Mapping[str, object]) -> list[str]:
    signature = macro.signature.partition("_")[2].replace("*varargs", "more ..")
    about, formula = str(record.get("description") or ""), _formula(library, macro)
    return [f"### `@{signature}`", "", about, "", "```sql", formula, "```", ""]


def _formula(library: MacroLibrary, macro: MacroDef) -> str:
    """What a macro gives for arguments that are called like its parameters."""
    arguments = [*macro.parameters[: macro.required], *(["more .."] * macro.catches_varargs)]
    try:
        text = library.call(macro.name, arguments)
    except DqsqlError:
        # It looks into its arguments.
        whole = macro_texts(shipped_macros())[macro.name]
        text = whole.partition("%}")[2].rpartition("{%")[0]
    return "\n".join(line.rstrip() for line in _dedented(text) if line.strip())


def _dedented(text: str) -> Iterator[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    width = min((len(x) - len(x.lstrip()) for x in lines[1:]), default=0)
    for at, line in enumerate(lines):
        yield line.strip() if at == 0 else line[width:]


# --- settings ----------------------------------------------------------------------------------


def described_settings() -> Mapping[str, Mapping[str, str]]:
    """What each setting means, by place: `check`, `model`, `project`, `profile`."""
    file = resource_dir("templates") / "reference" / "settings.yml"
    return read_document(file, file.name).data


def settings_as_markdown() -> str:
    """All settings by the place where they stand."""
    # Hands the kinds of monitors in.
    import dqsql.monitors.registry  # noqa: F401

    lines = ["# Settings", "", "An unknown setting is an error.", "", _MADE.format("settings"), ""]
    described = described_settings()
    for place, (title, where) in _PLACES.items():
        rows = [f"| `{name}` | {_cell(text)} |" for name, text in sorted(described[place].items())]
        lines += [f"## {title}", "", where, "", "| setting | meaning |", "|---|---|", *rows, ""]
    lines += ["## Single kinds of monitors", ""]
    lines += ["In braces after the monitor; if it is configurable, also in `config(..)` and in"]
    lines += ["`dqsql_project.yml`, under the monitor's name.", ""]
    lines += ["| monitor | settings | configurable |", "|---|---|---|"]
    for name, spec in sorted(monitor_specs().items()):
        shown = ", ".join(f"`{s}`" for s in sorted(spec.settings)) or "none"
        page = _PAGES.get(name, f"../{name}.md")
        lines.append(f"| [`@{name}`]({page}) | {shown} | {'yes' if spec.configurable else 'no'} |")
    return "\n".join([*lines, ""])


# --- commands ----------------------------------------------------------------------------------


def commands_as_markdown(root: click.Group) -> str:
    """All commands with their arguments and options."""
    lines = [
        "# Commands",
        "",
        "You can also set each option by an environment variable `DQSQL_<OPTION>`, such as"
        " `DQSQL_TARGET`. `--help` after a command prints the same text.",
        "",
        _MADE.format("commands"),
    ]
    for command, context in _shown(root, click.Context(root, info_name="dqsql")):
        lines += _command(command, context)
    return "\n".join([*lines, ""])


def _command(command: click.Command, context: click.Context) -> list[str]:
    lines = ["", f"## `{context.command_path}`", "", _help(command), ""]
    if not isinstance(command, click.Group):
        return [*lines, *_usage(command, context)]
    for inner, its in _shown(command, context):
        lines += [f"### `{its.command_path}`", "", _help(inner), "", *_usage(inner, its), ""]
    return lines


def _shown(
    group: click.Group, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """The commands of a group that are not hidden, with their contexts."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield command, click.Context(command, context, name)


def _usage(command: click.Command, context: click.Context) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = ["```text", f"{context.command_path} {pieces}", "```", ""]
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        # The usage line has the arguments.
        if record is not None and record[1] and "--help" not in parameter.opts:
            rows.append(f"| `{_cell(record[0])}` | {_cell(record[1])} |")
    return [*lines, "| option | meaning |", "|---|---|", *rows] if rows else lines


def _help(command: click.Command) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(" ".join(p.split()) for p in paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- tables --------------------------------------------------------------------------------------


_TABLES = """# Warehouse tables

dqsql writes these tables into the schema of the target. You can build dashboards on them: columns
are only ever added. Columns in **bold** identify a row. All times are instants; `batch_start` and
`batch_end` read the batch's name as UTC.

dqsql also keeps internal tables (`dq_state__*`, `dq_total__*`, `dq_frequency*`), whose columns
depend on your checks; do not build on those.

This page is what `dqsql docs tables` prints.
"""


def tables_as_markdown() -> str:
    """A section for each table: what a row of it is, and its columns."""
    return "\n".join([_TABLES, *map(_table, (*ALL_TABLES, PATTERN_INDEX))])


def _table(table: Table) -> str:
    rows = [
        f"| {_column_name(field.name, table.keys)} | `{field.kind}` | {_cell(field.description)} |"
        for field in table.fields
    ]
    lines = [f"## {table.name}", "", table.description, ""]
    return "\n".join([*lines, "| column | type | meaning |", "|---|---|---|", *rows, ""])


def _column_name(name: str, keys: Sequence[str]) -> str:
    return f"**`{name}`**" if name in keys else f"`{name}`"
