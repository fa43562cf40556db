from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dqsql.cli.main import cli
from dqsql.model import results
from dqsql.model.project import Severity
from dqsql.resources import resource_dir
from dqsql.runner import api

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("DQSQL_", "DBT_")) or name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The starter project, in the current folder."""
    folder = tmp_path / "shop"
    shutil.copytree(resource_dir("templates") / "starter", folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def dqsql() -> Iterator[Callable[..., Result]]:
    """Calls the command line in this process."""

    def call(*args: str, **env: str) -> Result:
        return CliRunner().invoke(cli, list(args), env=env, prog_name="dqsql")

    yield call


def verdict(check: str, status: results.Status, batch: str = "2025-03-01") -> results.Result:
    return results.Result(
        check_id=f"orders.{check}",
        model="orders",
        batch=batch,
        segment=None,
        column=None,
        check_name=check,
        detector="constraint",
        status=status,
        severity=Severity.ERROR,
        message=f"{check} is off",
    )


@dataclass
class FakeRun:
    """Stands for `api.run`: remembers how it was called, tells the listener, returns verdicts."""

    verdicts: tuple[results.Result, ...] = ()
    error: BaseException | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, project_dir: Path, **arguments: Any) -> results.RunResult:
        self.calls.append({"project_dir": project_dir, **arguments})
        if self.error is not None:
            raise self.error
        listener = arguments["listener"]
        batches = tuple(dict.fromkeys(v.batch or "" for v in self.verdicts))
        model = results.ModelResult("orders", "checks/orders.sql", batches, self.verdicts)
        end = START + timedelta(seconds=3)
        run = results.RunResult("run-1", "starter", "local", START, end, (model,))
        listener.run_started("run-1", 1, 10, "local")
        listener.session_starting()
        listener.model_started(1, 1, "orders")
        listener.model_finished(1, 1, model)
        listener.run_finished(run)
        return run


@pytest.fixture
def fake_run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    fake = FakeRun((verdict("row_count", results.Status.PASS),))
    monkeypatch.setattr(api, "run", fake)
    return fake
