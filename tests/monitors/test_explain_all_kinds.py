"""`dqsql explain` of what is not there any more, and of drift: all kinds are computed again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from dqsql import explain
from dqsql.model.results import result_id
from dqsql.monitors.registry import all_kinds
from tests.runner.conftest import Project

from .conftest import DqSql, clean_environment, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.runner.explain import Explanation

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['country'], severity = 'warn') }}
select
    day,
    -- @drift(psi) < 0.01 {severity: error, after: 2}
    country,  -- @drift(chi2, against => '2024-03-02') < 1
    -- @alive @drift_pvalue >= 0.01
    price,    -- @drift(ks, against => 'last 3') < 0.9 {severity: error, warn: 0.05}
    id,       -- @stays_unique
    currency  -- @alive @drift(js, against => usual) < 0.1
from {{ source('raw', 't') }}
-- @expected_segments @expected_segments('DE', 'ES') {name: listed}
-- @cadence @cadence('daily') {name: daily, grace: '1 hour'} @schema
"""
USUAL = "select 'CHF' as currency from range(9)"
# The fifth of 14 days is not there; of the last, much is missing, and ids occur twice.
DAYS, LAST = 14, "2024-03-14"
ROWS = f"""
select date_add(date'2024-03-01', cast(n div 300 as int)) as day,
    element_at(array('DE', 'FR', 'IT'), cast(n % 3 + 1 as int)) as country,
    case when n div 300 = {DAYS - 1} then double('NaN')
        else (n % 17) + 6 * (n div 900) end as price,
    if(n div 300 = {DAYS - 1}, n div 2, n) as id,
    element_at(array('EUR', 'USD', if(n div 300 = {DAYS - 1}, 'EUR', 'CHF')),
        cast(n % 7 % 3 + 1 as int)) as currency
from (select id as n from range({DAYS * 300}))
where n div 300 <> 4 and not (n div 300 = {DAYS - 1} and n % 3 = 2)
"""
KINDS = {*("alive", "stays_unique", "cadence", "expected_segments"), *("drift", "drift_pvalue")}


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    files = {"checks/m.sql": MODEL, "checks/usual.sql": USUAL}
    project = Project(write_project(tmp_path_factory.mktemp("silent") / "shop", files), spark)
    project.data(ROWS)
    # In two runs: what the second one looks at is stored, and of the first one measured then.
    days = [f"2024-03-{d:02d}" for d in range(1, 11) if d != 5]
    with clean_environment():
        project.run(select=["m"], batches=days)
        project.run(select=["m"])
    return project


def explained(project: Project, row: dict[str, Any]) -> Explanation:
    name = result_id(row["check_id"], row["batch"], row["segment"])
    return explain(name, project_dir=project.root, spark=project.spark)


def test_every_verdict_is_computed_again_to_the_same(silent: Project) -> None:
    rows = [r for r in silent.rows("dq_results") if r["detector"] in KINDS]
    chosen = [r for r in rows if r["batch"] in ("2024-03-06", "2024-03-10", LAST)]
    assert {r["detector"] for r in chosen if r["status"] in ("fail", "warn")} == KINDS
    compared: dict[str, int] = dict.fromkeys(KINDS, 0)
    for row in chosen:
        found = explained(silent, row)
        decided = row["status"] in ("fail", "warn", "pass")
        assert found.same is (True if decided else None), (row, found.compared, found.note)
        if not decided:
            assert found.note == "it was not decided"
            continue
        by_relation = found.details.get("against") == "usual"
        assert (found.note is None) is not by_relation, found.note
        assert len(found.compared) > 1 or by_relation
        listed = row["check_name"] == "listed"
        assert (len(found.past) == 0) is (by_relation or listed), row
        compared[row["detector"]] += len(found.compared)
    assert min(compared.values()) > 5


def test_what_was_compared_is_shown(silent: Project, dqsql: DqSql) -> None:
    def shown_of(name: str) -> str:
        found = dqsql(silent, "explain", name)
        assert found.exit_code == 0, found.output
        return found.output

    shown = shown_of(f"m.price.alive@{LAST}")
    assert "  NaN        100.000% of a batch, at most 0.000% before\n" in shown
    assert "  history    12 batches, 2024-03-01 to 2024-03-13\n" in shown
    assert "computed again from stored metrics: the same" in shown
    shown = shown_of(f"m.expected_segments@{LAST}")
    assert "  expected   3 segments with rows: country=DE, country=FR, country=IT\n" in shown
    assert "  there      2 segments\n" in shown
    shown = shown_of("m.daily@2024-03-06")
    assert "  rhythm     one every day, as declared\n" in shown
    assert "  missing    2024-03-05\n" in shown
    shown = shown_of(f"m.daily@{LAST}")
    assert "  due by     2024-03-16 01:00 UTC\n" in shown
    shown = shown_of(f"m.schema@{LAST}")
    assert "  against    2024-03-13\n" in shown
    shown = shown_of(f"m.id.stays_unique@{LAST}")
    assert "  band       exactly 0\n" in shown or "  band       at most 0\n" in shown


@pytest.mark.parametrize(
    ("table", "change", "check"),
    [
        ("dq_metrics", "column_name = 'id' and batch = '2024-03-09'", "m.id.stays_unique"),
        ("dq_metrics", "metric = 'nan_ratio' and batch = '2024-03-09'", "m.price.alive"),
        (
            "dq_metrics",
            f"metric = 'row_count' and batch = '{LAST}' and value = 0",
            "m.expected_segments",
        ),
        ("dq_distributions", "column_name = 'country' and batch = '2024-03-02'", "m.country.drift"),
        ("dq_batches", "batch = '2024-03-08'", "m.cadence"),
    ],
)
def test_what_was_changed_since_is_noticed(
    silent: Project, tmp_path: Path, table: str, change: str, check: str
) -> None:
    copy = Project(tmp_path / "shop", silent.spark)
    shutil.copytree(silent.root, copy.root)
    folder = DeltaTable(copy.root / "warehouse" / "dq" / table)
    if table == "dq_metrics":
        folder.update(updates={"value": "coalesce(value, 0.0) + 1.0"}, predicate=change)
    else:
        folder.delete(change)
    (row,) = [
        r
        for r in copy.rows("dq_results")
        if (r["check_id"].startswith(check), r["batch"], r["segment"]) == (True, LAST, None)
        and "psi" not in r["check_name"]
    ]
    found = explained(copy, row)
    assert found.same is not True or "stored by now: 11" in str(found.note), found.compared


def test_kinds_that_learn_or_compare_can_be_explained() -> None:
    """Only what is decided on the rows or columns of now has nothing stored to come to it again."""
    without = {kind.name for kind in all_kinds() if kind.recompute is None}
    assert without == {"matches_relation", "schema", "schema_is", "has_type"}
