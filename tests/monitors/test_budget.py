"""One budget of false alarms sets the rate of all monitors that name none."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dqsql import compile_project
from dqsql.decisions.anomaly import AnomalyInput, evaluate_many
from dqsql.decisions.budget import (
    LARGEST_RATE,
    Budget,
    budget_of_model,
    parse_budget,
    rate_of_decisions,
    rates_of_decisions,
)
from dqsql.errors import DecisionError
from dqsql.model.monitors import DEFAULT_RATES
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.monitors.kinds.anomaly import anomaly_call
from dqsql.monitors.kinds.novelty.detector import novelty_settings
from dqsql.monitors.rates import cadence, project_rates
from tests.runner.conftest import Project

from .conftest import PROJECT_YML, SALES, programs, write_project

MONTH = 365.25 / 12
OTHER = (
    "{{ config(batch_by = 'hour') }}\nselect hour,\n    a -- @avh\nfrom {{ source('raw', 't') }}"
)


@pytest.mark.parametrize(
    ("text", "per_day"),
    [
        ("1 per week", 1 / 7),
        ("2 per day", 2.0),
        ("0.5 / month", 0.5 / MONTH),
        ("one a day", 1.0),
        ("1 every 2 weeks", 1 / 14),
        ("3 per year", 3 / 365.25),
    ],
)
def test_words(text: str, per_day: float) -> None:
    assert parse_budget(text).per_day == pytest.approx(per_day)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "week",
        "1",
        "1 per",
        "-1 per week",
        "0 per day",
        "1 per moon",
        "nan per day",
        "inf per day",
    ],
)
def test_words_that_say_nothing(text: str) -> None:
    with pytest.raises(DecisionError):
        parse_budget(text)


@given(st.floats(0.01, 100), st.floats(0.5, 400), st.floats(0.01, 1e6))
def test_the_expected_number_of_alarms_stays_within_the_budget(
    alarms: float, days: float, decisions: float
) -> None:
    budget = Budget(alarms, days)
    rate = rate_of_decisions(budget, decisions)
    assert 0 < rate <= LARGEST_RATE
    assert rate * decisions <= budget.per_day * (1 + 1e-9)


def names(start: str, hours: int, count: int) -> list[str]:
    first = dt.datetime.fromisoformat(start)
    return [str(first + dt.timedelta(hours=hours * i)) for i in range(count)]


def test_cadence() -> None:
    assert cadence(["2024-01-01", "2024-01-02", "2024-01-03"]) == pytest.approx(1)
    assert cadence(["2024-01-15", "2024-01-01", "2024-01-08"]) == pytest.approx(1 / 7)
    assert cadence(names("2024-01-01 00:00:00", 1, 30)) == pytest.approx(24)
    # What was long ago does not count.
    old = names("2023-01-01 00:00:00", 1, 100)
    assert cadence([*old, *names("2024-01-01 00:00:00", 24, 40)]) == pytest.approx(1)
    # Names without a time, and too few of them: a batch a day.
    for batches in (
        [],
        ["2024-01-01"],
        ["17", "18", "20"],
        [str(number) for number in range(203000, 203100)],
        ["b-1", "b-2"],
    ):
        assert cadence(batches) == 1


def test_all_monitors_of_the_project_share_it(tmp_path: Path) -> None:
    files = {"checks/sales.sql": SALES, "checks/other.sql": OTHER}
    write_project(tmp_path, files)
    compiled = compile_project(tmp_path, profiles_dir=tmp_path)
    # Two monitors with a batch a day each, one with a batch an hour.
    hours = {
        b: BatchRecord("other", b, BatchStatus.ACCEPTED, 1, "", "")
        for b in names("2024-01-01 00:00:00", 1, 30)
    }
    rates = project_rates(compiled.project, compiled.plans, {"other": hours})
    sales, other = rates.rates("sales"), rates.rates("other")
    # Half in equal parts, half by the number of decisions: the sum is the budget.
    assert sales.of_columns == sales.of_models == pytest.approx((1 / 4 + 1 / 26) / MONTH / 2)
    assert other.of_columns == other.of_models == pytest.approx((1 / 4 + 12 / 26) / MONTH / 24)
    # The same when only some models are selected.
    some = [p for p in compiled.plans if p.model.name == "sales"]
    assert project_rates(compiled.project, some, {"other": hours}).rates("sales") == sales
    first = project_rates(compiled.project, compiled.plans, {})
    assert first.rates("sales").of_columns == pytest.approx((1 / 4 + 1 / 3) / MONTH / 2)
    # What a run is about to check counts: a first run decides as later ones do.
    assert first.rates("other", hours) == other


COLUMNS = 60
WIDE = (
    "{{ config(batch_by = 'day', monitors = ['volume', 'columns', 'alive']) }}\nselect day"
    + "".join(f", c{i}" for i in range(COLUMNS))
    + " from {{ source('raw', 't') }}"
)


def test_monitors_of_whole_models_have_half_of_it(tmp_path: Path) -> None:
    write_project(tmp_path, {"checks/wide.sql": WIDE})
    compiled = compile_project(tmp_path, profiles_dir=tmp_path)
    found = project_rates(compiled.project, compiled.plans, {}).rates("wide")
    assert found.of_models == pytest.approx(0.5 / MONTH)
    assert found.of_columns == pytest.approx(0.5 / MONTH / (2 * COLUMNS))
    (plan,) = compiled.plans
    (volume,) = (m for m in plan.monitors if m.kind == "anomaly")
    assert found.of(volume.column) == found.of_models
    # Half the rows of a steady day are then found.
    days = [dt.datetime(2024, 1, 1) + dt.timedelta(days=i) for i in range(41)]
    history = np.random.default_rng(1).normal(1000, 60, (40, 40))
    halved = [AnomalyInput(rows, days[:-1], 500.0, days[-1]) for rows in history]
    told = [
        sum(d.anomalous for d in evaluate_many(anomaly_call(volume, {}, rate).strategy, halved))
        for rate in (1 / MONTH / (2 * COLUMNS + 1), found.of_models)
    ]
    assert told[0] < 10
    assert told[1] == 40


@given(st.floats(0.01, 100), st.lists(st.floats(0, 1e5), min_size=1, max_size=9))
def test_models_share_it(alarms: float, decisions: list[float]) -> None:
    deciding = [d for d in decisions if d > 1e-6]
    assume(deciding)
    budget = Budget(alarms, 7)
    parts = [budget_of_model(budget, d, decisions).alarms for d in deciding]
    assert all(part >= 0.5 * alarms / len(decisions) for part in parts)
    if len(deciding) == sum(d > 0 for d in decisions):
        assert sum(parts) == pytest.approx(alarms)


@given(st.floats(0.01, 100), st.floats(0, 1e5), st.floats(0, 1e4))
def test_together_they_keep_the_budget(alarms: float, columns: float, models: float) -> None:
    assume(columns + models > 1e-6)
    budget = Budget(alarms, 7)
    of_columns, of_models = rates_of_decisions(budget, columns, models)
    assert 0 < of_columns <= LARGEST_RATE
    assert of_columns <= of_models <= LARGEST_RATE
    assert of_columns * columns + of_models * models <= budget.per_day * (1 + 1e-9)


def test_without_a_budget_or_monitors_the_rate_is_1_percent(tmp_path: Path) -> None:
    plain = PROJECT_YML.replace("false_alarm_budget: 1 per month\n", "")
    for place, (yml, sql) in enumerate([(plain, SALES), (PROJECT_YML, "select 1 as a")]):
        root = write_project(tmp_path / str(place), {"checks/m.sql": sql, "dqsql_project.yml": yml})
        compiled = compile_project(root, profiles_dir=root)
        assert project_rates(compiled.project, compiled.plans, {}).rates("m") == DEFAULT_RATES


@pytest.mark.parametrize(
    ("given", "defaults", "fpr"),
    [
        ("@novelty", {}, 0.002),
        ("@novelty {fpr: 0.05}", {}, 0.05),
        ("@novelty", {"fpr": 0.03}, 0.03),
        ("@novelty(mode => 'paper', contamination => 0.02)", {}, None),
        ("@novelty", {"mode": "paper", "contamination": 0.02}, None),
        ("@novelty {mode: paper, adaptive_contamination: true}", {}, None),
    ],
)
def test_novelty_keeps_it_as_a_rate(
    tmp_path: Path, given: str, defaults: dict[str, Any], fpr: float | None
) -> None:
    model = f"select 1 as a\n-- {given}"
    write_project(tmp_path, {"checks/m.sql": model})
    (plan,) = compile_project(tmp_path, profiles_dir=tmp_path).plans
    (monitor,) = plan.monitors
    assert novelty_settings(monitor, defaults, 0.002).fpr == fpr
    # Without a budget a contamination decides, as in the paper.
    without = novelty_settings(monitor, defaults)
    assert (without.fpr is None) == (fpr in (None, 0.002))


def test_a_run_takes_it(checked: Project) -> None:
    found = programs(checked)
    assert found["amount"]["fpr"] == pytest.approx(1 / MONTH / 2)
    assert found["code"]["fpr"] == 0.05
