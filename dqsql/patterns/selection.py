"""Choosing among candidate patterns by what the corpus says of them.

Two ways, named by `InferenceSettings.evidence`:

* "impurity", the paper's FMDV (equations (5)-(7)): the pattern of least FPR_T, where FPR_T is the
  mean impurity over all columns that the pattern matches somewhere.
* "rehearsal", ours: the most specific pattern whose false-alarm rate in rehearsals (see
  `contributions.Backtest`) is at most r. FPR_T counts against <letter>+ every column of the corpus
  that holds a single word somewhere; but a column whose training values all match <letter>+ is
  none of those. A rehearsal asks the question that matters, with the training values as the
  condition: of the columns that began like this one, how many did the pattern fail later?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dqsql.patterns.contributions import stratum_of
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.language import parse_pattern

EvidenceKind = Literal["impurity", "rehearsal"]

# With this many equal rates and coverages the most specific pattern is sought among all of them.
_MAX_TIED = 64
_MAX_SPECIFIC = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern in printable form with its rate, coverage, and rows (as bits)."""

    text: str
    rate: float
    coverage: int
    rows: int


@dataclass(frozen=True, slots=True)
class Judge:
    """The corpus, and what is asked of a pattern.

    Attributes:
        index: the corpus.
        evidence: which rate is meant.
        r: largest rate, in [0, 1].
        m: least coverage in columns.
        distinct: distinct values in training; rehearsals with about as many count.
    """

    index: PatternIndex
    evidence: EvidenceKind
    r: float
    m: int
    distinct: int

    def rates(
        self, patterns: Sequence[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return coverage and rate of each pattern, in one look-up; NaN rates for unknown ones."""
        found = self.index.lookup(patterns)
        if self.evidence == "impurity":
            return found.coverage, found.fpr
        return found.coverage, found.false_alarm_rate(stratum_of(self.distinct))

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
        order = feasible[np.lexsort((-coverage[feasible], rate[feasible]))]
        first = order[0]
        tied = (rate[order] == rate[first]) & (coverage[order] == coverage[first])
        best = min(
            (texts[i] for i in order[tied][:_MAX_TIED]), key=lambda text: (generality(text), text)
        )
        return Candidate(best, float(rate[first]), int(coverage[first]), masks[best])

    def most_specific(self, masks: Mapping[str, int], *, max_rate: float) -> Candidate | None:
        """Return the feasible pattern that admits least, with rate <= max_rate, or None.

        Patterns that match more of the training values come first: a horizontal cut is for values
        that fit no pattern of the rest, not for the sake of a narrower one. Among equally specific
        patterns the one of less rate wins, then of larger coverage.
        """
        texts = list(masks)
        coverage, rate = self.rates(texts)
        feasible = np.flatnonzero((coverage >= self.m) & (rate <= max_rate))
        if not len(feasible):
            return None
        rows = np.array([masks[texts[i]].bit_count() for i in feasible])
        feasible = feasible[rows == rows.max()]
        # Small coverage is a cheap stand-in for specificity where there are very many patterns.
        nearest = feasible[np.argsort(coverage[feasible], kind="stable")][:_MAX_SPECIFIC]
        best = min(nearest, key=lambda i: (generality(texts[i]), rate[i], -coverage[i], texts[i]))
        return Candidate(texts[best], float(rate[best]), int(coverage[best]), masks[texts[best]])

    def choose(self, masks: Mapping[str, int]) -> Candidate | None:
        """Return the pattern that the kind of evidence prefers, or None where none is feasible."""
        if self.evidence == "impurity":
            return self.safest(masks)
        return self.most_specific(masks, max_rate=self.r)


def generality(text: str) -> int:
    """Return the generality of a pattern in printable form."""
    return parse_pattern(text).generality
