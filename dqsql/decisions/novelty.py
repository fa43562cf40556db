"""Novelty: whether a batch's vector of metrics is unlike those of the accepted batches.

Source: Redyuk et al., "Automating Data Quality Validation for Dynamic Data Ingestion", EDBT 2021,
section 4 and Algorithm 1. Mode `paper` is the paper's detector: metrics scaled to [0, 1] on the
training batches, mean Euclidean distance to the k nearest of them, flagged above the
(1 - contamination) quantile of the same statistic over the training batches, each left out of its
own neighbours.

Mode `subspace` (default) answers the paper's weak points. Among many steady metrics the one that
moved drowns in the Euclidean distance, drifts and weekdays are novelties to it, and a quantile of
the training batches' own distances is no false-positive rate. See `dqsql.decisions.novelty_rate`.

Pure functions of arrays.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.forecasts import median_of
from dqsql.decisions.magnitudes import finite, infinite_if_larger, usable
from dqsql.decisions.novelty_config import Feature, NoveltyConfig, aggregate, resolution
from dqsql.decisions.novelty_rate import evenly_spaced, surprise
from dqsql.decisions.seasonal import seasons_at
from dqsql.errors import DecisionError
from dqsql.model.metric_traits import SIGNED_METRICS
from dqsql.model.wording import first_of, number_text

Status = Literal["ok", "anomalous", "too_little_history", "no_value"]

# Which way metrics move where a value is absent that was always there.
_INWARD = {"approx_count_distinct": -1.0, "max": -1.0, "min": 1.0}
_POWER = {"euclidean": 2.0, "manhattan": 1.0, "chebyshev": np.inf}
_TOLD = 3
# What has no value in more than so many batches is not missed.
_USUALLY = 0.9
_SHARES = ("completeness", "most_frequent_ratio", "most_frequent_share")
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class MetricContribution:
    """What one metric adds to the distance of the batch under test.

    Attributes:
        feature: the metric.
        observed: its value in the batch under test; NaN if it has none.
        expected: forecast of it (mode `subspace`), or its median over the training batches.
        lower: least value seen in training.
        upper: largest value seen in training.
        score: `paper`: the metric's part of score / threshold, the parts add up to it; `subspace`:
            the metric's own score / threshold; other detectors: distance from the median in
            ranges seen, for orientation only.
    """

    feature: Feature
    observed: float
    expected: float
    lower: float
    upper: float
    score: float


@dataclass(frozen=True, slots=True)
class NoveltyDecision:
    """What `decide_novelty` says of a batch.

    Attributes:
        status: ok, anomalous, too_little_history, or no_value (nothing measured at all).
        score: distance of the batch under test, >= 0; NaN if undecided. Anomalous if above
            `threshold`. Mode `subspace`: minus the decimal logarithm of the p-value.
        threshold: quantile of the training batches' distances; mode `subspace`: minus the decimal
            logarithm of the false-positive rate.
        expected: median of the training batches' distances; NaN in mode `subspace`.
        p_value: mode `subspace`: probability of a batch at least as surprising; else conformal, (1
            + training batches at least as distant) / (1 + training batches), in (0, 1].
        contributions: per metric, largest first.
        missing: metrics that the batch under test lacks although training batches have them.
        ignored: metrics that too few training batches have to compare with.
        history_size: number of training batches.
        explanation: in words.
    """

    status: Status
    score: float
    threshold: float
    expected: float
    p_value: float
    contributions: tuple[MetricContribution, ...]
    missing: tuple[Feature, ...]
    ignored: tuple[Feature, ...]
    history_size: int
    explanation: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form; NaN and infinities are None."""
        names = ("score", "threshold", "expected", "p_value")
        data = {name: finite(getattr(self, name)) for name in names}
        data |= {"status": self.status, "history_size": self.history_size}
        data["missing"] = [str(f) for f in self.missing]
        data["ignored"] = [str(f) for f in self.ignored]
        data["contributions"] = [
            asdict(c.feature) | {n: finite(getattr(c, n)) for n in c.__slots__ if n != "feature"}
            for c in self.contributions
        ]
        return data


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """Distance of the batch under test, as a whole and by metric.

    With distances of training batches (`training`), whose quantile is the threshold, or with a
    threshold, a p-value and what was expected of each metric.
    """

    training: FloatArray | None
    whole: float
    parts: FloatArray
    threshold: float = 0.0
    p_value: float = 1.0
    expected: FloatArray | None = None

    def among(self, there: npt.NDArray[np.bool_], usual: FloatArray) -> _Scored:
        """The same of more metrics, of which those that are not `there` say nothing."""
        parts, expected = np.zeros(len(usual)), usual.copy()
        parts[there], expected[there] = self.parts, self.expected
        return replace(self, parts=parts, expected=expected)


