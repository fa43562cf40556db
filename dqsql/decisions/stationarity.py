"""Stationarity of metric histories: batched ADF test and the choice of a transform.

Source: He et al., "Auto-Validate by History", KDD 2023, section 4.2 and Appendix E (Algorithms 4
and 5): a history is taken as it is if the augmented Dickey-Fuller test rejects the unit root, else
as differences of the first lag that passes, else as differences of its logarithm, else dropped.

A history is taken by its places: a batch that was left out (flagged, rejected, without a value) is
NaN in it, so that a season stays in step. A difference is then against the nearest batch a multiple
of the lag back that is there, and tests are made on the differences that there are.

`statsmodels.tsa.stattools.adfuller` (regression 'c', autolag 'AIC') is the reference. The batched
version fits all nested lag orders of all series by one stacked QR factorisation, and leaves
singular or nearly singular cases to statsmodels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray
from dqsql.errors import DecisionError

SIGNIFICANCE = 0.05
# Below this many values neither the test nor a spread estimated from them means anything.
MIN_VALUES = 6
CONSTANT_TOLERANCE = 1e-9

_SINGULAR = 1e-6
_AIC_TIE = 1e-7
# Of a series scaled to unit variance: what is left is rounding.
_EXACT_FIT = 1e-18
_SHORTEST_FOR_ADF = 4
# Rank correlation with time from which a history counts as drifting.
_DRIFT = 0.5


@dataclass(frozen=True, slots=True)
class Transform:
    """What is done to a metric's history before bounds are put on it.

    Attributes:
        log: whether the logarithm is taken first.
        lag: 0, or the distance in batches of the value that is subtracted. Where that batch was
            left out, it is the one twice as far back, and so on.
    """

    log: bool = False
    lag: int = 0

    @property
    def name(self) -> str:
        """One of identity, log, difference, log_difference."""
        if self.lag:
            return "log_difference" if self.log else "difference"
        return "log" if self.log else "identity"

    def series(self, history: npt.ArrayLike) -> FloatArray:
        """Return the transformed history; the last axis is time and becomes `lag` shorter.

        NaN for a batch that was left out, or that has no batch to be compared with.
        """
        values = np.asarray(history, dtype=float)
        if not self.lag:
            return self._scale(values)
        before = _carried(values, self.lag)[..., : -self.lag]
        return np.asarray(self._scale(values[..., self.lag :]) - self._scale(before), dtype=float)

    def reaches(self, history: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return, per history, whether there is something to compare the next batch with."""
        values = np.asarray(history, dtype=float)
        if not self.lag:
            return np.ones(values.shape[:-1], dtype=np.bool_)
        if values.shape[-1] < self.lag:
            return np.zeros(values.shape[:-1], dtype=np.bool_)
        return np.asarray(np.isfinite(self._before(values)), dtype=np.bool_)

    def apply(self, history: npt.ArrayLike, new_value: npt.ArrayLike) -> FloatArray:
        """Return the transformed value of a new batch that follows the history.

        Args:
            history: values of the batches before, oldest first, last axis time; NaN for one that
                was left out.
            new_value: one value, or any shape that broadcasts with history without time.

        Raises:
            DecisionError: there is no batch to compare with, see `reaches`.
        """
        return np.asarray(self._scale(new_value) - self._offset(history), dtype=float)

    def undo(self, history: npt.ArrayLike, value: npt.ArrayLike) -> FloatArray:
        """Return, in the metric's unit, what `apply` maps to the given value."""
        raw = np.asarray(value, dtype=float) + self._offset(history)
        if not self.log:
            return np.asarray(raw, dtype=float)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(raw), dtype=float)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable form."""
        return {"log": self.log, "lag": self.lag}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Transform:
        """Return the transform that `to_dict` wrote."""
        return cls(log=bool(data["log"]), lag=int(str(data["lag"])))

    def _scale(self, values: npt.ArrayLike) -> FloatArray:
        array = np.asarray(values, dtype=float)
        if not self.log:
            return array
        # A new value of zero or less is infinitely far below a positive history.
        out = np.full(array.shape, -np.inf)
        out[np.isnan(array)] = np.nan
        np.log(array, out=out, where=array > 0)
        return out

    def _offset(self, history: npt.ArrayLike) -> FloatArray:
        if not self.lag:
            return np.zeros(())
        values = np.asarray(history, dtype=float)
        if values.shape[-1] < self.lag:
            raise DecisionError(
                f"a difference of lag {self.lag} needs {self.lag} batches of history, "
                f"there are {values.shape[-1]}"
            )
        before = self._before(values)
        if not np.isfinite(before).all():
            raise DecisionError(
                f"a difference of lag {self.lag} needs a value {self.lag} batches before, or a "
                "multiple of that: all of them were left out"
            )
        return self._scale(before)

    def _before(self, values: FloatArray) -> FloatArray:
        """Return what the batch after the history is compared with; NaN for none."""
        return np.asarray(_carried(values, self.lag)[..., values.shape[-1] - self.lag])


def _carried(values: FloatArray, lag: int) -> FloatArray:
    """Return the values with each gap filled by the value `lag` before it, if that is there."""
    if np.isfinite(values).all():
        return values
    out = np.where(np.isfinite(values), values, np.nan)
    for start in range(lag, out.shape[-1], lag):
        block = out[..., start : start + lag]
        before = out[..., start - lag : start - lag + block.shape[-1]]
        out[..., start : start + lag] = np.where(np.isnan(block), before, block)
    return out


def adf_batch(series: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the ADF statistic and p-value of many series of equal length.

    Agrees with `adfuller(x)` (constant, lag order by AIC) to 1e-8.

    Args:
        series: n x K, finite, K >= 4. Constant series give NaN, which the reference refuses.

    Returns:
        Statistics and p-values, n each. The null hypothesis is a unit root, so a small p-value
        says stationary.
    """
    values = np.atleast_2d(np.asarray(series, dtype=float))
    count, length = values.shape
    if length < _SHORTEST_FOR_ADF or not np.isfinite(values).all():
        raise DecisionError("the ADF test needs at least 4 finite values per series")
    statistic = np.full(count, np.nan)
    varying = np.flatnonzero(np.ptp(values, axis=1) > 0)
    if not varying.size:
        return statistic, statistic.copy()
    x = values[varying]
    center = x.mean(axis=1, keepdims=True)
    spread = x.std(axis=1)
    safe = spread > _SINGULAR * np.abs(x).max(axis=1)
    x = np.divide(x - center, spread[:, None], out=np.zeros_like(x), where=spread[:, None] > 0)
    order, clear = _lag_order(x)
    safe &= clear
    for lag in np.unique(order[safe]):
        rows = np.flatnonzero(safe & (order == lag))
        tau, regular = _level_t(x[rows], int(lag))
        statistic[varying[rows]] = tau
        safe[rows] &= regular
    p_value = mackinnon_p(statistic)
    for row in varying[~safe]:
        statistic[row], p_value[row] = _reference(values[row])
    return statistic, p_value


