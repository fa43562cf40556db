"""Outlier models of other libraries as strategies of `@anomaly`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dqsql.decisions.anomaly import AnomalyDecision, strategy
from dqsql.decisions.arrays import FloatArray
from dqsql.errors import DecisionError
from tests.decisions.one_value import evaluate

DAYS = np.datetime64("2024-01-01", "D") + np.arange(61)
MODULE = '''
import numpy as np


class Distance:
    """As PyOD's: the higher, the odder."""

    def __init__(self, power=1):
        self.power = power

    def fit(self, X):
        self.middle = X.mean(axis=0)

    def decision_function(self, X):
        return np.abs(X - self.middle).sum(axis=1) ** self.power


class Broken(Distance):
    def decision_function(self, X):
        return [0.0]


class Scoreless:
    def fit(self, X):
        pass
'''
POINTS = """\
[dqsql.strategies]
distance = far_models:Distance
broken = far_models:Broken
scoreless = far_models:Scoreless
"""


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package as an installer leaves it."""
    info = tmp_path / "far_models-1.0.dist-info"
    info.mkdir()
    (tmp_path / "far_models.py").write_text(MODULE, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-models\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("far_models", None)


def weekly() -> FloatArray:
    rng = np.random.default_rng(3)
    week = np.sin(2 * np.pi * np.arange(61) / 7)
    return np.asarray(1000 * (1 + 0.2 * week) + rng.normal(0, 20, 61))


def decide(name: str, value: float, **parameters: object) -> AnomalyDecision:
    values = weekly()
    return evaluate(strategy(name, **parameters), values[:60], DAYS[:60], value, DAYS[60])


def test_an_isolation_forest_knows_an_outlier_and_a_good_value() -> None:
    good = decide("isolation_forest", weekly()[60], n_estimators=30)
    assert good.status == "ok"
    assert good.lower <= good.value <= good.upper
    bad = decide("isolation_forest", 5000.0, n_estimators=30)
    assert bad.status == "anomalous"
    assert not bad.lower <= bad.value <= bad.upper
    assert bad.score is not None
    assert bad.score > 1
    assert "isolation_forest of 60 batches" in bad.explanation
    # Equal input, equal verdict; and what is stored makes the strategy again.
    assert bad == decide("isolation_forest", 5000.0, n_estimators=30)
    chosen = strategy("isolation_forest", n_estimators=30, fpr=0.01)
    assert strategy(**chosen.to_dict()) == chosen


@pytest.mark.usefixtures("_package")
def test_a_model_of_an_installed_package() -> None:
    assert decide("distance", weekly()[60]).status == "ok"
    assert decide("distance", 0.0, power=0.5).status == "anomalous"
    # Of changes, in the unit of the values.
    grown = np.arange(61) * 50.0 + weekly()
    chosen = strategy("distance", order=1)
    good = evaluate(chosen, grown[:60], DAYS[:60], grown[60], DAYS[60])
    assert good.status == "ok"
    assert good.lower < good.expected < good.upper
    assert evaluate(chosen, grown[:60], DAYS[:60], 0.0, DAYS[60]).status == "anomalous"
    # A higher rate, a narrower band.
    bands = [decide("distance", 1000.0, fpr=rate) for rate in (0.001, 0.05)]
    assert bands[0].lower < bands[1].lower
    assert bands[0].upper > bands[1].upper


@pytest.mark.usefixtures("_package")
def test_few_values_and_models_that_fail() -> None:
    values = weekly()
    chosen = strategy("distance")
    assert evaluate(chosen, values[:20], None, 1000.0).status == "too_little_history"
    assert evaluate(chosen, np.full(40, 7.0), None, 7.0).status == "ok"
    assert evaluate(chosen, np.full(40, 7.0), None, 8.0).status == "anomalous"
    broken = decide("broken", 1.0)
    assert broken.status == "undecidable"
    assert "finite scores" in broken.explanation


@pytest.mark.usefixtures("_package")
def test_what_cannot_be_made_is_told() -> None:
    with pytest.raises(DecisionError, match=r"model distance cannot be made: .*'powr'"):
        strategy("distance", powr=2)
    with pytest.raises(DecisionError, match="takes its parameters by name"):
        strategy("distance", 2)
    with pytest.raises(DecisionError, match="no parameter 'sd'"):
        strategy("distance", sd=3)
    with pytest.raises(DecisionError, match="has no fit, or neither"):
        strategy("scoreless")
    # Nothing is imported that no package declares.
    with pytest.raises(DecisionError, match=r"no anomaly strategy is called .os\.system."):
        strategy("os.system")


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DecisionError, match="needs a package that is not installed") as caught:
        strategy("isolation_forest")
    assert caught.value.hint == "pip install scikit-learn"
