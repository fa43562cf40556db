"""Strategies of `@anomaly` by outlier models of other libraries: scikit-learn's, PyOD's, your own.

A model is named by an entry point of the group `dqsql.strategies`, which is called with the
annotation's parameters and returns an object with `fit(X)` and either `score_samples(X)`
(scikit-learn's: the higher, the more usual) or `decision_function(X)` (PyOD's: the higher, the
odder). Each row of X is one batch: its value, and its differences from the value one and seven
batches before.

How odd a value may be is learned from past values, each scored by a model of those before it. The
band has the values around the most usual one that are no odder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import numpy as np
import scipy

from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.strategies import (
    LearnedStrategy,
    Limits,
    Prediction,
    Series,
    TooLittleHistoryError,
    Undecidable,
)
from dqsql.errors import DecisionError
from dqsql.model.wording import plural

_GROUP = "dqsql.strategies"
_SHIPPED = (EntryPoint("isolation_forest", "sklearn.ensemble:IsolationForest", _GROUP),)
_LAGS = (1, 7)
_LEAST = 28
# So many models of ever more of the past score what came after.
_FOLDS = 3
# Values are tried up to so many ranges of the past beyond it, in so many steps.
_BEYOND, _STEPS = 3.0, 400
_FAILURES = (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError)


def models() -> Mapping[str, EntryPoint]:
    """The models that may be named: shipped ones, and those of installed packages."""
    return {p.name: p for p in (*entry_points(group=_GROUP), *_SHIPPED)}


@dataclass(frozen=True, slots=True)
class ModelStrategy(LearnedStrategy):
    """A model with `fit` and scores.

    Attributes:
        point: the entry point.
        parameters: what it is called with, by name.
    """

    point: EntryPoint = _SHIPPED[0]
    parameters: tuple[tuple[str, Any], ...] = ()
    name: ClassVar[str] = "model"
    positional: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        LearnedStrategy.__post_init__(self)
        self._new()

    @property
    def min_history(self) -> int:
        """Four weeks of days."""
        return _LEAST + self.order

    def to_dict(self) -> dict[str, Any]:
        """As of others: the model's parameters beside those of all strategies."""
        own = {name: getattr(self, name) for name in _COMMON}
        return {"name": self.point.name} | own | dict(self.parameters)

    def predict(self, series: Series) -> Prediction:
        """The values that are no odder than past ones were."""
        known = ~np.isnan(series.values)
        values = series.values[known]
        TooLittleHistoryError.unless(values.size, _LEAST)
        try:
            return self._predict(values, series.new)
        except _FAILURES as error:
            raise Undecidable(f"{self.point.name} cannot model this history: {error}") from error

    def _predict(self, values: FloatArray, new: float) -> Prediction:
        places = np.arange(_LAGS[-1], values.size)
        past = _features(values[places], values, places)
        allowed = self._allowed(past)
        span = max(float(np.ptp(values)), 1e-9 * abs(float(values[-1])), 1e-9)
        ends = values.min() - _BEYOND * span, values.max() + _BEYOND * span
        tried = np.linspace(*ends, _STEPS)
        if np.isfinite(new):
            tried = np.sort(np.append(tried, new))
        rows = _features(tried, values, np.full(tried.size, values.size))
        oddness = self._oddness(past, rows)
        first, last = _run(oddness <= allowed, oddness, new, tried)
        expected = float(tried[first + int(np.argmin(oddness[first : last + 1]))])
        lower = -np.inf if first == 0 else float(tried[first])
        upper = np.inf if last == tried.size - 1 else float(tried[last])
        basis = f"{self.point.name} of {plural(values.size, 'batch')}"
        return Prediction(expected, basis, values.size, (Limits(lower, upper),))

    def _allowed(self, past: FloatArray) -> float:
        """The oddness that a good value exceeds at the rate."""
        parts = np.array_split(np.arange(len(past) // 2, len(past)), _FOLDS)
        scored = np.concatenate([self._oddness(past[: p[0]], past[p]) for p in parts])
        # Scores saturate: far out they are hardly larger than at the edge, and the heavy tails that
        # values may have would allow anything. Student's interval for one more score.
        rate = self.default_rate if self.rate is None else self.rate
        width = scipy.special.stdtrit(scored.size - 1, 1 - rate) * math.sqrt(1 + 1 / scored.size)
        return float(scored.mean() + width * scored.std(ddof=1))

    def _oddness(self, past: FloatArray, rows: FloatArray) -> FloatArray:
        center, scale = past.mean(axis=0), past.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        fitted = self._new()
        fitted.fit((past - center) / scale)
        usual = getattr(fitted, "score_samples", None)
        scaled = (rows - center) / scale
        raw_scores = fitted.decision_function(scaled) if usual is None else -usual(scaled)
        scores = np.asarray(raw_scores, dtype=float)
        if scores.shape != (len(rows),) or not np.isfinite(scores).all():
            raise ValueError(f"it must give {len(rows)} finite scores")
        return scores

    def _new(self) -> Any:
        """A model that has learned nothing yet; the same input is to give the same scores."""
        try:
            made = self.point.load()(**dict(self.parameters))
        except ModuleNotFoundError as error:
            raise DecisionError(
                f"{self.point.name} needs a package that is not installed: {error}",
                hint="pip install scikit-learn" if self.point in _SHIPPED else "install it",
            ) from error
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise DecisionError(
                f"the model {self.point.name} cannot be made: {error}",
                hint="its parameters are those of the class that its entry point names",
            ) from error
        scores = any(hasattr(made, n) for n in ("score_samples", "decision_function"))
        if not (hasattr(made, "fit") and scores):
            raise DecisionError(
                f"the model {self.point.name} has no fit, or neither score_samples nor"
                " decision_function",
                hint="see docs/anomaly.md, Models of other libraries",
            )
        if getattr(made, "random_state", 0) is None:
            made.random_state = 0
        return made


# A number of spreads says nothing of a score.
_COMMON = ("fpr", "order")
_WIDTHS = tuple(
    f.name for f in fields(LearnedStrategy) if f.name not in _COMMON and f.name != "name"
)


def model_strategy(
    name: str, positional: Sequence[object], named: Mapping[str, object]
) -> ModelStrategy | None:
    """The strategy by a model; None where none has that name.

    Raises:
        DecisionError: parameters that it cannot have.
    """
    point = models().get(name)
    if point is None:
        return None
    if positional:
        raise DecisionError(
            f"{name} takes its parameters by name", hint=f"for example {name}(fpr => 0.01)"
        )
    for width in _WIDTHS:
        if named.get(width) is not None:
            raise DecisionError(f"{name} has no parameter {width!r}", hint="fpr sets the bounds")
    own: dict[str, Any] = {k: named[k] for k in _COMMON if k in named}
    rest = sorted((k, v) for k, v in named.items() if k not in (*_COMMON, *_WIDTHS))
    return ModelStrategy(point=point, parameters=tuple(rest), **own)


def _features(at: FloatArray, values: FloatArray, places: Any) -> FloatArray:
    """A row for each of `places` in the series; `at` are the values at them, or to be tried."""
    return np.column_stack([at, *(at - values[places - lag] for lag in _LAGS)])


def _run(fine: BoolArray, oddness: FloatArray, new: float, tried: FloatArray) -> tuple[int, int]:
    """First and last place of the values that are fine, next to each other and to the new one."""
    places = np.flatnonzero(fine)
    if not places.size:
        least = int(np.argmin(oddness))
        return least, least
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)

    def away(run: Any) -> float:
        return float(np.abs(tried[run] - new).min()) if np.isfinite(new) else -float(run.size)

    nearest = min(runs, key=away)
    return int(nearest[0]), int(nearest[-1])
