"""One-step forecasts of many series at once, and the errors that each kind of forecast made.

A forecast is a *base* (the mean; the mean of the same weekday, hour or month; a straight line; a
line and a season) plus a *correction* by what the base missed of late (nothing; a share of the last
miss, as in an autoregression of order 1; an exponentially weighted mean of the misses). Every
error is that of a value which the forecast had not seen, divided by what the base's own uncertainty
adds to it, so that errors of early batches are comparable with those of late ones: for the mean
of independent normal values they are the recursive residuals of Brown, Durbin & Evans (1975).

`choose` takes, per series, the forecast whose past errors are the smallest. Pure functions of
arrays: S series of K values, the newest last, those before the first NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dqsql.decisions.arrays import BoolArray, FloatArray, IntArray
from dqsql.decisions.forecast_bases import ForecastBase, bases_of, is_still
from dqsql.decisions.magnitudes import SD_OF_MEDIAN

# Shares of the last miss, and weights of the newest in a mean of misses; 0 corrects nothing.
_SHARES = (0.3, 0.6, 0.9)
_WEIGHTS = (0.1, 0.3, 0.6)
_CORRECTIONS = (
    ("", 0.0),
    *(("share", s) for s in _SHARES),
    *(("mean", w) for w in _WEIGHTS),
    ("last", 1.0),
)
_NOTHING = 1e-12
# A run of misses of one sign, each beyond so many typical ones, is a step to a new level.
_STEP = 4.0
_MOST_STEPS = 3
# Beyond so many typical misses a value is not learned from, unless one beside it is, too.
_OUTLIER = 6.0
_MOST_OUTLIERS = 0.1
# A value is lone that is so far from those on both sides of it: so many of each. One of a history
# may be, and this share of a long one; more are what the metric is like. Of so many days each day
# of the week is there twice.
_LONE_FROM = 15
_BESIDE = 3
_MOST_LONE = 0.02
# How many times as far as the others the newest is that is lone, where there are more.
_MUCH = 5.0
_MOST_OF_LONE = 10.0
# Ratios are tried where the largest value is so many times the least.
_RATIOS_FROM = 1.5
_PRICE_OF_RATIOS = 0.02
# Numbers of rows and the like grow and shrink by factors: twice as many at a promotion.
_PRICE_OF_VOLUMES = -0.1
# Whole numbers that are mostly smaller have no ratios, nor have those that are mostly smaller than
# a hundred and often nearly none.
_FEW, _FEWEST, _NOT_MANY = 10.0, 8.0, 100.0
_LOW = 0.1
# A forecast is tried with so many errors, and so large a share of the history, at the least.
_LEAST_ERRORS = 5
_LEAST_SHARE = 0.4
# So many series are tried at once: what all forecasts of more missed would not fit in a cache.
_BLOCK = 32
_ARRAYS = ("trend", "expected", "errors", "raw", "factor", "score")
# How much smaller, in logarithms, the errors of a less simple forecast must be: by its nature, and
# over the number of errors.
_PRICE = 0.01
_PRICE_OF_FEW = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The forecast chosen for each of S series.

    Attributes:
        base: name of the base, S.
        trend: whether there is a line in it, S.
        correction: name and number of it, S.
        expected: the next value, S.
        errors: S x K past errors, standardised; NaN where there is none.
        raw: S x K past errors as they were.
        factor: what an error of the next value is to be divided by, S, >= 1.
        score: logarithm of the typical size of the errors, S.
    """

    base: list[str]
    trend: BoolArray
    correction: list[tuple[str, float]]
    expected: FloatArray
    errors: FloatArray
    raw: FloatArray
    factor: FloatArray
    score: FloatArray

    def replaced(self, rows: IntArray, other: Chosen, places: IntArray | None = None) -> Chosen:
        """With some rows taken from another: its first ones, or those at `places`."""
        places = np.arange(len(rows)) if places is None else places
        base, correction = list(self.base), list(self.correction)
        for row, place in zip(rows, places, strict=True):
            base[row], correction[row] = other.base[place], other.correction[place]
        arrays = {}
        for name in _ARRAYS:
            arrays[name] = getattr(self, name).copy()
            arrays[name][rows] = getattr(other, name)[places]
        return Chosen(base=base, correction=correction, **arrays)

    @classmethod
    def joined(cls, parts: Sequence[Chosen]) -> Chosen:
        """The forecasts of the series of all parts, one part after the other."""
        return cls(
            base=[name for part in parts for name in part.base],
            correction=[pair for part in parts for pair in part.correction],
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """The forecasts of S series.

    Attributes:
        chosen: the forecasts; of logarithms where `ratios` says so.
        steps: S, how many steps to a new level were taken out.
        ratios: S.
    """

    chosen: Chosen
    steps: IntArray
    ratios: BoolArray

    @property
    def expected(self) -> FloatArray:
        """The next values, S."""
        chosen = self.chosen.expected
        return np.where(self.ratios, np.exp(np.where(self.ratios, chosen, 0.0)), chosen)


def forecast(
    values: FloatArray, slots: Mapping[str, IntArray], relearn_after: int, ratios: BoolArray
) -> Forecasts:
    """As `choose`, with steps to a new level taken out, and of logarithms where they do better.

    Args:
        values: S x K.
        slots: seasons, as for `choose`.
        relearn_after: after so many like misses of one sign in a row there was a step.
        ratios: S, whether logarithms may be taken: not where the next value is below 0. A mean of
            delays that was small and above 0 is no further from -1 than from 1.
    """
    chosen, steps = _stepped(values, slots, relearn_after)
    taken = np.zeros(len(values), dtype=bool)
    able = np.flatnonzero(_spread_wide(values) & ratios)
    if able.size:
        logs = np.log(values[able])
        other, other_steps = _stepped(logs, {n: s[able] for n, s in slots.items()}, relearn_after)
        # An error of a logarithm times the level is one of the value.
        price = np.where(_are_whole(values[able]), _PRICE_OF_VOLUMES, _PRICE_OF_RATIOS)
        score = other.score + np.nanmean(logs, axis=1) + price
        places = np.flatnonzero(score < chosen.score[able])
        rows = able[places]
        chosen = chosen.replaced(rows, other, places)
        steps[rows] = other_steps[places]
        taken[rows] = True
    return Forecasts(chosen, steps, taken)


def _spread_wide(values: FloatArray) -> BoolArray:
    """Whose values are all above 0 and spread enough for ratios to differ from differences.

    And are no small whole numbers, of which one more is a large share: from 1 to 20 it is as far as
    from 20 to 400. A lone failed load makes them none.
    """
    least, most, middle = np.nanmin(values, axis=1), np.nanmax(values, axis=1), median_of(values)
    low = np.nanquantile(values, _LOW, axis=1)
    coarse = (middle < _FEW) | ((low < _FEWEST) & (middle < _NOT_MANY))
    coarse &= _are_whole(values)
    return np.asarray((least > 0) & (most > _RATIOS_FROM * least) & ~coarse)


def _are_whole(values: FloatArray) -> BoolArray:
    return np.asarray((np.isnan(values) | (values == np.rint(values))).all(axis=1))


def _stepped(
    values: FloatArray, slots: Mapping[str, IntArray], relearn_after: int
) -> tuple[Chosen, IntArray]:
    """The forecasts, with the values before a step brought to the level after it."""
    # Every forecast misses a lone value, and most of them the next one as well.
    lone = _lone(values)
    chosen = choose(np.where(lone, np.nan, values), slots, values)
    outliers = _outliers(chosen)
    some = np.flatnonzero((outliers & ~lone).any(axis=1))
    if some.size:
        mine = {name: s[some] for name, s in slots.items()}
        kept = np.where((outliers | lone)[some], np.nan, values[some])
        chosen = chosen.replaced(some, choose(kept, mine, values[some]))
    steps = np.zeros(len(values), dtype=int)
    until = np.full(len(values), values.shape[1])
    moved = np.where(lone, np.nan, values)
    for _ in range(_MOST_STEPS):
        at, by = newest_step(chosen, until, relearn_after)
        some = np.flatnonzero(at >= 0)
        if not some.size:
            break
        mine = {name: s[some] for name, s in slots.items()}
        before = np.arange(values.shape[1]) < at[some, None]
        moved[some] += np.where(before, by[some, None], 0.0)
        again = choose(moved[some], mine)
        # The first few values after a step say where the level is; all of them say it better.
        rest = np.where(before, np.nan, again.raw)
        moved[some] += np.where(before, median_of(rest)[:, None], 0.0)
        chosen = chosen.replaced(some, choose(moved[some], mine))
        steps[some] += 1
        until[some] = at[some]
    return _with_lone_clipped(chosen, lone), steps


def _with_lone_clipped(chosen: Chosen, lone: BoolArray) -> Chosen:
    """That a value was lone says something of the next ones, and how far it was off does not."""
    typical = median_of(np.abs(chosen.errors))[:, None] * SD_OF_MEDIAN
    most = np.where(typical > _NOTHING, _MOST_OF_LONE * typical, np.inf)
    clipped = np.clip(chosen.errors, -most, most)
    return replace(chosen, errors=np.where(lone, clipped, chosen.errors))


def _lone(values: FloatArray) -> BoolArray:
    """Values far from those before them and from those behind them, as hardly any other is.

    The first value has none before it, and the last one none behind it. Where more of them are far,
    as in a month's peaks, it is the last one if it is much further than the others.
    """
    far, first, size = _far_from_before(values)
    behind, last, size_behind = _far_from_before(values[:, ::-1])
    behind, last = behind[:, ::-1], last[:, ::-1]
    lone_values = (far | first) & (behind | last) & (far | behind)
    lone_values &= ~_beside(lone_values)
    known = np.isfinite(values).sum(axis=1)
    sizes = np.where(lone_values, np.fmin(size, size_behind[:, ::-1]), 0.0)
    most = np.maximum(1, _MOST_LONE * known).astype(int)
    ordered = np.pad(-np.sort(-sizes, axis=1), ((0, 0), (0, 1)))
    others = ordered[np.arange(len(ordered)), np.minimum(most, values.shape[1])]
    few = (lone_values.sum(axis=1) <= most)[:, None] | (last & (sizes > _MUCH * others[:, None]))
    return np.asarray(lone_values & few & (known >= _LONE_FROM)[:, None])


def _far_from_before(values: FloatArray) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Which values are far from the middle of the last few, which are the first, and how far."""
    known = np.isfinite(values)
    before = np.full((*values.shape, _BESIDE), np.nan)
    for lag in range(1, _BESIDE + 1):
        before[:, lag:, lag - 1] = values[:, :-lag]
    middle = median_of(before.reshape(-1, _BESIDE)).reshape(values.shape)
    apart = np.abs(values - middle)
    typical = median_of(apart)[:, None] * SD_OF_MEDIAN
    # Where most values are as the one before, one that is not is nothing rare.
    far = (apart > _OUTLIER * typical) & (typical > _NOTHING)
    return np.asarray(far), np.asarray(known & (np.cumsum(known, axis=1) == 1)), apart


def _beside(places: BoolArray) -> BoolArray:
    """The places next to others."""
    beside = np.zeros_like(places)
    beside[:, 1:] |= places[:, :-1]
    beside[:, :-1] |= places[:, 1:]
    return beside


def _outliers(chosen: Chosen) -> BoolArray:
    """Values so far off that the next one is better forecast without them, unless they recur."""
    sizes = np.abs(np.nan_to_num(chosen.errors))
    typical = median_of(np.abs(chosen.errors)) * SD_OF_MEDIAN
    far = sizes > _OUTLIER * np.maximum(typical, _NOTHING)[:, None]
    # Histories that are shorter than others begin with columns that are none of theirs.
    forecast = np.isfinite(chosen.errors).sum(axis=1)
    few = far.sum(axis=1) <= _MOST_OUTLIERS * forecast
    return np.asarray(far & ~_beside(far) & few[:, None])


def newest_step(chosen: Chosen, until: IntArray, least: int) -> tuple[IntArray, FloatArray]:
    """Where the newest run of like misses before `until` begins (-1 for none), and their median.

    A run has `least` misses or more.
    """
    errors = np.nan_to_num(chosen.errors)
    typical = median_of(np.abs(chosen.errors)) * SD_OF_MEDIAN
    far = np.abs(errors) > _STEP * np.maximum(typical, _NOTHING)[:, None]
    far &= np.arange(errors.shape[1]) < until[:, None]
    sign = np.where(far, np.sign(errors), 0.0)
    at = np.full(len(errors), -1)
    by = np.zeros(len(errors))
    for row in np.flatnonzero(far.sum(axis=1) >= least):
        turns = np.flatnonzero(np.diff(sign[row], prepend=0.0, append=0.0))
        for start, end in zip(turns[:-1][::-1], turns[1:][::-1], strict=True):
            if sign[row, start] and end - start >= least:
                at[row] = start
                by[row] = np.nanmedian(chosen.raw[row, start : start + least])
                break
    return at, by


def choose(
    values: FloatArray, slots: Mapping[str, IntArray], observed: FloatArray | None = None
) -> Chosen:
    """Forecast the next value of each series by what forecast it best before.

    Args:
        values: S x K; NaN where nothing is known.
        slots: seasons by name: S x (K + 1) numbers of slots, -1 for none; the last column is that
            of the next value.
        observed: as `values`, with those that are not to be learned from; their errors are among
            the errors.
    """
    observed = values if observed is None else observed
    blocks = [slice(at, at + _BLOCK) for at in range(0, max(len(values), 1), _BLOCK)]
    return Chosen.joined(
        [_chosen(values[b], {n: s[b] for n, s in slots.items()}, observed[b]) for b in blocks]
    )


def _chosen(values: FloatArray, slots: Mapping[str, IntArray], observed: FloatArray) -> Chosen:
    bases = bases_of(values, slots)
    tried = _tried(values, bases)
    prices = np.array([[b.price + (c > 0) for c in range(len(_CORRECTIONS))] for b in bases])
    best, score = _best(values, bases, tried, prices.astype(float))
    which, how = np.divmod(best, len(_CORRECTIONS))
    rows = np.arange(len(values))
    expected = np.stack([b.expected[:, -1] for b in bases], axis=1)[rows, which]
    factor = np.sqrt(1 + np.stack([b.leverage[:, -1] for b in bases], axis=1)[rows, which])
    raw = np.full(values.shape, np.nan)
    errors = np.full(values.shape, np.nan)
    for index in np.unique(best):
        base, correction = divmod(int(index), len(_CORRECTIONS))
        mine = best == index
        added = tried.added[correction, base][mine]
        expected[mine] += added[:, -1]
        raw[mine] = observed[mine] - bases[base].expected[mine, :-1] - added[:, :-1]
        errors[mine] = raw[mine] / tried.scale[base, mine]
    return Chosen(
        base=[bases[b].name for b in which],
        trend=np.array([bases[b].trend for b in which], dtype=bool),
        correction=[_CORRECTIONS[c] for c in how],
        expected=expected,
        errors=errors,
        raw=raw,
        factor=factor,
        score=score,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """What B bases missed: B x S x (K + 1), what each of C corrections adds, C x B x S x (K + 1).

    And what errors are divided by: B x S x K.
    """

    misses: FloatArray
    added: FloatArray
    scale: FloatArray


def _tried(values: FloatArray, bases: Sequence[ForecastBase]) -> _Tried:
    unknown = np.full((len(values), 1), np.nan)
    ahead = np.concatenate([values, unknown], axis=1)
    misses = ahead - np.stack([base.expected for base in bases])
    leverage = np.stack([base.leverage[:, :-1] for base in bases])
    return _Tried(misses, _added(misses), np.sqrt(1 + leverage))


def _best(
    values: FloatArray, bases: Sequence[ForecastBase], tried: _Tried, prices: FloatArray
) -> tuple[IntArray, FloatArray]:
    """The forecast with the smallest errors, on values that all compared have one of."""
    known = ~np.isnan(values)
    there = ~np.isnan(tried.misses[:, :, :-1])
    least = np.maximum(_LEAST_ERRORS, _LEAST_SHARE * known.sum(axis=1))
    last = np.stack([b.leverage[:, -1] for b in bases], axis=1)
    able = (there.sum(axis=2) >= least).T & np.isfinite(last)
    able[:, 0] = True
    # Over a gap all become less certain, also those whose own uncertainty does not say so.
    after = known.shape[1] - np.argmax(known[:, ::-1], axis=1)
    near = np.stack([b.leverage[np.arange(len(values)), after] for b in bases], axis=1)
    charged = 0.5 * np.log1p(np.where(np.isfinite(near), near, last))
    common = known & (there | ~able.T[:, :, None]).all(axis=0)
    number = np.maximum(common.sum(axis=1), 1)[:, None]
    sizes = np.full((len(values), len(bases), len(_CORRECTIONS)), np.inf)
    for b in range(len(bases)):
        use = np.flatnonzero(able[:, b])
        counted = common[use]
        # Of square roots a few large errors are no large part.
        apart = np.where(counted, tried.misses[b, use, :-1], 0.0) - tried.added[:, b, use, :-1]
        np.sqrt(np.abs(apart, out=apart), out=apart)
        scale = np.where(counted, 1.0 / np.sqrt(tried.scale[b, use]), 0.0)
        roots = np.einsum("csk,sk->sc", apart, scale)
        with np.errstate(divide="ignore"):
            sizes[use, b] = 2 * np.log(roots / number[use])
        sizes[use, b] += charged[use, b, None]
    scores = sizes + prices * (_PRICE + _PRICE_OF_FEW / number)[:, :, None]
    # What follows an exception is the usual value again, whatever one exception may say of that.
    scores[is_still(values), :, 1:] = np.inf
    flat, chosen = (
        sizes.reshape(len(values), -1),
        np.argmin(scores.reshape(len(values), -1), axis=1),
    )
    return chosen, flat[np.arange(len(chosen)), chosen]


def _added(misses: FloatArray) -> FloatArray:
    """What is added to bases by each of `_CORRECTIONS`, C x the shape of the misses before."""
    known = ~np.isnan(misses)
    there = np.where(known, misses, 0.0)
    corrections = np.zeros((len(_CORRECTIONS), *misses.shape))
    steps = np.arange(misses.shape[-1])
    places = np.maximum.accumulate(np.where(known, steps, 0), axis=-1)
    last = corrections[-1]
    last[..., 1:] = np.take_along_axis(there, places, axis=-1)[..., :-1]
    for place, share in enumerate(_SHARES, start=1):
        np.multiply(share, last, out=corrections[place])
    # Mostly all series have their values in the same places.
    same = misses.shape[-2] > 0 and bool((known == known[..., :1, :]).all())
    counted = (known[..., :1, :] if same else known).astype(float)
    sums = _decayed(np.concatenate([there, counted], axis=-2), 1 - np.array(_WEIGHTS))
    split = misses.shape[-2]
    totals, weights = sums[..., :split, :], np.maximum(sums[..., split:, :], _NOTHING)
    np.divide(totals, weights, out=corrections[1 + len(_SHARES) : -1, ..., 1:])
    return corrections


def _decayed(values: FloatArray, decays: FloatArray) -> FloatArray:
    """Sums of the values so far, each times a decay for every step since; without the last.

    Per decay as `scipy.signal.lfilter([1], [1, -decay], values)`, which takes a second to import.
    """
    steps = np.moveaxis(values[..., :-1], -1, 0)
    sums = np.empty((len(steps), len(decays), *steps.shape[1:]))
    sums[:] = steps[:, None]
    factors = decays.reshape(-1, *[1] * (steps.ndim - 1))
    for before, current in itertools.pairwise(sums):
        np.add(current, factors * before, out=current)
    return np.moveaxis(sums, 0, -1)


def median_of(values: FloatArray) -> FloatArray:
    """Median of the known values of each row, NaN where there is none: as `numpy.nanmedian`."""
    ranked = np.sort(values, axis=1)
    counts = (~np.isnan(ranked)).sum(axis=1)
    rows = np.arange(len(ranked))
    low, high = np.maximum(counts - 1, 0) // 2, counts // 2
    high = np.minimum(high, ranked.shape[1] - 1)
    return np.asarray((ranked[rows, low] + ranked[rows, high]) / 2, dtype=float)
