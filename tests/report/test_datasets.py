"""Which tables and files a check model reads; the one that is checked comes first."""

from __future__ import annotations

import pytest

from dqsql.loading import load_project
from dqsql.report.openlineage import Dataset, Datasets
from tests.loading.conftest import Write, write

__all__ = ["write"]

SOURCES = """\
sources:
  - name: raw
    schema: lake
    tables:
      - name: orders
      - {name: days, path: data/days, format: parquet}
      - {name: far, path: "s3://bucket/far/away", format: parquet}
"""


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select x from {{ source('raw', 'orders') }}", "lake.orders"),
        ("select x from a.b.c as t join {{ source('raw', 'orders') }} o on o.x = t.x",
         "a.b.c lake.orders"),
        ("with c as (select x from d), b as (select * from c) select x from b, e", "d e"),
        ("select x from (select * from (select * from d)) union all select x from e", "d e"),
        ("with d as (select * from d) select x from d", "d"),
        ("select x from {{ ref('other') }} where x in (select y from z)", "lake.orders z"),
        ("select x from {{ source('raw', 'far') }}", "s3://bucket:far/away"),
        ("select 1 as x", ""),
    ],
)  # fmt: skip
def test_datasets(write: Write, sql: str, names: str) -> None:
    other = "select x from {{ source('raw', 'orders') }} -- @not_null"
    files = {"checks/m.sql": f"{sql} -- @row_count > 0", "checks/other.sql": other}
    project = load_project(write({**files, "sources.yml": SOURCES}))
    (model,) = [m for m in project.models if m.name == "m"]
    found = Datasets(project).of(model)
    shown = [f"{d.namespace}:{d.name}" if d.namespace else d.name for d in found]
    assert shown == names.split()


def test_a_file(write: Write) -> None:
    model = {"checks/m.sql": "select x from {{ source('raw', 'days') }} -- @not_null"}
    project = load_project(write({**model, "sources.yml": SOURCES}))
    path = str(project.root / "data" / "days")
    assert Datasets(project).of(project.models[0]) == (Dataset(path, "file"),)
