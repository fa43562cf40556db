"""Every state in which a crash could leave the tables, and what it means for them to survive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dqsql.errors import DqsqlError
from dqsql.model.tables import ALL_TABLES
from tests.tables import StoredRuns, table_rows

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("crash_states.c")


@dataclass
class FaultTable:
    """How many states were tried of each fault, and how many survived."""

    rows: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, fault: str, problem: str | None) -> None:
        """Count one state; `problem` says what was lost or doubled."""
        self.rows.setdefault(fault, Counter())["tried"] += 1
        self.rows[fault]["survived" if problem is None else "lost"] += 1

    def lines(self) -> Iterator[str]:
        """The table as text."""
        yield f"{'fault':44} {'tried':>6} {'survived':>9}"
        for fault, counts in self.rows.items():
            yield f"{fault:44} {counts['tried']:6} {counts['survived']:9}"


@pytest.fixture(scope="session")
def fault_table() -> Iterator[FaultTable]:
    table = FaultTable()
    yield table
    print("", *table.lines(), sep="\n")


@pytest.fixture(scope="session")
def crash_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that copies states, compiled for this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("states of crashes are enumerated on Linux with a C compiler: there is no cc")
    library = tmp_path_factory.mktemp("crash") / "crash_states.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True)
class CrashStates:
    """Runs commands on a project and gives each state that its warehouse went through."""

    library: Path
    copies: Path

    def of(self, root: Path, *command: str, expect: int = 0) -> list[Path]:
        """The copies of the warehouse after each change of its files while a command ran."""
        folder = self.copies / f"{len(list(self.copies.iterdir()))}"
        folder.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LD_PRELOAD": str(self.library),
            "CRASH_WATCH": str(root / "warehouse"),
            "CRASH_COPIES": str(folder),
        }
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        log = (folder / "operations.log").read_text(encoding="utf-8").splitlines()
        made = [folder / line.split(" ", 1)[0] for line in log]
        return [state for state in made if state.is_dir()]


@pytest.fixture
def crash_states(crash_library: Path, tmp_path: Path) -> CrashStates:
    copies = tmp_path / "copies"
    copies.mkdir()
    return CrashStates(crash_library, copies)


def as_project(root: Path, state: Path) -> StoredRuns:
    """A project whose warehouse is a copied state."""
    shutil.rmtree(root / "warehouse", ignore_errors=True)
    state.rename(root / "warehouse")
    return StoredRuns(root)


def problem_of(tables: StoredRuns, before: dict[str, int]) -> str | None:
    """What is lost or doubled in tables that a crash left; None if nothing is.

    `before` are the rows by table of what was there and is not replaced by what crashed.
    """
    try:
        if (refused := tables.refused()) is not None:
            return refused
        found = tables.doctor()
    except DqsqlError as error:
        return error.message
    if found.exit_code:
        return str(found.ailments)
    for name, least in before.items():
        if len(table_rows(tables.folder, name)) < least:
            return f"{name} has fewer rows than before"
    return _doubled(tables.folder)


def _doubled(folder: Path) -> str | None:
    for table in ALL_TABLES:
        rows: list[dict[str, Any]] = table_rows(folder, table.name)
        counted = Counter(tuple(row.get(key) for key in table.keys) for row in rows)
        if table.keys and counted and max(counted.values()) > 1:
            return f"{table.name} has rows twice: {counted.most_common(1)}"
    return None


MakeTables = Callable[..., StoredRuns]


@pytest.fixture
def make_tables(make_project: Callable[..., Path]) -> MakeTables:
    """Tables of a project with one model."""

    def make(name: str = "project") -> StoredRuns:
        root = make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}, name)
        return StoredRuns(root)

    return make
