"""The views and the questions of the cookbook, run by DuckDB over tables as they are declared."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dqsql.decisions.lifecycle import updated_findings
from dqsql.engine.rows import result_row
from dqsql.errors import UsageError
from dqsql.model.project import Severity, Target
from dqsql.model.results import Result, Status
from dqsql.model.table import Table
from dqsql.model.tables import (
    ALL_TABLES,
    BATCHES,
    CHECKS,
    COLUMNS,
    FINDINGS,
    METRICS,
    MODEL_RUNS,
    RESULT_HISTORY,
    RESULTS,
    REVIEWS,
)
from dqsql.report.views import script, views

DOCS = Path(__file__).parents[2] / "docs" / "cookbook.md"
QUESTIONS = re.findall(r"## \d+\. (.*?)\n\n```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
DAYS = [dt.datetime(2025, 1, day) for day in range(6, 20)]
NOW = dt.datetime(2025, 2, 1, tzinfo=dt.UTC)
# By check: of each day one letter.
STORY = {
    "mean between 60 and 100": "ppppppppppppff",
    "not_null": "p" * 14,
    "max < 9": "pfpfpfpppppppp",
}
WORDS = {"p": Status.PASS, "f": Status.FAIL}


def verdicts() -> list[Result]:
    return [
        Result(
            check_id=f"orders.x.{name}",
            model="orders",
            batch=f"{day:%Y-%m-%d}",
            segment=None,
            column="x",
            check_name=name,
            detector="constraint",
            status=WORDS[letter],
            severity=Severity.ERROR,
            message="" if letter == "p" else "off",
            observed=80.0 if letter == "p" else 802.287,
            lower=60.0,
            upper=100.0,
        )
        for name, letters in STORY.items()
        for day, letter in zip(DAYS, letters, strict=True)
    ]


def stored() -> dict[Table, list[dict[str, Any]]]:
    """Two weeks of a model, as a run would have stored them; the first day was repaired."""
    results = verdicts()
    rows = [result_row(r, "run-1", NOW) for r in results]
    batches = [
        {"model": "orders", "batch": f"{d:%Y-%m-%d}", "status": "accepted", "rows": 10}
        | {"batch_start": d, "batch_end": d + dt.timedelta(days=1)}
        for d in DAYS
    ]
    checks = [
        {"check_id": f"orders.x.{name}", "model": "orders", "owner": "ann", "file": "checks/o.sql"}
        | {"line": i, "tags": ["daily"], "expression": name}
        for i, name in enumerate(STORY, 1)
    ]
    checks.append({**checks[0], "check_id": "orders.x.gone", "valid_to": NOW})
    columns = [
        {
            "column_id": f"orders.{c}",
            "model": "orders",
            "column_name": c,
            "checks": n,
            "owner": "ann",
        }
        for c, n in (("x", 3), ("y", 0))
    ]
    findings = updated_findings([], results, NOW) or []
    cost = {"run_id": "run-1", "model": "orders", "started_at": NOW, "seconds": 3.0, "batches": 14}
    review = {
        "model": "orders",
        "batch": "2025-01-19",
        "verdict": "accept",
        "author": "ann",
        "at": NOW,
    }
    # A check that the model no longer has.
    rows.append({**rows[0], "check_id": "orders.x.gone", "check_name": "gone", "status": "fail"})
    # One that could not be compiled has never been among them.
    rows.append(
        {**rows[-2], "check_id": "orders.x.misspelt", "check_name": "misspelt", "status": "error"}
    )
    before = {**rows[0], "run_id": "run-0", "status": "fail", "message": "was off"}
    metric = {"model": "orders", "batch": "2025-01-06", "metric": "mean", "value": 80.0}
    return {
        RESULTS: rows,
        BATCHES: batches,
        CHECKS: checks,
        COLUMNS: columns,
        FINDINGS: findings,
        MODEL_RUNS: [cost],
        REVIEWS: [review],
        RESULT_HISTORY: [before],
        METRICS: [metric],
    }


@pytest.fixture(scope="module")
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """Tables in memory, and the views over them."""
    kinds = {"string": "varchar", "array<string>": "varchar[]", "array<double>": "double[]"}
    with duckdb.connect() as connection:
        for table in ALL_TABLES:
            columns = ", ".join(f'"{n}" {kinds.get(k, k)}' for n, k in table.columns)
            connection.execute(f"create table {table.name} ({columns})")
        for table, rows in stored().items():
            marks = ", ".join("?" for _ in table.column_names)
            for row in rows:
                connection.execute(
                    f"insert into {table.name} values ({marks})",
                    [_naive(row.get(name)) for name in table.column_names],
                )
        for view in views():
            connection.execute(f"create view {view.name} as {view.select}")
        yield connection


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    found = connection.execute(query)
    names = [d[0] for d in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_there_are_twelve_questions() -> None:
    assert len(QUESTIONS) == 12


@pytest.mark.parametrize("query", [q for _, q in QUESTIONS], ids=[q for q, _ in QUESTIONS])
def test_every_question_has_an_answer(warehouse: duckdb.DuckDBPyConnection, query: str) -> None:
    assert rows(warehouse, query)


@pytest.mark.parametrize("view", views(), ids=lambda v: v.name)
def test_every_view_has_rows_and_is_described(
    warehouse: duckdb.DuckDBPyConnection, view: Any
) -> None:
    assert rows(warehouse, f"select * from {view.name}")
    assert view.description.endswith(".")
    assert f"`{view.name}`" in DOCS.read_text("utf-8")


def test_what_the_views_say(warehouse: duckdb.DuckDBPyConnection) -> None:
    (open_finding,) = rows(warehouse, "select * from dq_open_findings")
    assert (open_finding["batch_count"], open_finding["line"]) == (2, 1)
    latest = rows(warehouse, "select * from dq_latest_results order by check_name")
    assert [(r["check_name"], r["status"]) for r in latest] == [
        ("max < 9", "pass"),
        ("mean between 60 and 100", "fail"),
        ("misspelt", "error"),
        ("not_null", "pass"),
    ]
    health = {
        r["check_name"]: (r["findings"], r["flips"])
        for r in rows(warehouse, "from dq_check_health")
    }
    assert health.pop("misspelt") == (1, 0)
    # Of the mean, one day was repaired.
    assert health == {"max < 9": (3, 6), "mean between 60 and 100": (3, 2), "not_null": (0, 0)}
    (coverage,) = rows(warehouse, "from dq_coverage")
    assert coverage["coverage"] == 0.5
    days = {r["day"].day: r["health"] for r in rows(warehouse, "from dq_daily_health")}
    assert (days[18], days[17], days[7]) == ("fail", "pass", "fail")


def test_the_script_for_files_runs(tmp_path: Path) -> None:
    target = Target("t", "p", warehouse=str(tmp_path / "it's"))
    with duckdb.connect() as connection:
        for table in ALL_TABLES:
            folder = tmp_path / "it's" / "dq" / table.name
            folder.mkdir(parents=True)
            kinds = {"string": "varchar", "array<string>": "varchar[]", "array<double>": "double[]"}
            columns = ", ".join(f'null::{kinds.get(k, k)} as "{n}"' for n, k in table.columns)
            place = str(folder / "part.parquet").replace("'", "''")
            connection.execute(f"copy (select {columns}) to '{place}' (format parquet)")
        # DuckDB fetches its extension for Delta when it is first used.
        scan = re.compile(r"delta_scan\('((?:[^']|'')*)'\)")
        text = scan.sub(r"read_parquet('\1/*.parquet')", script(target, "duckdb"))
        assert text.count("read_parquet") == len(ALL_TABLES)
        connection.execute(text)
        assert rows(connection, "select count(*) as n from dq_attempts") == [{"n": 2}]
    spark = script(target, "spark")
    assert "create or replace temporary view dq_runs using delta" in spark
    in_catalog = Target("t", "p", schema="quality")
    assert script(in_catalog, "spark").startswith("use quality;")
    with pytest.raises(UsageError, match="catalog"):
        script(in_catalog, "duckdb")
