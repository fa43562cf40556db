"""Compiling takes as many steps as there are checks, and not the square of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dqsql.compiler.cumulative import cumulative_states, prefix_query, total_query
from dqsql.dialect import to_spark
from dqsql.report.manifest import check_records
from dqsql.runner.compilation import compile_project
from tests.conftest import MakeProject


def steps(root: Path, inside: str = "dqsql") -> int:
    """How many lines of Python run, and rounds of loops in them, to compile a project.

    Those of files that have `inside` in their paths.
    """
    found = 0

    def count(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal found
        found += event == "line"
        return count if inside in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        compiled = compile_project(root)
        for plan in compiled.plans:
            check_records(plan)
        assert compiled.queries["m"]
    finally:
        sys.settrace(before)
    return found


def wide(make_project: MakeProject, checks: str, columns: int) -> Path:
    lines = "".join(f"  c{i}, -- {checks}\n" for i in range(columns))
    return make_project({"checks/m.sql": f"select\n{lines}  d\nfrom t\n"}, f"c{columns}")


@pytest.mark.parametrize("checks", ["@not_null @mean > 0", "@mean > 0 {scope: cumulative}"])
def test_every_column_takes_the_same_number_of_steps(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch, checks: str
) -> None:
    # Plans that are kept would be read.
    monkeypatch.setenv("DQSQL_PLAN_CACHE", "0")

    def project(columns: int) -> Path:
        return wide(make_project, checks, columns)

    steps(project(1))  # What is only done once.
    few, more, many = (steps(project(columns)) for columns in (20, 40, 60))
    assert many - more == pytest.approx(more - few, rel=0.002)


def test_no_tree_is_copied_for_every_column(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that grew by copies of itself took minutes for 2,000 unique columns."""
    monkeypatch.setenv("DQSQL_PLAN_CACHE", "0")
    few, more, many = (
        steps(wide(make_project, "@unique", columns), inside="sqlglot/expressions")
        for columns in (20, 40, 60)
    )
    assert many - more == pytest.approx(more - few, rel=0.01)


def test_the_moments_of_a_column_are_merged_once(make_project: MakeProject) -> None:
    """Spark plans a fold for each of its fields, as long as no query below makes it."""
    root = make_project(
        {
            "checks/m.sql": "{{ config(batch_by = 'd') }}\n"
            "select d,\n  x -- @stddev > 0 {scope: cumulative}\nfrom t\n"
        }
    )
    (plan,) = compile_project(root).plans
    states = cumulative_states(plan.states, plan.metrics)
    assert [s.name.split("__")[1].split("_")[0] for s in states[1:]] == [
        *("count", "pivot", "mean", "m2")
    ]
    queries = prefix_query(states, 1, "h"), prefix_query(states, 2, "h"), total_query(states, "h")
    folds = [to_spark(query).count("array_sort(") for query in queries]
    # Of several batches: in their blocks, of the blocks, of the blocks before, and of the three.
    assert folds == [1, 4, 1]
