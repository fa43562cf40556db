"""Projects with monitors and a stored history, made once and copied by the tests that change it."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dqsql.cli.main import cli
from tests.conftest import PROFILES_YML
from tests.runner.conftest import SOURCES, Project

from .families import MODEL, ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 16
FIRST = dt.date(2024, 1, 1)
TENFOLD = "2024-01-14"
TOO_HEAVY = "2024-01-04"

PROJECT_YML = """\
name: shop
version: "1.0"
profile: test
false_alarm_budget: 1 per month
"""
SALES = """\
{{ config(batch_by = 'day') }}
select
    day,
    amount,          -- @avh
    code,            -- @avh(fpr => 0.05, two_distribution => false)
    weight           -- @max < 100
from {{ source('raw', 't') }}
"""

DqSql = Callable[..., Result]


@contextmanager
def clean_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("DQSQL_", "DBT_")):
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def no_settings_from_outside() -> Iterator[None]:
    with clean_environment():
        yield


def sales(days: int = DAYS) -> pa.Table:
    """Some 50 rows a day; on one day the amounts are tenfold, on another a weight is too high."""
    draw = np.random.default_rng(11)
    tables = []
    for number in range(days):
        day = FIRST + dt.timedelta(days=number)
        rows = 50 + int(draw.integers(-3, 4))
        weight = draw.uniform(1, 90, rows)
        if str(day) == TOO_HEAVY:
            weight[0] = 400.0
        kinds, numbers = draw.choice(["AB", "CD", "EF"], rows), draw.integers(0, 40, rows)
        tables.append(
            pa.table(
                {
                    "day": pa.array([day] * rows, pa.date32()),
                    "amount": draw.normal(100, 10, rows) * (10 if str(day) == TENFOLD else 1),
                    "code": [f"{k}-{n:03d}" for k, n in zip(kinds, numbers, strict=True)],
                    "weight": weight,
                }
            )
        )
    return pa.concat_tables(tables)


def write_project(root: Path, files: Mapping[str, str], data: pa.Table | None = None) -> Path:
    given = {
        "dqsql_project.yml": PROJECT_YML,
        "profiles.yml": PROFILES_YML,
        "checks/sources.yml": SOURCES,
        **files,
    }
    for path, text in given.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if data is not None:
        write_data(root, data)
    return root


def write_data(root: Path, data: pa.Table) -> None:
    folder = root / "data" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, folder / "rows.parquet")


@pytest.fixture(scope="session")
def checked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project after its first run. Shared: tests copy it before they change anything."""
    root = tmp_path_factory.mktemp("monitors") / "shop"
    write_project(root, {"checks/sales.sql": SALES}, sales())
    project = Project(root, spark)
    with clean_environment():
        project.run()
    return project


@pytest.fixture(scope="session")
def families(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with monitors of every family, after its first run. Shared, as `checked`."""
    root = tmp_path_factory.mktemp("families") / "shop"
    write_project(root, {"checks/sales.sql": MODEL})
    project = Project(root, spark)
    project.data(ROWS)
    with clean_environment():
        project.run()
    return project


@pytest.fixture
def copy(checked: Project, tmp_path: Path) -> Project:
    """The project after its first run, to be changed."""
    root = tmp_path / "shop"
    shutil.copytree(checked.root, root)
    return Project(root, checked.spark)


@pytest.fixture
def dqsql(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> DqSql:
    """Calls the program in this process and lets it use the session of the tests."""
    from dqsql.engine import session

    given = session.open_session
    monkeypatch.setattr(
        session,
        "open_session",
        lambda target, log_dir, _=None, *more: given(target, log_dir, spark, *more),
    )

    def call(project: Project | Path, *args: str) -> Result:
        root = project if isinstance(project, Path) else project.root
        return CliRunner().invoke(
            cli, [*args, "--project-dir", str(root), "--profiles-dir", str(root)]
        )

    return call


def ledger(project: Project, model: str = "sales") -> dict[str, tuple[str, bool | None]]:
    """Status and whether it counts, by batch."""
    rows = project.rows("dq_batches")
    return {r["batch"]: (r["status"], r["counted"]) for r in rows if r["model"] == model}


def programs(project: Project) -> dict[str, dict[str, Any]]:
    """The programs in force by column."""
    rows = project.rows("dq_programs")
    return {r["column_name"]: r for r in rows if r["valid_to"] is None}