def decide_novelty(
    features: Sequence[Feature],
    history: npt.ArrayLike,
    new: npt.ArrayLike,
    config: NoveltyConfig | None = None,
    times: npt.ArrayLike | None = None,
    rows: float | None = None,
    warned: npt.NDArray[np.bool_] | None = None,
) -> NoveltyDecision:
    """Decide whether a batch is unlike the accepted batches before it.

    Args:
        features: the F metrics, in the order of the columns of `history`.
        history: K x F metrics of accepted batches, oldest first, without the batch under test;
            NaN (or infinite, or beyond `magnitudes.LARGEST`) where a batch has no value. A batch
            without any is one that is left out: it takes its time, and no more.
        new: F metrics of the batch under test.
        config: settings; the defaults if None.
        times: K + 1 local times (datetime64), the last of the batch under test; None if batches
            have none. Mode `paper` and other detectors do not look at them.
        rows: number of rows of the batch under test, by which mode `subspace` knows how exact a
            share is; None if unknown.
        warned: K, which batches were warned of, and learned from all the same; None for none. Mode
            `subspace` does not take what made them so for a usual size of misses.

    Raises:
        DecisionError: shapes that do not fit, or a detector whose library is not installed.
    """
    config = config or NoveltyConfig()
    past = np.asarray(history, dtype=float).reshape(-1, len(features))
    values = infinite_if_larger(new)
    if values.shape != (len(features),):
        raise DecisionError(f"{len(features)} metrics need as many values, not {values.shape}")
    clock = None if times is None else np.asarray(times, dtype="datetime64[us]")
    if clock is not None and clock.shape != (len(past) + 1,):
        raise DecisionError(f"{len(past)} batches and one need as many times, not {clock.shape}")
    counted: npt.NDArray[np.bool_] = np.any(usable(past), axis=1)
    if config.window and counted.sum() > config.window:
        start = int(np.flatnonzero(counted)[-config.window])
        past, counted = past[start:], counted[start:]
        warned = None if warned is None else warned[start:]
        clock = None if clock is None else clock[start:]
    size = int(counted.sum())
    if not np.isfinite(values).any() and not np.isinf(values).any():
        return _undecided("no_value", "none of the metrics could be measured for this batch", size)
    known = usable(past)
    compared = known.sum(axis=0) > size / 2
    if size < config.min_history or not compared.any():
        why = f"{size} accepted batches, {config.min_history} are needed"
        return _undecided("too_little_history", why, size)
    chosen = [feature for feature, use in zip(features, compared, strict=True) if use]
    center = median_of(np.where(known, past, np.nan)[:, compared].T)
    training = np.where(known[:, compared], past[:, compared], center)
    observed = values[compared]
    # A metric without a value says nothing here: its absence shows in completeness.
    tested = np.where(np.isnan(observed), center, observed)
    ignored = tuple(f for f, use in zip(features, compared, strict=True) if not use)
    # A distance that no double can hold is infinite, which is what it should be.
    with np.errstate(over="ignore"):
        there = ~np.isnan(observed)
        if not there.any():
            return _undecided("no_value", "no metric that can be compared has a value", size)
        if config.detector != "knn":
            scored = _other_detector(training[counted], tested, config)
        elif not config.keeps_rate:
            scored = _full_space(training[counted], tested, config)
        else:
            # Of one without a value, what it usually is need not be what is expected of it.
            able = [feature for feature, use in zip(chosen, there, strict=True) if use]
            floor = resolution(able, training[counted][:, there], rows)
            scored = _at_rate(
                able, training[:, there], tested[there], floor, counted, clock, config, warned
            ).among(there, center)
        # Told as they are, also where they are larger than can be squared.
        shown = np.asarray(new, dtype=float)[compared]
        usual = known[counted][:, compared].mean(axis=0) >= _USUALLY
        missing = tuple(compress(chosen, ~there & usual))
        return _decision(chosen, training[counted], shown, scored, ignored, missing, config)


# --- a false-positive rate ---------------------------------------------------------------------


def _at_rate(
    features: Sequence[Feature],
    training: FloatArray,
    tested: FloatArray,
    floor: FloatArray,
    counted: npt.NDArray[np.bool_],
    times: npt.NDArray[np.datetime64] | None,
    config: NoveltyConfig,
    warned: npt.NDArray[np.bool_] | None,
) -> _Scored:
    """Distances are decimal logarithms of p-values. Batches that are not `counted` are gaps."""
    slots = {} if times is None else seasons_at(times, len(features))
    names = {name: i for i, name in enumerate(dict.fromkeys(f.column for f in features))}
    columns = np.array([names[f.column] for f in features])
    gapped = np.where(counted[:, None], training, np.nan)
    inward = np.array([_INWARD.get(f.metric, 0.0) for f in features])
    shift = evenly_spaced(features, training[counted], counted, times)
    batch_surprise = surprise(
        gapped + shift[:-1], tested + shift[-1], floor, slots, columns, inward, warned
    )
    parts = -np.log10(batch_surprise.alone)
    whole = -np.log10(batch_surprise.p_value)
    if np.isinf(tested).any():
        whole, parts = np.inf, np.where(np.isinf(tested), np.inf, parts)
    threshold = -np.log10(config.rate)
    return _Scored(
        None,
        whole,
        np.maximum(parts, 0.0),
        threshold,
        batch_surprise.p_value,
        batch_surprise.expected - shift[-1],
    )


