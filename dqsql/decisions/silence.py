"""What was always there and is not any more: segments, values, variety, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dqsql.model.wording import first_of

# What is believed before anything was seen: one batch in eleven lacks it, with the weight of 1.1.
_PRIOR_ABSENT, _PRIOR = 0.1, 1.1
# How many batches of its own a name's rate needs at most to weigh as much as that of all names.
_POOLED = 30
_MIN_HISTORY = 7
# So many names say how much their rates differ.
_FEWEST_NAMES = 5
# A share of NaN that is most of the rows, and one that is few.
_MOST, FEW = 0.5, 0.1
_NAMED = 5
# Rows of a value that come together at most; how often their number is more than is taken for it.
_MOST_BUNCHED, _DOUBT = 10.0, 0.01
# What is so improbable is not taken to be so.
_REFUTED = 0.05
# Batches of less than such a part of the rows lack by chance what this one cannot; of less than the
# second, where else too few are left.
_COMPARABLE = (0.5, 0.2)
# So many batches in which established values ended are a habit; what ends with it may be so many
# times as many of the rows.
_HABIT, _LARGER = 2, 2.0
# By how much a sketch may count more values than there are.
_SKETCH = 0.05


@dataclass(frozen=True)
class Absence:
    """Something that is absent: in how many of the batches before it was there."""

    name: str
    present: int
    batches: int

    @property
    def words(self) -> str:
        """`DE (in all of 60 batches before)`."""
        often = "all" if self.present == self.batches else f"{self.present:,}"
        return f"{self.name} (in {often} of {self.batches:,} batches before)"


def absences(
    before: Sequence[frozenset[str]],
    now: frozenset[str],
    fpr: float,
    min_history: int = _MIN_HISTORY,
) -> list[Absence]:
    """What was in the batches before and is not in this one, where that is rare enough to tell.

    How often a name was absent is counted from the batch on that it first occurred in, and drawn
    towards how often all names were, as far as they are alike: where some come and go, others may.
    Where a few pause on weekends and the rest never do, the rest has its own word: see `_weight`.

    Args:
        before: the names in each batch before, oldest first.
        now: those in this one.
        fpr: how rare the absence of a name must be, in (0, 1).
        min_history: so many batches must have been seen since a name first occurred.
    """
    seen = {name: [name in names for names in before] for name in frozenset().union(*before)}
    since = {name: there[there.index(True) :] for name, there in seen.items()}
    absent = sum(len(there) - sum(there) for there in since.values())
    common = (absent + _PRIOR_ABSENT) / (sum(map(len, since.values())) + _PRIOR)
    weight = _weight([(len(there) - sum(there), len(there)) for there in since.values()], common)
    rare_absences = []
    for name in sorted(since.keys() - now):
        batches, present = len(since[name]), sum(since[name])
        chance = (batches - present + weight * common) / (batches + weight)
        if batches >= min_history and chance < fpr:
            rare_absences.append(Absence(name, present, batches))
    return rare_absences


def absent_by_chance(
    counts: Sequence[float], others: Sequence[float], rows: float, fpr: float
) -> bool:
    """Whether a batch of few rows may well have none of a name, its rows being independent.

    They are not where the name was absent less often, or its rows varied less, than independent
    rows would: one of each machine comes every day. Either is told by a probability of 1 in 20. A
    batch is one of few rows by those of the other names: all rows of one may be gone.

    Args:
        counts: rows of the name in each batch before.
        others: rows of all other names in these.
        rows: those of the batch, which are all of other names.
        fpr: how rare the absence must be, in (0, 1).
    """
    from scipy.special import chdtr, pdtr

    there, beside = np.asarray(counts, dtype=float), np.asarray(others, dtype=float)
    if not rows < _COMPARABLE[0] * float(np.median(beside)):
        return False
    per_other = float(there.sum() / beside.sum())
    expected = np.maximum(per_other * beside, 1e-9)
    if math.exp(-per_other * rows) < fpr:
        return False
    too_regular = pdtr(float((there == 0).sum()), float(np.exp(-expected).sum())) < _REFUTED
    dispersion = float((np.square(there - expected) / expected).sum())
    return not too_regular and bool(chdtr(there.size - 1, dispersion) >= _REFUTED)


def _weight(absent: Sequence[tuple[int, int]], common: float) -> float:
    """How many batches the rate that names have in common weighs, in [1.1, 30].

    The parameters of a beta-binomial model add up to it, by the method of moments, of what rates
    differ by more than chance has them (Casella, "An Introduction to Empirical Bayes Data
    Analysis", The American Statistician 39, 1985).

    Args:
        absent: of each name, in how many batches it was absent, and of how many.
        common: the rate of all.
    """
    if len(absent) < _FEWEST_NAMES:
        return _POOLED
    chance = common * (1 - common)
    spread = sum((n / of - common) ** 2 for n, of in absent) / (len(absent) - 1)
    beyond = spread - chance * sum(1 / of for _, of in absent) / len(absent)
    return min(max(chance / beyond - 1, _PRIOR), _POOLED) if beyond > 0 else _POOLED


def lost_values(
    before: Sequence[Mapping[str, float]],
    sizes: Sequence[float],
    now: Mapping[str, float],
    rows: float,
    fpr: float,
    min_history: int = _MIN_HISTORY,
) -> list[Absence]:
    """Values that occurred in every batch before and do not in this one.

    A value must have been frequent enough that a batch of so many rows has it, and lacks it by
    chance less often than `fpr`: by its least share before, or by its usual one if only a part of
    the rows is taken for independent, see `_bunching`. Batches of far fewer rows do not count.

    Args:
        before: shares of values in each batch before, in [0, 1].
        sizes: how many values each of these batches had.
        now: those of this one.
        rows: its number of values.
        fpr: how often a batch may be told of by mistake, in (0, 1).
        min_history: so many batches must have been seen.
    """
    if len(before) < min_history or rows <= 0:
        return []
    places = comparable(sizes, rows, min_history)
    before, sizes = [before[i] for i in places], [sizes[i] for i in places]
    always = frozenset(before[0]).intersection(*(frozenset(b) for b in before))
    rate = fpr / max(len(always), 1)
    rare_absences = []
    for name in sorted(always - frozenset(now)):
        shares = [b[name] for b in before]
        least = min(shares)
        independent = rows / _bunching(shares, sizes)
        usual = sum(s * n for s, n in zip(shares, sizes, strict=True)) / sum(sizes)
        # That shares vary is in the least of them, and in how rows come together.
        chance = min(_of_none(rows, least), _of_none(independent, usual))
        if chance < rate:
            rare_absences.append(Absence(name, len(before), len(before)))
    if _end_as_usual([*before, now], [*sizes, rows], len(rare_absences), fpr):
        return []
    return rare_absences


def _end_as_usual(
    batches: Sequence[Mapping[str, float]], sizes: Sequence[float], lost: int, fpr: float
) -> bool:
    """Whether values of a column have their time, and no more of them end than usually do.

    So do those of campaigns, seasons and versions. A value is established after seven batches in a
    row, and has ended if none of the later batches has it, which have too many rows for that to be
    chance. Of the number that ends in a batch, at a rate of which the past endings give the
    posterior distribution, the predictive distribution is a negative binomial one (Gelman et al.,
    "Bayesian Data Analysis", 2013, 2.6). Nor must they have been much more of the rows than what
    ended before. The batch in which most ended says nothing: it may have been a migration.

    Args:
        batches: shares of values in each batch, in [0, 1]; the last one is under test.
        sizes: how many values each of these batches has.
        lost: number of values that the last batch lacks and all before have.
        fpr: how often a batch may be told of by mistake, in (0, 1).
    """
    names = _established(batches)
    if not lost or not names or len(batches) < _MIN_HISTORY + 2 + _HABIT:
        return False
    from scipy.special import betainc

    shares = np.array([[batch.get(name, 0.0) for batch in batches] for name in names])
    windows = np.lib.stride_tricks.sliding_window_view(shares, _MIN_HISTORY, axis=1)[:, :-1]
    # By value and batch from the eighth on: the least share in the seven batches before.
    least, later = windows.min(axis=2), shares[:, _MIN_HISTORY:]
    since = np.cumsum(sizes[: _MIN_HISTORY - 1 : -1])[::-1]
    gone = np.cumsum(later[:, ::-1], axis=1)[:, ::-1] == 0
    is_chance = since * np.log1p(-np.minimum(least, 0.999)) >= math.log(fpr)
    ended = np.where(gone & ~is_chance, windows.mean(axis=2), 0.0)
    at_a_time = ended.sum(axis=0)
    past = np.delete(np.arange(at_a_time.size - 1), at_a_time[:-1].argmax())
    if np.count_nonzero(at_a_time[past]) < _HABIT:
        return False
    now, before = np.count_nonzero(least[:, -1]), np.count_nonzero(least[:, past])
    ends = max(lost, np.count_nonzero(ended[:, -1]))
    chance = float(betainc(ends, np.count_nonzero(ended[:, past]) + 1, now / (now + before)))
    return chance >= fpr and float(at_a_time[-1]) <= _LARGER * float(at_a_time[past].max())


def _established(batches: Sequence[Mapping[str, float]]) -> list[str]:
    """The values that seven batches in a row have, before the last one."""
    runs: dict[str, int] = {}
    names = set[str]()
    for batch in batches[:-1]:
        runs = {name: runs.get(name, 0) + 1 for name in batch}
        names.update(name for name, run in runs.items() if run == _MIN_HISTORY)
    return sorted(names)


def new_values(
    before: Sequence[Mapping[str, float]],
    sizes: Sequence[float],
    now: Mapping[str, float],
    rows: float,
    fpr: float,
) -> dict[str, float]:
    """Values that no batch before has, with their shares, where they have unusually many rows.

    Each batch from the eighth on says how many rows had values that were new then, of which
    `dqsql.decisions.beta_binomial` learns how many a batch may have. Nothing is said before there
    are seven of these batches.

    Args:
        before: shares of all values in each batch before, in [0, 1].
        sizes: how many values each of these batches had.
        now: those of this one.
        rows: its number of values.
        fpr: how often a batch may be told of by mistake, in (0, 1).
    """
    known = set[str]()
    new_shares = []
    for batch in before:
        new_shares.append(sum(share for name, share in batch.items() if name not in known))
        known.update(batch)
    new = {name: share for name, share in now.items() if name not in known}
    shares, of = np.array(new_shares[_MIN_HISTORY:]), np.array(sizes[_MIN_HISTORY:])
    if not new or shares.size < _MIN_HISTORY:
        return {}
    from dqsql.decisions.beta_binomial import learn, share_limit

    model = learn(np.rint(shares * of), of, fpr)
    is_news = model is not None and sum(new.values()) > share_limit(model, rows, fpr)
    return new if is_news else {}


def _of_none(rows: float, share: float) -> float:
    """How probable it is that none of so many rows has a value of which a share of them is."""
    return math.exp(rows * math.log1p(-share)) if share < 1 else 0.0


def comparable(sizes: Sequence[float], rows: float, min_history: int = _MIN_HISTORY) -> list[int]:
    """The places of the batches before that have enough rows to be compared with.

    A quiet Sunday of ten rows may lack what each weekday has, and in a night's batch of few rows a
    share is small by chance. `sizes` are numbers of values of batches, `rows` that of this one. All
    of them, where fewer than `min_history` are left.
    """
    for part in _COMPARABLE:
        large = [i for i, size in enumerate(sizes) if size >= part * rows]
        if len(large) >= min_history:
            return large
    return list(range(len(sizes)))


def _bunching(shares: Sequence[float], sizes: Sequence[float]) -> float:
    """How many rows of a value come together, in [1, 10]: the dispersion of its number of rows.

    Pearson's statistic by its degrees of freedom (McCullagh & Nelder, "Generalized Linear Models",
    1989, 4.5), by the upper end of its confidence interval.
    """
    from scipy.special import chdtri

    p, n = np.asarray(shares, dtype=float), np.asarray(sizes, dtype=float)
    usual = float((p * n).sum() / n.sum())
    if usual >= 1:
        return 1.0
    statistic = float((n * (p - usual) ** 2).sum()) / (usual * (1 - usual))
    return min(max(1.0, statistic / float(chdtri(p.size - 1, 1 - _DOUBT))), _MOST_BUNCHED)


def largest_share(rows: float, spread: float, width: float, distinct: float) -> float:
    """Share of rows that a column's most frequent number may have at most, in [0, 1]; NaN unknown.

    All rows but those of one value lie within the width of it, and are as many as the distinct
    values beside it: either bounds them from below.

    Args:
        rows: rows with a value.
        spread: their standard deviation, of the sample.
        width: largest less smallest value.
        distinct: number of distinct values, as a sketch counts them.
    """
    if width == 0:
        return 1.0
    others = [((1 - _SKETCH) * distinct - 1) / rows, (spread / width) ** 2 * (rows - 1) / rows]
    known = [share for share in others if math.isfinite(share)]
    return 1 - max(1 / rows, *known) if known else math.nan


def became_constant(
    before: Sequence[float], rows: float, fpr: float, min_history: int = _MIN_HISTORY
) -> bool:
    """Whether it is no chance that a batch of so many rows has one value only.

    Args:
        before: share of the most frequent value in each batch before, 1 if it was the only one.
        rows: number of values of this one.
        fpr: how often a batch may be told of by mistake, in (0, 1).
        min_history: so many batches must have been seen.
    """
    known = [share for share in before if not math.isnan(share)]
    return len(known) >= min_history and max(known) ** rows < fpr


def taken_over(
    before: Sequence[float], now: float, min_history: int = _MIN_HISTORY, but: int = 1
) -> bool:
    """Whether most rows are what few rows were in every batch before, but one; all are shares.

    One that nobody had noticed would hide all that are like it. `but` is how many are left out.
    """
    known = sorted(b for b in before if not math.isnan(b))
    return len(known) >= min_history and now >= _MOST and known[-1 - but] <= FEW


def listed_shares(shares: Mapping[str, float]) -> str:
    """Some values in words, the most frequent ones first: `'ZZ' 5.1%`."""
    ordered = sorted(shares, key=lambda name: (-shares[name], name))
    return first_of([f"{name!r} {100 * shares[name]:.3g}%" for name in ordered], _NAMED)


def listed(observed_absences: Sequence[Absence]) -> str:
    """Some absences in words."""
    return first_of([a.words for a in observed_absences], _NAMED)
