"""`@avh` by default finds surges of missing values, end to end."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.model.results import Result, Status

from ..conftest import PROFILES_YML, PROJECT_YML
from .conftest import SOURCES, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Batches by the source that has them.
BATCHES = {"t": 36, "u": 9}
ROWS = 150
MODEL = """\
{{ config(batch_by = 'day', avh = true) }}
select day, number, rarely, often, nans, infinite, text, blank
from {{ source('raw', '%s') }}
"""
# The share of rows without a value before and on the last day; all of these passed once.
SURGES = {
    "number": (0.0, 0.2),
    "rarely": (0.02, 0.5),
    "often": (0.3, 0.8),
    "nans": (0.02, 0.6),
    "infinite": (0.0, 0.1),
    "text": (0.0, 0.1),
    "blank": (0.0, 0.1),
}
MISSING: dict[str, Any] = {"nans": float("nan"), "infinite": float("inf"), "blank": "  "}
WORDS = {"nans": "NaN", "infinite": "infinite", "blank": "empty"}


def days(batches: int) -> pa.Table:
    """Steady columns; on the last day many rows have no proper value."""
    draw = np.random.default_rng(7)
    columns: dict[str, list[Any]] = {name: [] for name in ("day", *SURGES)}
    for number in range(batches):
        columns["day"] += [dt.date(2024, 1, 1) + dt.timedelta(number)] * ROWS
        for name, shares in SURGES.items():
            share = shares[number == batches - 1]
            values: list[Any] = draw.normal(100, 10, ROWS).tolist()
            if name in ("text", "blank"):
                values = [f"{'ab'[int(v) % 2]}-{int(v)}" for v in values]
            for row in np.flatnonzero(draw.random(ROWS) < share):
                values[row] = MISSING.get(name)
            columns[name] += values
    return pa.table({**columns, "day": pa.array(columns["day"], pa.date32())})


@pytest.fixture(scope="module")
def verdicts(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> dict[tuple[str, str], list[Result]]:
    """What is said of all batches, by source and column: both sources are checked by one run."""
    project = Project(tmp_path_factory.mktemp("missing"), spark)
    project.write({"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML})
    project.write({"checks/sources.yml": SOURCES})
    for name, batches in BATCHES.items():
        project.write({f"checks/{name}.sql": MODEL % name})
        folder = project.root / "data" / name
        folder.mkdir(parents=True)
        pq.write_table(days(batches), folder / "rows.parquet")
    found: dict[tuple[str, str], list[Result]] = {}
    for model in project.run().models:
        for result in sorted(model.results, key=lambda r: r.batch or ""):
            found.setdefault((model.model, result.column or ""), []).append(result)
    return found


@pytest.mark.parametrize("source", BATCHES)
def test_a_surge_is_found_and_told_in_percent(
    verdicts: dict[tuple[str, str], list[Result]], source: str
) -> None:
    for column, (_, after) in SURGES.items():
        *before, last = verdicts[source, column]
        assert len(before) == BATCHES[source] - 1
        assert last.status is Status.FAIL, column
        told = f"of values are {WORDS.get(column, 'null')}, expected at most"
        assert told in last.message, column
        share = next(
            c for c in last.details["clauses"] if c["method"] == "beta_binomial" and c["score"] > 1
        )["observed"]
        seen = 1 - share if column not in WORDS else share
        assert seen == pytest.approx(after, abs=0.08)
        assert sum(r.status is Status.FAIL for r in before) <= 1, column
