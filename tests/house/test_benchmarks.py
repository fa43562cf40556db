"""What the benchmarks measure compiles: a benchmark that nobody ran for months still works."""

from __future__ import annotations

from pathlib import Path

import pytest

from dqsql.runner.api import compile_project
from tests.benchmarks import compile_bench, fleet_bench, history_bench, scan_bench, volume_eval


@pytest.mark.parametrize("name", scan_bench.PROFILES)
def test_the_profiles_of_the_scan(name: str) -> None:
    checks, config = scan_bench.PROFILES[name]
    assert scan_bench.scan_sql("", checks, config).startswith(("SELECT", "WITH"))


def test_wide_models(tmp_path: Path) -> None:
    compile_bench.write_project(tmp_path, columns=5)
    compiled = compile_project(tmp_path)
    compiled.raise_errors()
    assert len(compiled.plans[0].metrics) == 50


@pytest.mark.parametrize("columns", [5, 8])
def test_fleets(tmp_path: Path, columns: int) -> None:
    fleet_bench.write_project(tmp_path, models=2, columns=columns)
    compiled = compile_project(tmp_path)
    compiled.raise_errors()
    assert len(compiled.plans) == 2


@pytest.mark.parametrize("config", ["", "{{ config(batch_by='day') }}"])
def test_histories(tmp_path: Path, config: str) -> None:
    root = tmp_path / "project"
    history_bench.project(root, tmp_path / "data", config)
    compiled = compile_project(root)
    compiled.raise_errors()
    assert len(compiled.plans) == 1


@pytest.mark.parametrize("family", volume_eval.FAMILIES)
def test_volumes(family: str) -> None:
    count, found = volume_eval.shares(family, rate=0.002, series=1)
    assert count and found.keys() == volume_eval.FACTORS.keys()
    assert found["a third"] >= found["half"] >= found["as it is"]
