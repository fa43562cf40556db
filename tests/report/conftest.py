from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dqsql.model.project import Severity
from dqsql.model.results import ModelResult, Result, RunResult, Status

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def make_result() -> Callable[..., Result]:
    def make(batch: str | None = "2025-03-01", status: Status = Status.PASS, **more: Any) -> Result:
        values: dict[str, Any] = {
            "check_id": "flights.dep_delay.mean_between_5_and_60",
            "model": "flights",
            "segment": None,
            "column": "dep_delay",
            "check_name": "mean between 5 and 60",
            "detector": "constraint",
            "severity": Severity.ERROR,
            "message": "",
            "lower": 5.0,
            "upper": 60.0,
            "observed": 20.0,
        }
        return Result(batch=batch, status=status, **{**values, **more})

    return make


@pytest.fixture
def make_model() -> Callable[..., ModelResult]:
    def make(*results: Result, **more: Any) -> ModelResult:
        values: dict[str, Any] = {
            "model": "flights",
            "path": "checks/flights.sql",
            "batches": tuple(dict.fromkeys(r.batch for r in results if r.batch)),
            "results": results,
            "checks": len({r.check_id for r in results}),
            "seconds": 6.1,
            "rows": 336_776,
            "scans": 2,
        }
        return ModelResult(**{**values, **more})

    return make


@pytest.fixture
def make_run() -> Callable[..., RunResult]:
    def make(*models: ModelResult, **more: Any) -> RunResult:
        values: dict[str, Any] = {
            "run_id": "run-1",
            "project": "nyc",
            "target": "local",
            "started_at": START,
            "finished_at": START + timedelta(seconds=7.5),
            "versions": {"dqsql": "0.1.0", "spark": "4.2.0"},
        }
        return RunResult(models=models, **{**values, **more})

    return make