# --- the paper's mode --------------------------------------------------------------------------


def scaled(training: FloatArray, tested: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale to [0, 1] on the training batches; a metric without variation keeps its unit."""
    low, widths = training.min(axis=0), np.ptp(training, axis=0)
    # A range that is nothing but rounding is none.
    rounding = _ROUNDING * np.abs(training).max(axis=0)
    width = np.where(widths > rounding, widths, 1.0)
    return (training - low) / width, infinite_if_larger((tested - low) / width)


def _full_space(training: FloatArray, tested: FloatArray, config: NoveltyConfig) -> _Scored:
    points, query = scaled(training, tested)
    k = min(config.k, len(points) - 1)
    power = _POWER[config.distance]
    tree = scipy.spatial.KDTree(points)
    # The nearest of a training batch is itself (or its double): the first column goes.
    own = aggregate(tree.query(points, k + 1, p=power)[0][:, 1:], config.aggregation, axis=1)
    if np.isinf(query).any():
        return _Scored(own, np.inf, np.where(np.isinf(query), np.inf, 0.0))
    distances, positions = (np.atleast_1d(a) for a in tree.query(query, k, p=power))
    whole = float(aggregate(distances, config.aggregation, axis=0))
    parts = _parts(np.abs(points[positions] - query), distances, config)
    return _Scored(own, whole, parts)


def _parts(deltas: FloatArray, distances: FloatArray, config: NoveltyConfig) -> FloatArray:
    """Each metric's part of the aggregated distance; the parts add up to it.

    `deltas` are the k x F absolute differences to the neighbours, nearest first.
    """
    if config.distance == "chebyshev":
        split = (deltas == deltas.max(axis=1, keepdims=True)).astype(float)
    else:
        split = deltas ** _POWER[config.distance]
    total = split.sum(axis=1, keepdims=True)
    split = np.divide(split, total, out=np.zeros_like(split), where=total > 0)
    weighted = split * distances[:, None]
    k = len(distances)
    rows = {"mean": slice(0, k), "max": slice(k - 1, k), "median": slice((k - 1) // 2, k // 2 + 1)}
    return np.asarray(weighted[rows[config.aggregation]].mean(axis=0), dtype=float)


# --- other detectors ---------------------------------------------------------------------------


def _other_detector(training: FloatArray, tested: FloatArray, config: NoveltyConfig) -> _Scored:
    points, query = scaled(training, tested)
    parts = np.abs(query - np.median(points, axis=0))
    if np.isinf(query).any():
        own, _ = outlier_scores(config.detector, points, points[-1:], config)
        return _Scored(own, np.inf, parts)
    own, whole = outlier_scores(config.detector, points, query[None, :], config)
    return _Scored(own, float(whole[0]), parts)


# --- the verdict -------------------------------------------------------------------------------


def _decision(
    features: Sequence[Feature],
    training: FloatArray,
    observed: FloatArray,
    scored: _Scored,
    ignored: tuple[Feature, ...],
    missing: tuple[Feature, ...],
    config: NoveltyConfig,
) -> NoveltyDecision:
    threshold, p_value, parts = scored.threshold, scored.p_value, scored.parts
    typical, expected = float("nan"), np.median(training, axis=0)
    if scored.training is not None:
        size = len(scored.training)
        threshold = float(np.quantile(scored.training, 1.0 - config.contamination_for(size)))
        p_value = (1 + int((scored.training >= scored.whole).sum())) / (1 + size)
        typical = float(np.median(scored.training))
    if scored.expected is not None:
        expected = scored.expected
    flagged = scored.whole > threshold * (1 + 1e-12)
    if config.detector == "knn":
        parts = parts / threshold if threshold > 0 else np.where(parts > 0, np.inf, 0.0)
    order = np.argsort(-parts, kind="stable")
    lowest, highest = training.min(axis=0), training.max(axis=0)
    numbers = np.array([observed, expected, lowest, highest, parts])[:, order].T.tolist()
    contributions = tuple(
        MetricContribution(features[i], *each) for i, each in zip(order, numbers, strict=True)
    )
    return NoveltyDecision(
        status="anomalous" if flagged else "ok",
        score=scored.whole,
        threshold=threshold,
        expected=typical,
        p_value=p_value,
        contributions=contributions,
        missing=missing,
        ignored=ignored,
        history_size=len(training),
        explanation=_words(flagged, scored, threshold, contributions, missing, len(training)),
    )


def _undecided(status: Status, why: str, size: int) -> NoveltyDecision:
    nan = float("nan")
    return NoveltyDecision(status, nan, nan, nan, nan, (), (), (), size, why)


def _words(
    flagged: bool,
    scored: _Scored,
    threshold: float,
    contributions: Sequence[MetricContribution],
    missing: Sequence[Feature],
    size: int,
) -> str:
    if scored.training is None:
        far = f"p-value {scored.p_value:.2g}, allowed {10**-threshold:.2g}"
    else:
        far = f"distance {scored.whole:.4g}, allowed {threshold:.4g}"
    if not flagged:
        text = f"like the {size} batches before it: {far}"
    else:
        contributors = named_contributions(contributions)
        contributors = [
            c for c in contributors if c.score >= contributors[0].score / 4 or np.isinf(c.score)
        ]
        causes = "; ".join(
            f"{c.feature} is {number_text(c.observed)}{_before(c)}" for c in contributors
        )
        text = f"unlike the {size} batches before it: {causes} ({far})"
    if missing:
        text += f"; without a value: {first_of([str(f) for f in missing], _TOLD)}"
    return text


def named_contributions(contributions: Sequence[MetricContribution]) -> list[MetricContribution]:
    """The metrics that are furthest out, as far as they are out at all."""
    return [c for c in contributions[:_TOLD] if c.score > 0]


def _before(contribution: MetricContribution) -> str:
    low, high = contribution.lower, contribution.upper
    if low == high:
        return f", {number_text(low)} in each of them"
    return (
        f" (about {number_text(_rounded_expectation(contribution))} expected,"
        f" {number_text(low)} to {number_text(high)} before)"
    )


def _rounded_expectation(contribution: MetricContribution) -> float:
    """The forecast to three digits, within what the metric can be: a forecast knows no ends."""
    metric = contribution.feature.metric
    least = None if metric in SIGNED_METRICS or contribution.lower < 0 else 0
    return float(f"{np.clip(contribution.expected, least, 1 if metric in _SHARES else None):.3g}")


def feature_vector(
    features: Sequence[Feature], values: Mapping[Feature, float | None]
) -> FloatArray:
    """Return metrics by name as a row in the order of the features; NaN for what is absent."""
    numbers = [values.get(feature) for feature in features]
    return np.array([np.nan if v is None else float(v) for v in numbers], dtype=float)


# --- the paper's other candidates (Table 1), by the optional library PyOD ---------------------
# Zhao, Nasrullah & Li, "PyOD", JMLR 20 (2019).

EXTRA = "novelty"
_CLASSES = {
    "lof": ("pyod.models.lof", "LOF"),
    "isolation_forest": ("pyod.models.iforest", "IForest"),
    "one_class_svm": ("pyod.models.ocsvm", "OCSVM"),
    "hbos": ("pyod.models.hbos", "HBOS"),
    "abod": ("pyod.models.abod", "ABOD"),
}
_SEED = 0


def outlier_scores(
    detector: str, points: FloatArray, queries: FloatArray, config: NoveltyConfig
) -> tuple[FloatArray, FloatArray]:
    """Return the outlier scores of the training batches and of the queries, larger is odder.

    Args:
        detector: lof, isolation_forest, one_class_svm, hbos or abod.
        points: K x F training batches, scaled to [0, 1].
        queries: Q x F batches to score, scaled likewise.
        config: settings; `k` counts for lof and abod.

    Raises:
        DecisionError: PyOD is not installed, or refuses the data.
    """
    module, name = _CLASSES[detector]
    try:
        # The import warns about other optional libraries.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise DecisionError(
            f"detector {detector!r} needs PyOD, which cannot be imported: {error}",
            hint=f"pip install 'dqsql[{EXTRA}]', or use detector => 'knn'",
        ) from error
    share = min(max(config.rate, 1e-3), 0.5)
    options: dict[str, object] = {"contamination": share}
    if detector in ("lof", "abod"):
        options["n_neighbors"] = min(config.k, len(points) - 1)
    if detector == "isolation_forest":
        options["random_state"] = _SEED
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Repeated points make some of them divide by zero; their scores are made finite below.
        warnings.simplefilter("ignore")
        model = kind(**options).fit(points)
        own, query_scores = model.decision_scores_, model.decision_function(queries)
    largest = np.finfo(float).max
    return (
        np.nan_to_num(np.asarray(own, dtype=float), posinf=largest, neginf=-largest),
        np.nan_to_num(np.asarray(query_scores, dtype=float), posinf=largest, neginf=-largest),
    )