def mackinnon_p(statistic: npt.ArrayLike) -> FloatArray:
    """Return MacKinnon's (1994) p-values of ADF statistics with a constant; NaN stays NaN."""
    # Takes half a second, which commands that judge nothing do not spend.
    from statsmodels.tsa import adfvalues as tables

    tau = np.asarray(statistic, dtype=float)
    small = np.polyval(tables.tau_c_smallp[0][::-1], tau)
    large = np.polyval(tables.tau_c_largep[0][::-1], tau)
    p = np.asarray(
        scipy.special.ndtr(np.where(tau <= tables.tau_star_c[0], small, large)), dtype=float
    )
    p = np.where(tau > tables.tau_max_c[0], 1.0, np.where(tau < tables.tau_min_c[0], 0.0, p))
    return np.asarray(np.where(np.isnan(tau), np.nan, p), dtype=float)


def is_stationary(
    series: npt.ArrayLike, significance: float = SIGNIFICANCE
) -> npt.NDArray[np.bool_]:
    """Return, per series (n x K), whether it is constant or the ADF test rejects a unit root.

    What is not finite is left out. A series too short for the test is not stationary, unless it is
    constant.
    """
    values = np.atleast_2d(np.asarray(series, dtype=float))
    known = np.isfinite(values)
    result = np.zeros(len(values), dtype=np.bool_)
    counts = known.sum(axis=1)
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        whole = values[rows][known[rows]].reshape(rows.size, count)
        result[rows] = _whole_is_stationary(whole, significance)
    return result


def _whole_is_stationary(values: FloatArray, significance: float) -> npt.NDArray[np.bool_]:
    scale = np.maximum(np.abs(values).max(axis=1), np.finfo(float).tiny)
    constant = np.asarray(np.ptp(values, axis=1) <= CONSTANT_TOLERANCE * scale, dtype=np.bool_)
    result: npt.NDArray[np.bool_] = constant.copy()
    rest = np.flatnonzero(~constant)
    if rest.size and values.shape[1] >= _SHORTEST_FOR_ADF:
        p_value = adf_batch(values[rest])[1]
        result[rest] = p_value < significance
    return result


def choose_transforms(
    series: npt.ArrayLike, significance: float = SIGNIFICANCE, min_values: int = MIN_VALUES
) -> list[Transform | None]:
    """Choose the transform of each of many histories of equal length (paper, Algorithm 5).

    Args:
        series: n x K; what is not finite was left out.
        significance: level of the ADF test.
        min_values: fewest differences that a lag must leave (choice; the paper goes down to one).

    Returns:
        n transforms; None where no transform made the history stationary: drop the metric. The
        batch after the history can be transformed by each.
    """
    values = np.atleast_2d(np.asarray(series, dtype=float))
    chosen: list[Transform | None] = [None] * len(values)
    known = np.isfinite(values)
    positive = ((values > 0) & known).sum(axis=1) == known.sum(axis=1)
    need = max(min_values, _SHORTEST_FOR_ADF)
    lags = range(1, int(known.sum(axis=1).max(initial=0)) - need + 1)
    tries = [Transform(), *(Transform(lag=lag) for lag in lags)]
    tries += [Transform(log=True, lag=lag) for lag in lags]
    open_rows = np.arange(len(values))
    for transform in tries:
        rows = open_rows[positive[open_rows]] if transform.log else open_rows
        made = transform.series(values[rows])
        if transform.lag and not known.all():
            enough = np.isfinite(made).sum(axis=1) >= need
            enough &= transform.reaches(values[rows])
            rows, made = rows[enough], made[enough]
        if not rows.size:
            continue
        passed = rows[is_stationary(made, significance)]
        for row in passed:
            chosen[row] = transform
        open_rows = np.setdiff1d(open_rows, passed, assume_unique=True)
    return chosen


