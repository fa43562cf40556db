"""What was always there and is not any more: segments, values, variety, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dqsql.model.wording import first_of

# What is believed before anything was seen: one batch in eleven lacks it, with the weight of 1.1.
_PRIOR_ABSENT, _PRIOR = 0.1, 1.1
# How many batches of its own a name's rate needs to weigh as much as that of all names.
_POOLED = 30
MIN_HISTORY = 7
# A share of NaN that is most of the rows, and one that is few.
_MOST, _FEW = 0.5, 0.1
_NAMED = 5


@dataclass(frozen=True)
class Absence:
    """Something that is absent: in how many of the batches before it was there."""

    name: str
    present: int
    batches: int
    chance: float

    @property
    def words(self) -> str:
        """`DE (in all of 60 batches before)`."""
        often = "all" if self.present == self.batches else f"{self.present:,}"
        return f"{self.name} (in {often} of {self.batches:,} batches before)"


def absences(
    before: Sequence[frozenset[str]],
    now: frozenset[str],
    fpr: float,
    min_history: int = MIN_HISTORY,
) -> list[Absence]:
    """What was in the batches before and is not in this one, where that is rare enough to tell.

    How often a name was absent is counted from the batch on that it first occurred in, and drawn
    towards how often all names were: where some come and go, others may.

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
    found = []
    for name in sorted(since.keys() - now):
        batches, present = len(since[name]), sum(since[name])
        chance = (batches - present + _POOLED * common) / (batches + _POOLED)
        if batches >= min_history and chance < fpr:
            found.append(Absence(name, present, batches, chance))
    return found


def lost_values(
    before: Sequence[Mapping[str, float]],
    now: Mapping[str, float],
    rows: float,
    fpr: float,
    min_history: int = MIN_HISTORY,
) -> list[Absence]:
    """Values that occurred in every batch before and do not in this one.

    A value must have been frequent enough that a batch of so many rows has it: by its least share
    before, it would be missed by chance less often than `fpr`.

    Args:
        before: shares of values in each batch before, in [0, 1].
        now: those of this one.
        rows: its number of values.
        fpr: how often a batch may be told of by mistake, in (0, 1).
        min_history: so many batches must have been seen.
    """
    if len(before) < min_history or rows <= 0:
        return []
    always = frozenset(before[0]).intersection(*(frozenset(b) for b in before))
    rate = fpr / max(len(always), 1)
    found = []
    for name in sorted(always - frozenset(now)):
        least = min(shares[name] for shares in before)
        # Values come in bunches: a tenth of the rows is taken for independent.
        chance = math.exp(rows / 10 * math.log1p(-least)) if least < 1 else 0.0
        if chance < rate:
            found.append(Absence(name, len(before), len(before), chance))
    return found


def became_constant(before: Sequence[bool], now: bool, min_history: int = MIN_HISTORY) -> bool:
    """Whether a column has one value only that had several in every batch before."""
    return now and len(before) >= min_history and not any(before)


def taken_over(before: Sequence[float], now: float, min_history: int = MIN_HISTORY) -> bool:
    """Whether most rows are what few rows were in every batch before; all are shares."""
    known = [b for b in before if not math.isnan(b)]
    return len(known) >= min_history and now >= _MOST and max(known) <= _FEW


def listed(found: Sequence[Absence]) -> str:
    """Some absences in words."""
    return first_of([a.words for a in found], _NAMED)
