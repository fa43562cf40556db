from __future__ import annotations

from pathlib import Path

import pytest

from dqsql.cli.reference import tables_as_markdown
from dqsql.model.table import Table
from dqsql.model.tables import ALL_TABLES

DOCS = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda t: t.name)
def test_every_column_is_described_and_keys_are_columns(table: Table) -> None:
    assert table.description.endswith(".")
    for field in table.fields:
        assert field.description.endswith("."), field.name
    assert set(table.keys) <= set(table.column_names)
    assert len(set(table.column_names)) == len(table.fields)


def test_the_page_is_what_the_command_prints() -> None:
    text = "`dqsql docs tables > docs/tables.md` brings the page up to date"
    assert DOCS.read_text().rstrip() == tables_as_markdown().rstrip(), text