def drifting(values: FloatArray) -> npt.NDArray[np.bool_]:
    """Return per series (K x n) whether it rises or falls with time.

    By rank correlation above 0.5; a constant does not.
    """
    # Takes half a second, which commands that judge nothing do not spend.
    from scipy.stats import rankdata

    ranks = np.asarray(rankdata(values, axis=0), dtype=float)
    ranks -= ranks.mean(axis=0)
    time = (np.arange(len(values)) - (len(values) - 1) / 2)[:, None]
    norm = np.sqrt(np.square(ranks).sum(axis=0) * np.square(time).sum())
    # Not a product of matrices, which may flag a floating-point error that never happened.
    product = (time * ranks).sum(axis=0)
    correlation = np.divide(product, norm, out=np.zeros(ranks.shape[1]), where=norm > 0)
    return np.asarray(np.abs(correlation) > _DRIFT, dtype=np.bool_)


def _max_lag(length: int) -> int:
    return min(int(np.ceil(12.0 * (length / 100.0) ** 0.25)), length // 2 - 2)


def _lagged(x: FloatArray, lag: int) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Return response, level and the lagged differences, each n x rows."""
    difference = np.diff(x, axis=1)
    rows = difference.shape[1] - lag
    response = difference[:, lag:]
    level = x[:, lag : lag + rows]
    return response, level, [difference[:, lag - i : lag - i + rows] for i in range(1, lag + 1)]


def _lag_order(x: FloatArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the lag order of least AIC, and whether it is numerically beyond doubt."""
    top = _max_lag(x.shape[1])
    response, level, lags = _lagged(x, top)
    columns = [np.ones_like(level), level, *lags, response]
    upper = _triangle(columns)
    rows, width = response.shape[1], len(columns)
    regular = _regular(upper, columns)
    # Row i of the last column is the response's component along the i-th added regressor, so the
    # residual sums of squares of all nested models are the tails of its squares.
    squares = np.square(upper[:, :, -1])
    tails = np.cumsum(squares[:, ::-1], axis=1)[:, ::-1]
    residual = tails[:, 2:width]
    parameters = np.arange(2, width)
    exact: npt.NDArray[np.bool_] = np.asarray((residual <= _EXACT_FIT).any(axis=1))
    aic = rows * np.log(np.where(exact[:, None], 1.0, residual) / rows) + 2 * parameters
    order = aic.argmin(axis=1)
    ranked = np.sort(aic, axis=1)
    if ranked.shape[1] > 1:
        regular &= ranked[:, 1] - ranked[:, 0] > _AIC_TIE
    return order, regular & ~exact


def _level_t(x: FloatArray, lag: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the t statistic of the level, and whether the fit is regular."""
    response, level, lags = _lagged(x, lag)
    columns = [np.ones_like(level), *lags, level, response]
    upper = _triangle(columns)
    degrees = response.shape[1] - (len(columns) - 1)
    if degrees <= 0:
        return np.full(len(x), np.nan), np.zeros(len(x), dtype=bool)
    sign = np.sign(upper[:, -2, -2])
    residual = np.abs(upper[:, -1, -1]) / np.sqrt(degrees)
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = upper[:, -2, -1] * sign / residual
    return tau, _regular(upper, columns)


def _triangle(columns: list[FloatArray]) -> FloatArray:
    """Return the upper triangular factors of the stacked regressions, n x k x width."""
    factor = np.linalg.qr(np.stack(columns, axis=2), mode="r")
    return np.asarray(factor, dtype=float)


def _regular(upper: FloatArray, columns: list[FloatArray]) -> npt.NDArray[np.bool_]:
    width = len(columns)
    if upper.shape[1] < width:
        return np.zeros(len(upper), dtype=bool)
    norms = np.stack([np.sqrt(np.square(column).sum(axis=1)) for column in columns], axis=1)
    diagonal = np.abs(np.diagonal(upper, axis1=1, axis2=2)[:, :width])
    return np.asarray((diagonal > _SINGULAR * norms).all(axis=1) & (norms > 0).all(axis=1))


def _reference(values: FloatArray) -> tuple[float, float]:
    from statsmodels.tsa.stattools import adfuller

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Singular regressions warn; the answer is then whatever the reference says.
        warnings.simplefilter("ignore")
        result = adfuller(values)
    return float(result[0]), float(result[1])
