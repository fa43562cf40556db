"""No state of the warehouse between two changes of files loses a row or has one twice."""

from __future__ import annotations

import datetime as dt
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dqsql.errors import StorageError
from tests.tables import DAYS, StoredRuns

from .conftest import ROOT, CrashStates, FaultTable, MakeTables, as_project, problem_of

WRITER = ("-m", "tests.faults.writer")
# Rows of three checked batches.
KEPT = {"dq_batches": 3, "dq_metrics": 6, "dq_results": 3, "dq_state__m": 3}


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ["run", "again", "review", "compact"])
def test_every_state_of_the_files(
    make_tables: MakeTables,
    crash_states: CrashStates,
    fault_table: FaultTable,
    command: str,
    times: int,
) -> None:
    tables = make_tables()
    tables.run(*DAYS)
    states = crash_states.of(tables.root, *WRITER, str(tables.root), command, str(times))
    assert len(states) > 5 * times
    problems = {}
    for state in states:
        problem = problem_of(as_project(tables.root, state), KEPT)
        fault_table.add(f"crash at each change of a file: {command}", problem)
        if problem is not None:
            problems[state.name] = problem
    assert problems == {}


def test_a_crash_is_healed_by_running_again(
    make_tables: MakeTables, crash_states: CrashStates
) -> None:
    tables = make_tables()
    tables.run(*DAYS)
    states = crash_states.of(tables.root, *WRITER, str(tables.root), "again", "1")
    for state in states[:: max(1, len(states) // 8)]:
        healed = as_project(tables.root, state)
        healed.run(*DAYS)
        assert problem_of(healed, KEPT) is None
        assert healed.again() == []


@pytest.mark.slow
def test_killed_at_any_time(make_tables: MakeTables, fault_table: FaultTable) -> None:
    for number in range(12):
        tables = make_tables(f"p{number}")
        tables.run(*DAYS)
        with subprocess.Popen(
            [sys.executable, *WRITER, str(tables.root), "run", "20"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.03 * number)
            process.send_signal(signal.SIGKILL)
        problem = problem_of(tables, KEPT)
        fault_table.add("Python killed while it writes", problem)
        assert problem is None


@pytest.mark.slow
def test_a_full_disk(make_tables: MakeTables, fault_table: FaultTable) -> None:
    """Files can be no larger than some bytes: writes fail in the middle of a file."""
    for number in range(12):
        tables = make_tables(f"p{number}")
        tables.run(*DAYS)

        def few_bytes(limit: int = 500 + 300 * number) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = subprocess.run(
            [sys.executable, *WRITER, str(tables.root), "run", "2"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=few_bytes,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            assert "StorageError: cannot write" in done.stderr, done.stderr
        problem = problem_of(tables, KEPT)
        fault_table.add("disk full", problem)
        assert problem is None


def test_a_clock_that_goes_backwards(make_tables: MakeTables, fault_table: FaultTable) -> None:
    tables = make_tables()
    tables.run(*DAYS)
    past = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    tables.run("2024-01-04", at=past)
    tables.reopen(DAYS[0])
    tables.run(DAYS[0], at=past - dt.timedelta(days=1))
    problem = problem_of(tables, KEPT)
    fault_table.add("clock goes backwards", problem)
    assert problem is None


def test_readers_while_a_run_writes(make_tables: MakeTables, fault_table: FaultTable) -> None:
    tables = make_tables()
    tables.run(*DAYS)
    done = threading.Event()
    problems: list[str | None] = []

    def look() -> None:
        reader = StoredRuns(tables.root)
        while not done.is_set():
            try:
                problems.append(reader.refused())
                for name in ("dq_metrics", "dq_results"):
                    if len(reader.read(name)) < KEPT[name]:
                        problems.append(f"{name} has too few rows")
            except StorageError as error:
                problems.append(error.message)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(6):
            tables.run(f"2024-02-{number + 1:02d}")
            tables.store.tidy()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    for problem in problems:
        fault_table.add("reader during a run", problem)
    assert set(problems) == {None}


def test_two_runs_at_once(make_tables: MakeTables, fault_table: FaultTable) -> None:
    """Of two models: each commits to the tables that both share."""
    tables = make_tables()
    errors: list[str] = []

    def work(model: str) -> None:
        mine = StoredRuns(tables.root, model)
        try:
            for number in range(4):
                mine.run(f"2024-02-{number + 1:02d}")
                mine.store.tidy()
        except StorageError as error:
            errors.append(error.message)

    threads = [threading.Thread(target=work, args=(m,)) for m in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for model in ("a", "b", "c"):
        problem = problem_of(StoredRuns(tables.root, model), {"dq_metrics": 24})
        fault_table.add("two runs at once", problem)
        assert problem is None


def test_truncated_and_missing_files_are_told(
    make_tables: MakeTables, fault_table: FaultTable
) -> None:
    """Nothing that is lost goes unnoticed, and mending makes the tables whole again."""
    first = make_tables("count")
    first.run(*DAYS)
    files = sorted(p.relative_to(first.root) for p in _files(first))
    assert len(files) > 10
    for number, file in enumerate(files):
        for cut in (True, False):
            root = first.root.with_name(f"p{number}{cut}")
            tables = StoredRuns(shutil.copytree(first.root, root))
            victim = root / file
            content = victim.read_bytes()
            victim.unlink()
            if cut:
                victim.write_bytes(content[: len(content) // 2])
            # The only commit of the journal of runs, the last of all: as if the run had died.
            as_of_a_crash = not cut and victim.parent.parent.name == "dq_runs"
            told = _told(tables) or as_of_a_crash
            fault_table.add("file cut short" if cut else "file gone", None if told else "silent")
            assert told, file
            assert tables.doctor(repair=True).exit_code == 0, file
            assert tables.refused() is None, file


def _files(tables: StoredRuns) -> list[Path]:
    return [p for p in tables.folder.rglob("*") if p.is_file()]


def _told(tables: StoredRuns) -> bool:
    try:
        return tables.refused() is not None or tables.doctor().exit_code == 1
    except StorageError:
        return True
