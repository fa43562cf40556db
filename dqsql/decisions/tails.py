"""How far off a value may be for a false-positive rate: tails learned from past errors.

`fit_tails` takes the errors that a forecast made in the past, each divided by what it owed to the
uncertainty of the forecast, and returns the predictive distribution of the next one. It is a
Bayesian model average:

- Student's t distributions of several degrees of freedom, from 2 (very heavy tails) to the normal
  one, each weighted by its marginal likelihood (Laplace's approximation of the integral over the
  scale; the Fisher information of the logarithm of the scale is 2 n v / (v + 3)).
- Each either symmetric, or with a scale and degrees of freedom of its own above and below, with
  the probability of either side counted: for counts and shares.
- The uncertainty of each scale is integrated over by Gauss-Hermite nodes, so that short histories
  get wider bounds, as Student's prediction interval has them.

On average over sources that the prior thinks possible, predictive probabilities are kept exactly;
tests/benchmarks/false_alarms.py measures it. Where a rate is large enough for so many errors to
lie beyond, their quantile is blended in (conformal prediction; Vovk, Gammerman & Shafer 2005),
which needs no model. Pure functions of arrays, one row per series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import BoolArray, FloatArray

_DEGREES = np.array([2.0, 3.0, 5.0, 10.0, 1000.0])
# How common each is, and how common they are taken for where a rate is promised: few errors do not
# show heavy tails, and a band that is too narrow breaks its promise. Chosen on Student's t(3); with
# light tails bands hardly change by it.
PRIOR_OF_RATES = np.array([4.0, 4.0, 2.0, 1.0, 3.0])
PRIOR = np.array([1.0, 3.0, 2.0, 1.0, 3.0])
# As how many series each counts where series tell of one another: among dozens of metrics it is
# soon outweighed, and a few of them do not show by themselves how common heavy tails are.
_SERIES_OF_PRIOR, _SERIES_OF_PRIOR_OF_RATES = 2.0, 3.0
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
_EM_STEPS = 6
_NEWTON_STEPS = 10
# Density of the logarithm of the ratio of the two scales, of a model that has two.
_ASYMMETRY = 0.5
_LEAST = 1e-300
_EXACT, _GROUPS = 24, 40
_POOLING_STEPS = 15
# So many errors beyond are expected where quantile and model count the same.
_BLEND = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Predictive distribution of the next error, for S series.

    Attributes:
        weights: S x M x 2, of each component, below and above zero; sums to 1 over both.
        scales: S x M x 2.
        degrees: M.
        absolute: S x m past errors, each divided by the typical size of those of its side; NaN
            where there is none.
        sizes: S x 2, that typical size.
    """

    weights: FloatArray
    scales: FloatArray
    degrees: FloatArray
    absolute: FloatArray
    sizes: FloatArray

    def beyond(self, distance: FloatArray, above: BoolArray) -> FloatArray:
        """Probability of an error further away, on its side, by the model.

        Args:
            distance: S, >= 0.
            above: S, which side.
        """
        side = above.astype(int)
        rows = np.arange(len(side))
        return _survival(
            distance, self.weights[rows, :, side], self.scales[rows, :, side], self.degrees
        )

    def reach(self, rate: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far bounds below and above are away, for a rate on each side, in (0, 0.5)."""
        rates = np.broadcast_to(np.asarray(rate, dtype=float), (len(self.weights),))
        low, high = (self._quantile(rates, side) for side in (0, 1))
        return self._blended(rates, low, high)

    def _quantile(self, rates: FloatArray, side: int) -> FloatArray:
        """Newton's steps on logarithms, where the tail is concave: they end from the right."""
        weights, scales = self.weights[:, :, side], self.scales[:, :, side]
        place = np.log(3 * (weights * scales).sum(axis=1) / weights.sum(axis=1))
        most = weights.sum(axis=1)
        target = np.log(np.minimum(rates, 0.95 * most))
        for _ in range(_NEWTON_STEPS):
            distance = np.exp(place)
            tail = np.maximum(_survival(distance, weights, scales, self.degrees), 1e-300)
            slope = distance * _density(distance, weights, scales, self.degrees) / tail
            step = (np.log(tail) - target) / np.maximum(slope, 0.1)
            place = place + np.clip(step, -1.5, 1.5)
        return np.asarray(np.exp(place), dtype=float)

    def _blended(
        self, rates: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds moved towards the quantile of past errors, by how many lie beyond it."""
        counts = np.count_nonzero(~np.isnan(self.absolute), axis=1)
        expected = 2 * rates * (counts + 1)
        weight = np.where(expected >= 1, expected / (expected + _BLEND), 0.0)
        if not weight.any():
            return low, high
        ranked = np.sort(self.absolute, axis=1)
        places = np.clip(counts - expected, 0, np.maximum(counts - 1, 0))
        first = np.floor(places).astype(int)
        rows = np.arange(len(ranked))
        after = np.minimum(first + 1, np.maximum(counts - 1, 0))
        seen = ranked[rows, first] + (places - first) * (ranked[rows, after] - ranked[rows, first])
        seen = np.maximum(np.where(weight > 0, seen, 1.0), 1e-12)
        bounds = [
            np.exp((1 - weight) * np.log(bound) + weight * np.log(seen * self.sizes[:, side]))
            for side, bound in enumerate((low, high))
        ]
        return bounds[0], bounds[1]


def fit_tails(
    errors: FloatArray, floor: FloatArray, pooled: bool = False, prior_weights: FloatArray = PRIOR
) -> Tails:
    """Learn the tails of errors.

    Args:
        errors: S x m; NaN where there is none; at least two in each row.
        floor: S, > 0, the resolution of the metric: smaller errors are as good as none.
        pooled: whether the series tell of one another how heavy tails are (empirical Bayes).
        prior_weights: of each number of degrees of freedom, where they do not.
    """
    known = ~np.isnan(errors)
    sizes = np.sqrt(np.square(np.where(known, errors, 0.0)) + np.square(floor)[:, None])
    below, above = known & (errors <= 0), known & (errors > 0)
    whole, *sides = _halves(sizes, (known, below, above))
    counts = [b.sum(axis=1) for b in (below, above)]
    total = counts[0] + counts[1]
    prior = prior_weights / prior_weights.sum()
    if pooled:
        prior = _pooled_prior(whole, PRIOR_OF_RATES, _SERIES_OF_PRIOR_OF_RATES)
        # Constants are no sign of heavy tails, nor of light ones: a small move of theirs counts.
        still = np.where(known, np.abs(errors), 0.0).max(axis=1) <= floor
        if still.any():
            usual = _pooled_prior(whole, PRIOR, _SERIES_OF_PRIOR)
            prior = np.where(still[:, None], usual, prior)
    one = _evidence(whole, prior) - total * np.log(2)
    two = (
        _evidence(sides[0], prior)
        + _evidence(sides[1], prior)
        + np.log(_ASYMMETRY)
        + scipy.special.betaln(counts[0] + 1, counts[1] + 1)
    )
    enough = (counts[0] >= 4) & (counts[1] >= 4)
    split = np.where(enough, scipy.special.expit(two - one), 0.0)
    weights, scales = [], []
    for count, side in zip(counts, sides, strict=True):
        share = (count + 1) / (total + 2)
        of_one, of_two = _components(whole, prior), _components(side, prior)
        weights.append(
            np.concatenate(
                [(1 - split)[:, None] * 0.5 * of_one[0], (split * share)[:, None] * of_two[0]],
                axis=1,
            )
        )
        scales.append(np.concatenate([of_one[1], of_two[1]], axis=1))
    degrees = np.tile(np.repeat(_DEGREES, _NODES.size), 2)
    stacked = np.stack(scales, axis=2)
    mixed = np.stack(weights, axis=2)
    typical = np.exp((mixed * np.log(stacked)).sum(axis=1) / mixed.sum(axis=1))
    side_of = np.where(above, typical[:, 1:], typical[:, :1])
    return Tails(mixed, stacked, degrees, np.where(known, sizes / side_of, np.nan), typical)


class _Half(NamedTuple):
    """Student's t folded at zero, fitted to sizes: S x degrees of freedom."""

    evidence: FloatArray
    scale: FloatArray
    uncertainty: FloatArray


def _halves(sizes: FloatArray, uses: Sequence[BoolArray]) -> list[_Half]:
    """Fit several choices of the sizes at once, each S x m."""
    joint_fit = _half(np.concatenate([sizes] * len(uses)), np.concatenate(uses))
    parts = (np.split(part, len(uses)) for part in joint_fit)
    return [_Half(*fitted) for fitted in zip(*parts, strict=True)]


def _half(sizes: FloatArray, use: BoolArray) -> _Half:
    count = np.maximum(use.sum(axis=1), 1)
    squares, groups = _grouped(np.square(np.where(use, sizes, np.nan)))
    start = np.maximum((squares * groups).sum(axis=1) / count, _LEAST)
    # All degrees of freedom at once: degrees x S, and x m.
    degrees = _DEGREES[:, None]
    # Of heavy tails the mean of the squares is far too large.
    variance = start * (degrees + 1) / (degrees + 4)
    weighted = groups * squares
    for _ in range(_EM_STEPS):
        pull = weighted / (degrees[:, :, None] + squares / variance[:, :, None])
        variance = np.maximum((degrees + 1) * pull.sum(axis=2) / count, _LEAST)
    logs = groups * np.log1p(squares / (degrees * variance)[:, :, None])
    constant = np.log(2) + _log_constant(degrees)
    likelihood = count * (constant - 0.5 * np.log(variance)) - (degrees + 1) / 2 * logs.sum(axis=2)
    information = count * 2 * degrees / (degrees + 3)
    evidence = likelihood + 0.5 * np.log(2 * np.pi / information)
    return _Half(evidence.T, np.sqrt(variance).T, 1 / np.sqrt(information).T)


def _grouped(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squares and how often each counts: the largest as they are, the others by means of groups.

    A likelihood hardly changes by it, and takes a sixth of the time with a year of days.
    """
    if squares.shape[1] <= _EXACT + _GROUPS:
        return np.nan_to_num(squares), (~np.isnan(squares)).astype(float)
    ranked = -np.sort(-squares, axis=1)
    counts = (~np.isnan(ranked)).sum(axis=1)
    rest = np.maximum(counts - _EXACT, 0)
    ends = _EXACT + rest[:, None] * np.arange(_GROUPS + 1) // _GROUPS
    sums = np.concatenate([np.zeros((len(ranked), 1)), np.nancumsum(ranked, axis=1)], axis=1)
    members = np.diff(ends, axis=1)
    means = np.diff(np.take_along_axis(sums, ends, axis=1), axis=1) / np.maximum(members, 1)
    largest = ranked[:, :_EXACT]
    there = ~np.isnan(largest)
    return (
        np.concatenate([np.nan_to_num(largest), means], axis=1),
        np.concatenate([there.astype(float), members.astype(float)], axis=1),
    )


def _log_constant(degrees: npt.ArrayLike) -> FloatArray:
    """Logarithm of the density of Student's t at 0."""
    v = np.asarray(degrees, dtype=float)
    return np.asarray(
        scipy.special.gammaln((v + 1) / 2) - scipy.special.gammaln(v / 2) - 0.5 * np.log(v * np.pi)
    )


def _pooled_prior(fitted: _Half, weights: FloatArray, series: float) -> FloatArray:
    """How common each number of degrees of freedom is among the series, by the EM algorithm.

    The `weights` before any of them count as much as so many series.
    """
    start = prior = weights / weights.sum()
    for _ in range(_POOLING_STEPS):
        posterior = _posterior(fitted, prior)
        prior = (start * series + posterior.sum(axis=0)) / (series + len(posterior))
    return np.asarray(prior, dtype=float)


def _posterior(fitted: _Half, prior: FloatArray) -> FloatArray:
    """How probable each number of degrees of freedom is, S x degrees; rows sum to 1."""
    weights = prior * np.exp(fitted.evidence - fitted.evidence.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=float)


def _evidence(fitted: _Half, prior: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp.reduce(fitted.evidence + np.log(prior), axis=1), dtype=float)


def _components(fitted: _Half, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights, which sum to 1, and scales: S x (degrees of freedom * nodes)."""
    posterior = _posterior(fitted, prior)
    weights = posterior[:, :, None] * _NODE_WEIGHTS
    scales = fitted.scale[:, :, None] * np.exp(fitted.uncertainty[:, :, None] * _NODES)
    rows = len(posterior)
    return weights.reshape(rows, -1), scales.reshape(rows, -1)


def _survival(
    distance: FloatArray, weights: FloatArray, scales: FloatArray, degrees: FloatArray
) -> FloatArray:
    with np.errstate(over="ignore"):  # infinitely many scales away: the tail is 0
        tails = scipy.special.stdtr(degrees, -distance[:, None] / scales)
    return np.asarray(2 * (weights * tails).sum(axis=1), dtype=float)


def _density(
    distance: FloatArray, weights: FloatArray, scales: FloatArray, degrees: FloatArray
) -> FloatArray:
    constant = np.exp(_log_constant(degrees))
    # Beyond this the density is 0 in floating-point numbers, and squares would overflow.
    z = np.minimum(distance[:, None], 1e100 * scales) / scales
    heights = constant * (1 + z * z / degrees) ** (-(degrees + 1) / 2) / scales
    return np.asarray(2 * (weights * heights).sum(axis=1), dtype=float)
