"""FMDV's choice among patterns: the least rate (Auto-Validate, equations (5)-(7))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    """The corpus, and what is asked of a pattern.

    Attributes:
        index: the corpus.
        r: largest FPR_T, in [0, 1].
        m: least coverage in columns.
    """

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
