"""The augmented Dickey-Fuller test of many series at once, of whatever lengths.

`statsmodels.tsa.stattools.adfuller` (regression 'c', autolag 'AIC') is the reference. All nested
lag orders of all series are fitted by one stacked QR factorisation, and the regressions of the
orders chosen by another one. Series differ in length and lag order: rows that a series has not are
zero, and so is a lag that it has not, but for a one in a row of its own, where the response is
zero. Neither changes a residual. Singular or nearly singular cases are fitted by pseudoinverses,
as the reference fits all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import BoolArray, FloatArray, IntArray
from dqsql.errors import DecisionError

SHORTEST_FOR_ADF = 4
_SINGULAR = 1e-6
_AIC_TIE = 1e-7
# Of a series scaled to unit variance: what is left is rounding.
_EXACT_FIT = 1e-18
# Singular values over the largest that count as zero, in statsmodels' pinv_extended.
_PSEUDOINVERSE = 1e-15
# Numbers in one stack of regressions, at most.
_MOST_NUMBERS = 4_000_000
# MacKinnon (1994), one series with a constant: polynomials, the highest power first, of a statistic
# up to `_TAU_SMALL` and beyond, inside the range. `statsmodels.tsa.adfvalues` has them too, but
# imports `scipy.stats`, which takes a second.
_TAU_RANGE, _TAU_SMALL = (-18.83, 2.74), -1.61
_SMALL_P = (0.038269, 1.4412, 2.1659)
_LARGE_P = (-0.010368, -0.12745, 0.93202, 1.7339)


def adf_ragged(series: FloatArray, lengths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the ADF statistics and p-values of n series; a small p-value says stationary.

    Agrees with `adfuller(x)` (constant, lag order by AIC) to 1e-8.

    Args:
        series: n x K, each on the left; what is beyond its length is not looked at. Constant
            series give NaN, which the reference refuses.
        lengths: n, >= 4.
    """
    longest = int(lengths.max(initial=SHORTEST_FOR_ADF))
    values = series[:, :longest]
    there = np.arange(longest) < lengths[:, None]
    if (lengths < SHORTEST_FOR_ADF).any() or not np.isfinite(values[there]).all():
        raise DecisionError("the ADF test needs at least 4 finite values per series")
    lags = int(_max_lag(np.array([longest]))[0])
    most = max(1, _MOST_NUMBERS // ((longest + lags) * (lags + 3)))
    statistic, p_value = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for start in range(0, len(values), most):
        some = slice(start, start + most)
        statistic[some], p_value[some] = _tested(values[some], lengths[some], there[some])
    return statistic, p_value


def _tested(
    values: FloatArray, lengths: IntArray, there: BoolArray
) -> tuple[FloatArray, FloatArray]:
    x = np.where(there, values, 0.0)
    center = x.sum(axis=1, keepdims=True) / lengths[:, None]
    x = np.where(there, x - center, 0.0)
    spread = np.sqrt(np.square(x).sum(axis=1) / lengths)
    varying = np.where(there, values, values[:, :1]).std(axis=1) > 0
    varying &= (np.where(there, values, values[:, :1]) != values[:, :1]).any(axis=1)
    safe = varying & (spread > _SINGULAR * np.abs(np.where(there, values, 0.0)).max(axis=1))
    x = np.divide(x, spread[:, None], out=np.zeros_like(x), where=safe[:, None])
    statistic = np.full(len(values), np.nan)
    able = np.flatnonzero(safe)
    if able.size:
        order, clear = _lag_order(x[able], lengths[able])
        tau, regular = _level_t(x[able], lengths[able], order)
        statistic[able] = np.where(clear & regular, tau, np.nan)
        safe[able] &= clear & regular
    left = np.flatnonzero(varying & ~safe)
    if left.size:
        statistic[left] = _singular(np.where(there, values, 0.0)[left], lengths[left])
    return statistic, mackinnon_p(statistic)


def mackinnon_p(statistic: npt.ArrayLike) -> FloatArray:
    """Return MacKinnon's (1994) p-values of ADF statistics with a constant; NaN stays NaN."""
    tau = np.asarray(statistic, dtype=float)
    low, high = _TAU_RANGE
    within = np.clip(tau, low, high)
    near = tau <= _TAU_SMALL
    normal = np.where(near, np.polyval(_SMALL_P, within), np.polyval(_LARGE_P, within))
    p = np.where(tau > high, 1.0, np.where(tau < low, 0.0, scipy.special.ndtr(normal)))
    return np.asarray(np.where(np.isnan(tau), np.nan, p), dtype=float)


def _max_lag(lengths: IntArray) -> IntArray:
    most = np.ceil(12.0 * (lengths / 100.0) ** 0.25).astype(np.int64)
    return np.asarray(np.minimum(most, lengths // 2 - 2), dtype=np.int64)


def _design(
    x: FloatArray, lengths: IntArray, lags: IntArray, level_last: bool
) -> tuple[FloatArray, BoolArray]:
    """Return the regressions with so many lags, a stack of matrices, and their lags that are not.

    Columns are the constant, the level, the lagged differences and, last, the response; with
    `level_last` the level comes behind the lags. What a series has not is zero.
    """
    differences = np.diff(x, axis=1)
    count, rows = differences.shape
    top = int(lags.max())
    places = np.arange(rows)
    use = (places >= lags[:, None]) & (places < lengths[:, None] - 1)
    lacks = np.arange(1, top + 1) > lags[:, None]
    stack = np.zeros((count, rows + top, top + 3))
    stack[:, :rows, 0] = use
    first, place = (1, top + 1) if level_last else (2, 1)
    stack[:, :rows, place] = np.where(use, x[:, :-1], 0.0)
    for lag in range(1, top + 1):
        has = use[:, lag:] & ~lacks[:, lag - 1, None]
        stack[:, lag:rows, first + lag - 1] = np.where(has, differences[:, : rows - lag], 0.0)
    stack[:, :rows, -1] = np.where(use, differences, 0.0)
    return stack, lacks


def _regression(
    x: FloatArray, lengths: IntArray, lags: IntArray, level_last: bool
) -> tuple[FloatArray, BoolArray]:
    """Return the triangular factors of the regressions of `_design`, and which are regular."""
    stack, lacks = _design(x, lengths, lags, level_last)
    count, top = lacks.shape
    rows, first = x.shape[1] - 1, 1 if level_last else 2
    lag = np.arange(top)
    stack[:, rows + lag, first + lag] = lacks
    upper = np.asarray(np.linalg.qr(stack, mode="r"), dtype=float)
    norms = np.sqrt(np.square(stack).sum(axis=1))
    if upper.shape[1] < upper.shape[2]:
        return upper, np.zeros(count, dtype=np.bool_)
    diagonal = np.abs(np.diagonal(upper, axis1=1, axis2=2))
    regular = ((diagonal > _SINGULAR * norms) & (norms > 0)).all(axis=1)
    return upper, np.asarray(regular, dtype=np.bool_)


def _lag_order(x: FloatArray, lengths: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the lag order of least AIC, and whether it is numerically beyond doubt."""
    top = _max_lag(lengths)
    upper, regular = _regression(x, lengths, top, level_last=False)
    rows = lengths - 1 - top
    # Row i of the last column is the response's component along the i-th added regressor, so the
    # residual sums of squares of all nested models are the tails of its squares.
    tails = np.cumsum(np.square(upper[:, :, -1])[:, ::-1], axis=1)[:, ::-1]
    residual = tails[:, 2:]
    orders = np.arange(residual.shape[1])
    has = orders <= top[:, None]
    exact = np.asarray(((residual <= _EXACT_FIT) & has).any(axis=1), dtype=np.bool_)
    logs = np.log(np.where(exact[:, None], 1.0, residual) / rows[:, None])
    aic = np.where(has, rows[:, None] * logs + 2 * orders, np.inf)
    ranked = np.sort(aic, axis=1)
    if ranked.shape[1] > 1:
        regular &= ranked[:, 1] - ranked[:, 0] > _AIC_TIE
    return aic.argmin(axis=1), regular & ~exact


def _level_t(x: FloatArray, lengths: IntArray, lags: IntArray) -> tuple[FloatArray, BoolArray]:
    """Return the t statistic of the level, and whether the fit is regular."""
    upper, regular = _regression(x, lengths, lags, level_last=True)
    degrees = lengths - 1 - lags - (lags + 2)
    if upper.shape[1] < upper.shape[2]:
        return np.full(len(x), np.nan), regular
    sign = np.sign(upper[:, -2, -2])
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.abs(upper[:, -1, -1]) / np.sqrt(degrees)
        tau = upper[:, -2, -1] * sign / residual
    return np.asarray(tau, dtype=float), regular & (degrees > 0)


def _singular(x: FloatArray, lengths: IntArray) -> FloatArray:
    """Return the statistics where regressors depend on each other, as statsmodels has them.

    By pseudoinverses, of which the rank counts instead of the number of regressors. Of lag orders
    that only rounding tells apart the first is taken.
    """
    top = _max_lag(lengths)
    stack, _ = _design(x, lengths, top, level_last=False)
    rows = (lengths - 1 - top).astype(float)
    aic = np.full((len(x), int(top.max()) + 1), np.inf)
    exact = _EXACT_FIT * np.square(stack[:, :, -1]).sum(axis=1)
    with np.errstate(all="ignore"):
        for order in range(aic.shape[1]):
            fit = _least_squares(stack[:, :, : order + 2], stack[:, :, -1])
            residual = np.where(fit.residual > exact, fit.residual, 0.0)
            criterion = rows * np.log(residual / rows) + 2 * fit.rank
            aic[:, order] = np.where(order <= top, criterion, np.inf)
        lags = (aic <= aic.min(axis=1, keepdims=True) + _AIC_TIE).argmax(axis=1)
        stack, _ = _design(x, lengths, lags, level_last=False)
        fit = _least_squares(stack[:, :, :-1], stack[:, :, -1])
        degrees = lengths - 1 - lags - fit.rank
        error = np.sqrt(fit.residual / degrees * fit.variance[:, 1])
        return np.asarray(fit.coefficients[:, 1] / error, dtype=float)


class _Fits(NamedTuple):
    """Regressions: n x k coefficients and variances (over that of the residual), and n each."""

    coefficients: FloatArray
    variance: FloatArray
    residual: FloatArray
    rank: IntArray


def _least_squares(regressors: FloatArray, response: FloatArray) -> _Fits:
    """Fit n stacked regressions of k regressors by pseudoinverses, with statsmodels' cut-offs."""
    left, scale, right = np.linalg.svd(regressors, full_matrices=False)
    largest = scale.max(axis=1, keepdims=True)
    kept = scale > _PSEUDOINVERSE * largest
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=kept)
    weights = right * inverse[:, :, None]
    along = np.einsum("nik,ni->nk", left, response)
    coefficients = np.einsum("nkj,nk->nj", weights, along)
    rest = response - np.einsum("nij,nj->ni", regressors, coefficients)
    tolerance = largest * regressors.shape[2] * np.finfo(float).eps
    return _Fits(
        coefficients,
        np.square(weights).sum(axis=1),
        np.square(rest).sum(axis=1),
        (scale > tolerance).sum(axis=1),
    )
