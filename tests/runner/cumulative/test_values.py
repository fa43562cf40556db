"""Cumulative values are those of the union of accepted batches, whatever way they came about."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest
from deltalake import DeltaTable

from dqsql.engine.storage import open_store, open_tables
from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.errors import StorageError
from dqsql.model.project import Target
from dqsql.runner.upkeep import doctor

from .conftest import NewProject, Project, Values, assert_same, same

DAYS = (*(f"2024-01-{d}" for d in range(28, 32)), "2024-02-01", "2024-02-02")
BAD = DAYS[1]


def prefixes(days: Collection[str], left_out: Collection[str] = ()) -> dict[str, list[str]]:
    """For each day the days up to it that count, and itself."""
    return {d: [e for e in sorted(days) if e == d or (e < d and e not in left_out)] for d in days}


def assert_values(project: Project, unions: dict[str, list[str]]) -> None:
    """The stored cumulative values of each batch are those of its union."""
    found, wanted = project.cumulative(), project.direct(unions)
    missing: Values = {}
    for (batch, segment, metric), value in wanted.items():
        name = _stored_name(metric)
        have = found[batch, segment, name]
        if not _close(have, value, tolerance(metric)):
            missing[batch, segment, metric] = (have, value)
    assert missing == {}
    batches = set(unions)
    assert len(wanted) == len([k for k in found if k[0] in batches])


def _close(left: Any, right: Any, relative: float) -> bool:
    if isinstance(left, float) and isinstance(right, int | float | Decimal):
        return left == pytest.approx(float(right), rel=relative)
    return bool(left == right)


def _stored_name(metric: str) -> str:
    if metric.startswith("expect("):
        return metric[7:].split(") ", maxsplit=1)[0] + ")"
    return metric


def tolerance(metric: str) -> float:
    if metric.startswith("approx_count"):
        return 0.06
    return 1e-3 if metric.startswith("quantile") else 1e-9


@pytest.fixture
def filled(new_project: NewProject) -> Project:
    """A project with data in which one day is bad; nothing is checked yet."""
    project = new_project("filled")
    project.put(*DAYS)
    project.put(BAD, bad=True)
    return project


@pytest.mark.slow
def test_backfill_and_day_by_day_give_the_values_of_the_union(
    filled: Project, new_project: NewProject
) -> None:
    filled.run()
    assert_values(filled, prefixes(DAYS, {BAD}))

    daily = new_project("daily")
    daily.put(*DAYS)
    daily.put(BAD, bad=True)
    for days in (DAYS[:1], DAYS[1:2], DAYS[2:5], DAYS[5:]):
        result = daily.run(*days)
        assert not result.models[0].notes
    assert_same(daily.tables(), filled.tables())
    totals = [r for r in daily.rows("dq_total__m") if r["segment"] is None]
    assert [(r["up_to"], r["batches"]) for r in totals] == [(DAYS[-1], len(DAYS) - 1)]


@pytest.mark.slow
def test_late_repaired_and_rejected_batches(filled: Project) -> None:
    filled.run(DAYS[0], BAD, DAYS[3])
    late = filled.run(DAYS[2])
    assert any("1 later batch were" in n and DAYS[2] in n for n in late.models[0].notes)
    # The fourth day was measured before the third arrived.
    unions = prefixes(DAYS[:4], {BAD})
    assert_values(filled, unions | {DAYS[3]: [DAYS[0], DAYS[3]]})

    filled.put(BAD, seed=2)
    filled.run(BAD)
    reject(filled, DAYS[0])
    filled.run(DAYS[4])
    assert_values(filled, {DAYS[4]: [*DAYS[1:5]]})

    # Measuring again what came later makes it whole.
    filled.run(event_time_start=DAYS[1], event_time_end=DAYS[5])
    assert_values(filled, prefixes(DAYS[1:5]))


def reject(project: Project, batch: str) -> None:
    """What a review does to the ledger."""
    from dqsql.model.tables import BATCHES

    store = open_tables(Target("t", "t", warehouse=str(project.root / "warehouse")))
    rows = store.rows(BATCHES)
    for row in rows:
        if row["batch"] == batch:
            row["status"] = "rejected"
    store.replace_partition(BATCHES, rows)


@pytest.mark.slow
def test_a_new_batch_reads_the_total_and_its_own_state(
    filled: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.run(*DAYS[:4])
    asked: list[list[str]] = []
    read = DeltaFolderStore.read_state

    def spy(self: DeltaFolderStore, model: str, batches: Collection[str], *family: Any) -> Any:
        asked.append(sorted(batches))
        return read(self, model, batches, *family)

    monkeypatch.setattr(DeltaFolderStore, "read_state", spy)
    filled.run(DAYS[4])
    assert [a for a in asked if a not in ([], [DAYS[4]])] == []

    # A total of something else is built again from the rows of the batches.
    target = Target("t", "t", warehouse=str(filled.root / "warehouse"))
    store = open_store(filled.spark, target)
    before = store.read_total("m")
    assert before is not None
    store.replace_total("m", before.drop("made_of").selectExpr("*", "'x' as made_of"))
    asked.clear()
    filled.run(DAYS[5])
    assert [d for d in DAYS if d != BAD] in asked
    assert_values(filled, prefixes(DAYS, {BAD}))


@pytest.mark.slow
def test_stored_state_that_was_lost_is_told(filled: Project) -> None:
    filled.run(*DAYS[:4])
    warehouse = filled.root / "warehouse" / "dq"
    DeltaTable(warehouse / "dq_state__m").delete()
    shutil.rmtree(warehouse / "dq_total__m")
    with pytest.raises(StorageError, match=r"dq_state__m in .* has 0 rows of m"):
        filled.run(DAYS[4])
    assert doctor(filled.root, repair=True).exit_code == 0
    filled.run()
    assert_values(filled, prefixes(DAYS, {BAD}))


class Killed(Exception):
    """The process died here."""


SMALL = """\
{{ config(batch_by='day') }}
select day, x, k from {{ source('raw', 't') }}
-- @max(k) < 1000 @mean(x) > 0 {scope: cumulative} @quantile(x, 0.5) > 0 {scope: cumulative}
-- @entropy(k) > 0 {scope: cumulative}
"""


@pytest.mark.slow
def test_killed_between_any_two_writes(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = new_project("start", SMALL)
    start.put(*DAYS[:4])
    start.run(*DAYS[:3])
    start.put(DAYS[1], seed=3)

    def copy(name: str) -> Project:
        root = start.root.parent / name
        shutil.copytree(start.root, root)
        return Project(root, start.spark)

    commit = DeltaFolderStore._commit
    writes: list[str] = []
    limit: list[int] = []
    lock = threading.Lock()

    def counted(self: DeltaFolderStore, name: str, write: Any) -> None:
        with lock:
            if limit and len(writes) >= limit[0]:
                raise Killed(name)
            writes.append(name)
        commit(self, name, write)

    monkeypatch.setattr(DeltaFolderStore, "_commit", counted)
    clean = copy("clean")
    clean.run(DAYS[1], DAYS[3])
    totals = ["dq_total__m", "dq_frequency_total__m"]
    one_by_one = ["dq_batches", "dq_state__m", "dq_frequency__m", *totals]
    before, rest = writes[: len(one_by_one)], writes[len(one_by_one) :]
    assert before == one_by_one
    ledger = rest.index("dq_batches")
    assert {"dq_metrics", "dq_results"} <= set(rest[:ledger])
    for point in range(1, len(one_by_one) + ledger + 1):
        project = copy(f"killed{point}")
        writes.clear()
        limit[:] = [point]
        with pytest.raises(Killed):
            project.run(DAYS[1], DAYS[3])
        limit.clear()
        project.run(DAYS[1], DAYS[3])
        assert_same(project.tables(), clean.tables())


def test_same_tells_differences() -> None:
    assert same({"a": [1.0, b"x"]}, {"a": [1.0 + 1e-12, b"y"]})
    assert not same({"a": 1.0}, {"a": 1.1})
