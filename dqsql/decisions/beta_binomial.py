"""The beta-binomial model of how many rows of a batch are counted: nulls, for example.

A batch of n rows has x ~ Binomial(n, p), and p itself varies from batch to batch as
Beta(mu (1/rho - 1), (1 - mu) (1/rho - 1)) with mean mu and over-dispersion rho (Skellam 1948,
Journal of the Royal Statistical Society B 10, 257-261). Both are learned from the counts of the
accepted batches by their exact likelihood, on a grid, with Jeffreys' prior on mu and one on rho
that prefers steady shares (see `_STEADINESS`). The share that the next batch exceeds with the rate
asked for, by the posterior, and the posterior's mean give the one beta-binomial distribution that
is kept: it says for any number of rows how many may be counted.

The tail of real shares is heavier than a Beta distribution's: a storm cancels a tenth of a day's
flights where a fiftieth was usual. So the share kept is at least the one that the largest share
seen leads to in a tail of Pareto's shape (Weissman 1978, Journal of the American Statistical
Association 73, 812-815), on the scale of odds. How heavy it is, is read off how far the largest is
from the mean: the largest of a steady share is at its mean, or near it by chance.

No promise without a model is possible here: of a column that was never null in K batches nobody can
say that the next has a null with a probability below 1/(K + 2). The prior is what is added, and
that one of two hundred rows is news (see `_NEVER`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray

# A bound that nothing but a wholly empty batch could break promises nothing.
_LARGEST_LIMIT = 0.98
_OVERDISPERSION = np.geomspace(3e-5, 0.5, 11)
# Power of rho in its prior, beside the logarithmic scale: steady shares are the rule.
_STEADINESS = -0.75
# Largest tail index of the odds of a share, as a power (choice): a tenth of the rate is 2.8 times
# as far.
_TAIL = 0.45
# Of what was never counted in so many batches, a larger share is no chance, however low the rate:
# what the posterior cannot rule out then is a fault. So is what lies beyond the share that the
# heaviest tail makes of the largest seen: one batch says next to nothing of the over-dispersion.
_NEVER, _NEVER_FROM = 0.005, 14
_DEVIATIONS = np.linspace(-4.0, 4.0, 11)
# Where the share is looked for that a batch exceeds rarely, and how exactly, in logits.
_LOGITS, _LOGIT_STEP = (-15.0, 12.0), 0.002
# Batches beyond are judged as if they had this many rows: their noise is negligible.
_MOST_ROWS = 4096


class BetaBinomial(NamedTuple):
    """Parameters of the share's Beta distribution, both > 0."""

    alpha: float
    beta: float

    @property
    def mean(self) -> float:
        """Expected share, in (0, 1)."""
        return self.alpha / (self.alpha + self.beta)


def learn(
    counts: npt.ArrayLike, rows: npt.ArrayLike, rate: float, largest: float = _LARGEST_LIMIT
) -> BetaBinomial | None:
    """Learn the distribution of a share, right at its mean and where `rate` of batches lie beyond.

    Args:
        counts: rows of each batch that are counted, 0 to its rows.
        rows: rows of each batch; batches without rows are left out.
        rate: probability that a good batch's share lies beyond the limit, in (0, 1).
        largest: the largest limit that says something, in (0, 1].

    Returns:
        None if next to no share could be excluded at this rate.
    """
    # 0 is added so that -0 and 0 are one history.
    x, n = np.asarray(counts, dtype=float) + 0.0, np.asarray(rows, dtype=float)
    keep = n > 0
    # Counts that are shares of rounded numbers of rows may be a bit more than these.
    x = np.minimum(x, n)
    return _learn(x[keep].tobytes(), n[keep].tobytes(), rate, largest)


@lru_cache(maxsize=4096)
def _learn(counts: bytes, rows: bytes, rate: float, largest: float) -> BetaBinomial | None:
    x, n = np.frombuffer(counts), np.frombuffer(rows)
    if not n.size:
        return None
    weights, alpha, beta = _posterior(x, n, rate)
    mean = float((weights * alpha / (alpha + beta)).sum())
    limit = max(_upper_quantile(weights, alpha, beta, rate), _beyond_largest(x, n, rate))
    if x.any() or x.size >= _NEVER_FROM:
        limit = min(limit, max(_NEVER, _farthest(x, n, rate)))
    if limit > largest:
        return None
    return _matching(mean, limit, rate)


