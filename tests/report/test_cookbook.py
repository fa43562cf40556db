"""The cookbook's questions, asked by a JDBC client of a Thrift server. Slow."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dqsql.model.project import Target
from dqsql.model.table import Table
from dqsql.model.tables import ALL_TABLES
from dqsql.report.views import script
from tests.engine.servers import beeline, thrift_server
from tests.report.test_views import QUESTIONS, stored

pytestmark = pytest.mark.slow


def literal(value: Any, kind: str) -> str:
    """A value in Spark's SQL, of the type of its column."""
    if isinstance(value, dt.datetime):
        return f"timestamp '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, list | tuple):
        return f"array({', '.join(literal(v, 'string') for v in value)})"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return f"cast({'null' if value is None else value} as {kind})"


def filled(table: Table, rows: Sequence[Mapping[str, Any]]) -> str:
    """The statements that make a table of the catalog."""
    made = f"create table {table.name} ({table.ddl}) using parquet;"
    values = ",\n".join(
        f"({', '.join(literal(row.get(n), k) for n, k in table.columns)})" for row in rows
    )
    return f"{made}\ninsert into {table.name} values {values};" if rows else made


def test_a_jdbc_client_of_a_thrift_server_gets_every_answer(tmp_path: Path) -> None:
    rows = stored()
    statements = ["create schema quality;", "use quality;"]
    statements += [filled(table, rows.get(table, ())) for table in ALL_TABLES]
    statements.append(script(Target("t", "p", schema="quality"), "spark"))
    for i, (_, question) in enumerate(QUESTIONS):
        statements += [f"select 'question {i}' as marker;", f"{question.rstrip()};"]
    file = tmp_path / "cookbook.sql"
    file.write_text("\n".join(statements) + "\n", encoding="utf-8")
    with thrift_server(tmp_path) as port:
        told = beeline(port, file)
    answers = re.split(r"^marker\nquestion \d+\n", told, flags=re.MULTILINE)[1:]
    lines = [answer.strip().splitlines() for answer in answers]
    assert len(lines) == len(QUESTIONS) == 12
    # The names of the columns, and rows below them.
    assert [
        title for (title, _), found in zip(QUESTIONS, lines, strict=True) if len(found) < 2
    ] == []
