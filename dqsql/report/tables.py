"""The reference of the warehouse tables, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from dqsql.model.table import Table
from dqsql.model.tables import ALL_TABLES

_HEAD = """# Warehouse tables

dqsql writes these tables into the schema of the target. You can build dashboards on them: columns
are only ever added. Columns in **bold** identify a row. All times are instants; `batch_start` and
`batch_end` read the batch's name as UTC.

Beside them stand tables of dqsql's own (`dq_state__*`, `dq_total__*`, `dq_frequency*`), whose shape
follows from your checks; do not build on those.

This page is what `dqsql docs tables` prints.
"""


def tables_as_markdown(tables: Sequence[Table] = ALL_TABLES) -> str:
    """A section for each table: what a row of it is, and its columns."""
    return "\n".join([_HEAD, *(_section(table) for table in tables)])


def _section(table: Table) -> str:
    rows = [
        f"| {_name(field.name, table.keys)} | `{field.kind}` | {_cell(field.description)} |"
        for field in table.fields
    ]
    lines = [f"## {table.name}", "", table.description, ""]
    return "\n".join([*lines, "| column | type | meaning |", "|---|---|---|", *rows, ""])


def _name(name: str, keys: Sequence[str]) -> str:
    return f"**`{name}`**" if name in keys else f"`{name}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