def _posterior(
    x: FloatArray, n: FloatArray, rate: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights and parameters of the Beta distributions that the counts speak for."""
    rho = _OVERDISPERSION[:, None]
    # Information of each batch on the mean, given the over-dispersion.
    information = n / (1.0 + (n - 1.0) * rho)
    total = information.sum(axis=1) + 1.0
    middle = ((information * (x / n)).sum(axis=1) + 0.5) / total
    error = 1.0 / np.sqrt(middle * (1.0 - middle) * total)
    logit = scipy.special.logit(middle)[:, None] + error[:, None] * _DEVIATIONS
    mu, rest = scipy.special.expit(logit), scipy.special.expit(-logit)
    precision = 1.0 / rho - 1.0
    alpha, beta = mu * precision, rest * precision
    likelihood = scipy.special.betaln(x + alpha[..., None], n - x + beta[..., None]).sum(axis=-1)
    log = likelihood - x.size * scipy.special.betaln(alpha, beta)
    log += 0.5 * (np.log(mu) + np.log(rest)) + np.log(error)[:, None]
    log += _STEADINESS * np.log(rho)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    keep = weights > 1e-3 * rate / weights.size
    return weights[keep], alpha[keep], beta[keep]


def _upper_quantile(weights: FloatArray, alpha: FloatArray, beta: FloatArray, rate: float) -> float:
    """Return the share that the mixture exceeds with probability `rate`, rounded up.

    By Newton's method for the logarithm of what is beyond a logit.
    """
    # The quantile of one Beta distribution with the mixture's mean and variance is near, mostly
    # below: the tails of the mixture are heavier.
    mean = float((weights * alpha / (alpha + beta)).sum())
    moment = weights * alpha * (alpha + 1.0) / (alpha + beta) / (alpha + beta + 1.0)
    precision = mean * (1.0 - mean) / max(float(moment.sum()) - mean**2, 1e-300) - 1.0
    guess = scipy.special.betainccinv(mean * precision, (1.0 - mean) * precision, rate)
    low, high = _LOGITS
    at = float(np.clip(scipy.special.logit(guess), low, high))
    while high - low > _LOGIT_STEP:
        share, rest = scipy.special.expit(at), scipy.special.expit(-at)
        tails = weights * scipy.special.betaincc(alpha, beta, share)
        beyond = max(float(tails.sum()), 1e-300)
        density = weights * np.exp(
            alpha * np.log(share) + beta * np.log(rest) - scipy.special.betaln(alpha, beta)
        )
        away = float(np.log(beyond / rate) * beyond / max(float(density.sum()), 1e-300))
        if beyond > rate:
            low = at
            # What is beyond a point can only shrink further out.
            matters = tails > 1e-4 * rate / weights.size
            weights, alpha, beta = weights[matters], alpha[matters], beta[matters]
        else:
            high = at
            if -away <= _LOGIT_STEP:
                break
        at += away + _LOGIT_STEP / 2.0
        if not low < at < high:
            at = (low + high) / 2.0
    return float(scipy.special.expit(high))


def _beyond_largest(x: FloatArray, n: FloatArray, rate: float) -> float:
    """Return the share that `rate` of batches exceed, if 1 / (K + 1) exceed the largest of K.

    0 where the largest may be mere chance: then the model has all there is to know. The largest
    of K normal deviates is expected to be at most sqrt(2 log K).
    """
    luck = np.sqrt(2.0 * np.log(x.size))
    largest = float(((x - luck * np.sqrt(np.maximum(0.0, x * (1.0 - x / n)))) / n).max())
    mean = (x.sum() + 0.5) / (n.sum() + 1.0)
    if largest <= mean:
        return 0.0
    # The largest of K odds is K to the tail index times the usual ones.
    apart = scipy.special.logit(largest) - scipy.special.logit(mean)
    tail = min(_TAIL, apart / np.log(x.size + 1.0))
    return _in_tail(largest, tail, x.size, rate)


def _farthest(x: FloatArray, n: FloatArray, rate: float) -> float:
    """Return what the largest share seen leads to in the heaviest tail; 0 if none was counted."""
    return _in_tail(float((x / n).max()), _TAIL, x.size, rate) if x.any() else 0.0


def _in_tail(largest: float, tail: float, size: int, rate: float) -> float:
    """Return the share that `rate` of batches exceed, where 1 / (size + 1) exceed the largest."""
    steps = max(0.0, -np.log((size + 1.0) * rate))
    return float(scipy.special.expit(scipy.special.logit(largest) + tail * steps))


def _matching(mean: float, limit: float, rate: float) -> BetaBinomial:
    """Return the narrowest Beta distribution of this mean that exceeds the limit at this rate."""
    precisions = np.geomspace(0.01, 1e9, 12)
    for _ in range(4):
        beyond = scipy.special.betaincc(mean * precisions, (1.0 - mean) * precisions, limit)
        wide = np.flatnonzero(beyond >= rate)
        if not wide.size:
            break
        place = int(wide[-1])
        precisions = np.geomspace(
            precisions[place], precisions[min(place + 1, precisions.size - 1)], 8
        )
    return BetaBinomial(float(mean * precisions[0]), float((1.0 - mean) * precisions[0]))


@lru_cache(maxsize=4096)
def share_limit(model: BetaBinomial, rows: float, rate: float) -> float:
    """Return the largest share that a good batch of so many rows exceeds at most at this rate.

    Exact for up to 4,096 rows; larger batches have the limit of that size, which is wider by a
    hair.
    """
    n = int(min(max(1.0, rows), _MOST_ROWS))
    a, b = model
    k = np.arange(n, dtype=float)
    steps = np.log((n - k) * (k + a) / ((k + 1.0) * (n - k - 1.0 + b)))
    start = scipy.special.betaln(a, n + b) - scipy.special.betaln(a, b)
    logs = np.concatenate([[start], start + np.cumsum(steps)])
    # Summed from the far end, so that small probabilities keep their digits.
    beyond = np.cumsum(np.exp(logs)[::-1])[::-1]
    beyond = np.append(beyond[1:], 0.0)
    return float((beyond > rate).sum()) / n
