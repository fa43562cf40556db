"""The commands that write tables, with Spark: every state that their files go through is sound.

Slow: each command is a process with a JVM whose changes of files are enumerated.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dqsql.engine.storage import open_tables
from dqsql.errors import DqsqlError
from dqsql.model.project import Target
from dqsql.monitors.lake_index import index_size
from tests.tables import StoredRuns, table_rows

from .conftest import CrashStates, FaultTable, as_project, problem_of

pytestmark = pytest.mark.slow
MODEL = """\
{{ config(batch_by='day', segment_by=['kind']) }}
select
    day,
    kind,
    x -- @mean > 0 {scope: cumulative} @max < 1000 @anomaly(mean) @avh(min_history => 3)
from {{ source('raw', 't') }}
-- @entropy(x) > 0 {scope: cumulative}
"""
SOURCES = """\
sources:
  - name: raw
    tables:
      - {name: t, path: data, format: parquet}
"""


def days(root: Path, first: int, count: int) -> None:
    """Write the rows of some days, a file each."""
    (root / "data").mkdir(exist_ok=True)
    for number in range(first, first + count):
        day = dt.date(2024, 1, 1) + dt.timedelta(number)
        rows = [{"day": str(day), "kind": "ab"[i % 2], "x": float(i + number)} for i in range(20)]
        pq.write_table(pa.Table.from_pylist(rows), root / "data" / f"{day}.parquet")


@pytest.fixture
def checked(make_project: Callable[..., Path], crash_states: CrashStates) -> Path:
    """A project of which four days are checked."""
    root = make_project({"checks/m.sql": MODEL, "checks/sources.yml": SOURCES})
    days(root, 0, 4)
    crash_states.of(root, "-m", "dqsql", "run", "--project-dir", str(root))
    return root


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("run", "--full-refresh"),
        ("review", "reject", "m", "2024-01-02", "--reason", "x"),
        ("fit",),
        ("index", "build"),
        ("clean", "--older-than", "0d"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_state(
    checked: Path, crash_states: CrashStates, fault_table: FaultTable, command: tuple[str, ...]
) -> None:
    before = {n: len(table_rows(checked / "warehouse" / "dq", n)) for n in ("dq_batches",)}
    days(checked, 4, 1)
    arguments = (*command, "--project-dir", str(checked))
    states = crash_states.of(checked, "-m", "dqsql", *arguments)
    problems = {}
    for state in states:
        problem = problem_of(as_project(checked, state), before)
        fault_table.add(f"crash: dqsql {' '.join(command[:2])}", problem)
        if problem is not None:
            problems[state.name] = problem
    assert problems == {}


@pytest.mark.parametrize("command", ["build", "update"])
def test_every_state_of_an_index_that_is_replaced(
    checked: Path, crash_states: CrashStates, fault_table: FaultTable, command: str
) -> None:
    """There is the old index or the new one."""
    arguments = ("--project-dir", str(checked))
    crash_states.of(checked, "-m", "dqsql", "index", "build", *arguments)
    days(checked, 4, 1)
    states = crash_states.of(checked, "-m", "dqsql", "index", command, *arguments)
    assert len(states) > 3
    problems = {}
    sizes = set()
    for state in states:
        store = open_tables(
            Target("t", "dq", warehouse=str(as_project(checked, state).folder.parent))
        )
        try:
            problem = None
            sizes.add(index_size(store))
        except DqsqlError as error:
            problem = error.message
        fault_table.add(f"crash: dqsql index {command}, of an old one", problem)
        if problem is not None:
            problems[state.name] = problem
    assert problems == {}
    assert len(sizes) == 2


def test_the_next_run_heals(checked: Path, crash_states: CrashStates) -> None:
    days(checked, 4, 1)
    states = crash_states.of(checked, "-m", "dqsql", "run", "--project-dir", str(checked))
    clean = as_project(checked, states[-1])
    wanted = {n: len(table_rows(clean.folder, n)) for n in ("dq_batches", "dq_metrics")}
    for state in states[len(states) // 3 : -1 : max(1, len(states) // 3)]:
        shutil.rmtree(checked / "warehouse")
        state.rename(checked / "warehouse")
        crash_states.of(checked, "-m", "dqsql", "run", "--project-dir", str(checked))
        healed = StoredRuns(checked)
        assert problem_of(healed, wanted) is None
        assert {n: len(table_rows(healed.folder, n)) for n in wanted} == wanted


def test_every_state_of_a_table_of_rows(
    tmp_path: Path, crash_states: CrashStates, fault_table: FaultTable
) -> None:
    """Whatever is exchanged or put together, each batch is there once, as before or as after."""
    (tmp_path / "warehouse").mkdir()
    states = crash_states.of(tmp_path, "-m", "tests.faults.row_writer", str(tmp_path))
    given = {n: n + 100 if n in range(3, 6) else n for n in range(1, 18)}
    wanted = [*({n: n for n in range(1, m + 1)} for m in range(18)), given]
    found: list[dict[int, int]] = []
    files = []
    for state in states:
        rows = table_rows(state / "dq", "orders_good")
        numbers = {int(r["dqsql_batch"]): int(r["id"]) for r in rows}
        problem = None if numbers in wanted and len(numbers) == len(rows) else str(numbers)
        fault_table.add("crash at each change of a file: rows", problem)
        assert problem is None, state
        found.append(numbers)
        if rows:
            files.append(len(DeltaTable(state / "dq" / "orders_good").file_uris()))
    # All of them were seen: none was by chance between two states.
    assert [n for n in wanted if n not in found] == []
    assert max(files) == 17 and 1 in files and files[-1] == 4
