"""What a monitor that needs a whole batch says of one that is not over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from dqsql.errors import Span
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import CheckModel, CheckSettings, ModelConfig, Severity
from dqsql.model.results import Result, Status
from dqsql.monitors.context import result_of
from dqsql.monitors.registry import find
from dqsql.monitors.waiting import Waiting

BATCH = "2024-01-11"
NOON = dt.datetime(2024, 1, 11, 12, tzinfo=dt.UTC)


def plan(kind: str) -> Plan:
    monitor = Monitor(
        id="m.it",
        name="it",
        kind=kind,
        model="m",
        column=None,
        expression="it",
        arguments={},
        severity=Severity.WARN,
        settings=CheckSettings(),
        span=Span("checks/m.sql", 9, 4),
    )
    model = CheckModel("m", "checks/m.sql", "", "", ModelConfig(batch_by="day"), (), (), ())
    return Plan(model, (), (), (), (monitor,))


class Few:
    """Warns of few rows."""

    def __init__(self, monitor: Monitor, status: Status) -> None:
        self.result = result_of(monitor, BATCH, status, "few rows")

    def prepare(self, batches: Sequence[str]) -> None:
        pass

    def judge(self, batch: str) -> list[Result]:
        return [self.result]


def told(kind: str, waiting: Waiting, status: Status = Status.WARN) -> tuple[Status, str]:
    found = find(kind)
    assert found is not None
    one = plan(kind)
    (result,) = waiting.asked(found, one, Few(one.monitors[0], status), BATCH)
    return result.status, result.message


@pytest.mark.parametrize("kind", ["anomaly", "avh", "novelty", "drift", "expected_segments"])
def test_monitors_of_whole_batches_wait(kind: str) -> None:
    status, message = told(kind, Waiting({BATCH: NOON}, frozenset()))
    assert status is Status.SKIPPED and message.endswith("judged from 2024-01-11 12:00 UTC on")
    assert told("alive", Waiting({BATCH: NOON}, frozenset({BATCH}))) == (Status.WARN, "few rows")


def test_a_warning_about_a_batch_that_is_not_over_says_so() -> None:
    morning = Waiting.of(plan("anomaly"), {}, [BATCH], {BATCH: 1}, NOON, finds_new=True)
    assert told("anomaly", morning) == (Status.WARN, "few rows (2024-01-11 is not over)")
    assert told("anomaly", morning, Status.PASS) == (Status.PASS, "few rows")
    for now in (NOON - dt.timedelta(days=1), NOON + dt.timedelta(days=1)):
        over = Waiting.of(plan("anomaly"), {}, [BATCH], {BATCH: 1}, now, finds_new=True)
        assert told("anomaly", over) == (Status.WARN, "few rows")
