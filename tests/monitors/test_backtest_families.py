"""`dqsql backtest` replays every family of monitors side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dqsql import backtest
from dqsql.decisions.anomaly import strategy
from dqsql.decisions.novelty_config import novelty_config
from dqsql.monitors.kinds.anomaly.replay import at_rate

from .conftest import DqSql
from .families import LAST, TENFOLD

if TYPE_CHECKING:
    from dqsql.monitors.replay import Replayed
    from dqsql.runner.backtest import ModelBacktest
    from tests.runner.conftest import Project

RATES = (0.001, 0.01, 0.05)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replayed(families: Project) -> ModelBacktest:
    (model,) = backtest(families.root, spark=families.spark, rates=RATES)
    assert model.error is None
    return model


def of(model: ModelBacktest, kind: str, text: str = "") -> list[Replayed]:
    return [r for r in model.replayed if r.monitor.kind == kind and text in r.monitor.name]


def test_all_families_are_replayed(replayed: ModelBacktest) -> None:
    kinds = {r.monitor.kind for r in replayed.replayed if r.fpr is not None}
    assert kinds == {"avh", "anomaly", "novelty", "pattern"}
    for kind, text in (("novelty", ""), ("pattern", ""), ("anomaly", "mean")):
        ones = of(replayed, kind, text)
        assert [one.fpr for one in ones] == list(RATES)
        for one in ones:
            assert one.note is None
            assert one.accepted + one.flagged + one.learning == 30
            # The day whose amounts are tenfold is flagged; the next one has odd codes and notes.
            assert TENFOLD in one.found or kind == "pattern" or one.fpr < 0.01
        alarms = [len(one.alarms) + len(one.found) for one in ones]
        assert alarms == sorted(alarms)


def test_patterns_by_stored_counts(replayed: ModelBacktest) -> None:
    for one in of(replayed, "pattern"):
        assert [*one.alarms, *one.found] == [LAST]
        assert one.learning == 1


def test_novelty_has_a_recall_of_moved_metrics(replayed: ModelBacktest) -> None:
    ones = of(replayed, "novelty")
    assert all(set(one.kinds) == {"moved metric"} for one in ones)
    recalls = [one.recall for one in ones]
    assert recalls == sorted(recalls)
    assert recalls[-1] > 0


def test_a_run_decides_alike(families: Project, replayed: ModelBacktest) -> None:
    rows = [r for r in families.rows("dq_results") if r["detector"] == "novelty"]
    in_runs = {r["batch"] for r in rows if r["status"] == "warn"}
    # The default rate is one of the rates.
    one = next(r for r in of(replayed, "novelty") if r.fpr == novelty_config().rate)
    assert {*one.alarms, *one.found} == in_runs


def test_limits_hang_on_no_rate(replayed: ModelBacktest) -> None:
    ones = of(replayed, "anomaly", "threshold")
    assert len(ones) == len(RATES)
    for one in ones:
        assert one.note is not None
        assert one.note.startswith("its bounds are written, no rate moves them: as they are, 0")


def test_the_table(families: Project, dqsql: DqSql) -> None:
    result = dqsql(families, "backtest", "--fpr", "0.01", "--newest", "20")
    assert result.exit_code == 0, result.output
    for name in ("amount @avh", "fare @anomaly", "code @pattern", "model @novelty"):
        assert name in result.output
    assert "no rate moves them" in result.output


def test_strategies_at_a_rate() -> None:
    moved = at_rate(strategy("online_normal"), 0.01)
    assert moved is not None
    assert moved.to_dict()["fpr"] == 0.01
    again = at_rate(strategy("batch_normal", fpr=0.2), 0.01)
    assert again is not None
    assert again.to_dict()["fpr"] == 0.01
    assert at_rate(strategy("online_normal", 4), 0.01) is None
    assert at_rate(strategy("threshold", 1, 2), 0.01) is None


def test_the_rate_in_use_is_tried_and_marked(families: Project, dqsql: DqSql) -> None:
    """Who asks for no rates sees what runs do, whichever rate that is."""
    (model,) = backtest(families.root, spark=families.spark)
    in_use = {r.monitor.id: r for r in model.replayed if r.in_use}
    decided = {m.monitor.id for m in model.replayed if m.fpr is not None}
    written = {r.monitor.id for r in of(model, "anomaly", "threshold")}
    assert in_use.keys() == decided - written
    (rate,) = {r.fpr for r in in_use.values() if r.monitor.kind == "anomaly"}
    assert rate is not None and rate not in RATES
    for one in in_use.values():
        alike = [r.fpr for r in model.replayed if r.monitor.id == one.monitor.id]
        assert alike == sorted({*RATES, one.fpr})
    bad = [r for r in families.rows("dq_results") if r["status"] in ("warn", "fail")]
    for check_id, one in in_use.items():
        if one.monitor.kind in ("anomaly", "novelty"):
            told = {r["batch"] for r in bad if r["check_id"] == check_id}
            assert {*one.alarms, *one.found} == told, check_id
    shown = dqsql(families, "backtest", "--select", model.model).output
    assert shown.count(" in use  ") == len(in_use)
