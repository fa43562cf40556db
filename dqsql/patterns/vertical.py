"""Vertical cuts: a composite column as a chain of segments with a pattern each.

Auto-Validate, section 3. Columns such as `0.1|02/18/2015 00:00:00|OnBooking` are too rare as a
whole to be found in a corpus, but their parts are not. With the values aligned, the best cut is
found by dynamic programming over equation (11): the rate of a chain is the sum of its segments'
rates, and symbols are segments, or parts of them, like any other token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dqsql.errors import PatternError
from dqsql.patterns.alignment import Alignment, align
from dqsql.patterns.generation import ColumnSample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.parsing import parse_pattern


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern in printable form with its rate, coverage, and rows (as bits)."""

    text: str
    rate: float
    coverage: int
    rows: int


@dataclass(frozen=True, slots=True)
class Judge:
    """The corpus and what is asked of a pattern: at most the FPR_T `r`, at least `m` columns."""

    index: PatternIndex
    r: float
    m: int

    def rates(
        self, patterns: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return coverage and FPR_T of each pattern, in one look-up; NaN for unknown ones."""
        found = self.index.lookup(patterns)
        return found.coverage, found.fpr

    def safest(self, masks: Mapping[str, int]) -> Candidate | None:
        """Return the feasible pattern of least rate, or None.

        Among equal rates the larger coverage wins, then the more specific pattern, then the one
        whose text is smaller.
        """
        texts = list(masks)
        coverage, rate = self.rates(texts)
        feasible = np.flatnonzero((coverage >= self.m) & (rate <= self.r))
        if not len(feasible):
            return None
        least = feasible[rate[feasible] == rate[feasible].min()]
        tied = least[coverage[least] == coverage[least].max()]
        best = min(tied, key=lambda i: (parse_pattern(texts[i]).generality, texts[i]))
        text = texts[best]
        return Candidate(text, float(rate[best]), int(coverage[best]), masks[text])


# The best chain may be one that the language refuses (`<alphanum>+<num>`, where the sign of the
# number was a symbol): then the next one is taken.
_KEPT_CHAINS = 16


@dataclass(frozen=True, slots=True)
class _Chain:
    """Segments up to a position: the sum of their rates, and the coverage of the rarest."""

    text: str
    rate: float
    coverage: int
    segments: int

    def then(self, segment: Candidate) -> _Chain:
        return _Chain(
            self.text + segment.text,
            self.rate + segment.rate,
            min(self.coverage, segment.coverage),
            self.segments + 1,
        )

    @property
    def preference(self) -> tuple[float, int, int]:
        """The lowest rate first, then the largest coverage, then the fewest segments."""
        return self.rate, -self.coverage, self.segments


def best_segmentation(sample: ColumnSample, judge: Judge, *, min_share: float) -> Candidate | None:
    """The chain of segments of least total rate (bounded by `judge.r`), or None.

    With horizontal cuts, values whose tokens do not follow the majority's are dropped first
    (section 4); every segment has to match all the rest: at least `min_share` of the rows, in (0,
    1].
    """
    alignment = align(sample, min_share=min_share)
    if alignment is None:
        return None
    end = alignment.length
    best: list[list[_Chain]] = [
        [_Chain("", 0.0, judge.index.columns, 0)],
        *([] for _ in range(end)),
    ]
    for stop in range(1, end + 1):
        # The best chain up to a position is the best one up to an earlier position and a segment:
        # the binary splits of equation (11) reach no chain that this does not.
        chains: list[_Chain] = []
        for begin in range(max(0, stop - judge.index.settings.tau), stop):
            segment = _segment(alignment, begin, stop, judge) if best[begin] else None
            if segment is not None:
                chains += [before.then(segment) for before in best[begin]]
        best[stop] = sorted(chains, key=lambda chain: chain.preference)[:_KEPT_CHAINS]
    for chain in best[end]:
        if chain.rate <= judge.r and _is_linear(chain.text):
            return Candidate(chain.text, chain.rate, chain.coverage, alignment.rows)
    return None


def _segment(alignment: Alignment, begin: int, end: int, judge: Judge) -> Candidate | None:
    texts: dict[str, int] = {}
    for mask, parts in alignment.values:
        text = "".join(part or "" for part in parts[begin:end])
        texts[text] = texts.get(text, 0) | mask
    # Rows that were dropped stay out of the count.
    sample = ColumnSample(alignment.rows.bit_count(), texts)
    return judge.safest(hypotheses(sample, tau=judge.index.settings.tau))


def _is_linear(text: str) -> bool:
    """Whether segments that meet without a symbol between them are still matched in linear time."""
    try:
        parse_pattern(text)
    except PatternError:
        return False
    return True
