"""Vertical cuts: a composite column as a chain of segments with a pattern each.

Auto-Validate, section 3. Columns such as `0.1|02/18/2015 00:00:00|OnBooking` are too rare as a
whole to be found in a corpus, but their parts are not. With the values aligned, the best cut is
found by dynamic programming over equation (11), where the rate of a chain is the sum of its
segments' rates.

Choices where the paper is silent: symbols at the ends of a segment that all its values share are
delimiters, part of the pattern but not of the look-up (no corpus has columns of lone commas); and
a stretch that some values lack becomes an optional group when it begins with a symbol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dqsql.patterns.alignment import WORD, Alignment, align
from dqsql.patterns.generation import ColumnSample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.language import escape_constant, parse_pattern

#: With this many equal rates and coverages the most specific pattern is sought among all of them.
_MAX_TIED = 64
_MAX_OPTIONAL_GROUPS = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern in printable form with its rate, coverage, and rows (as bits)."""

    text: str
    fpr: float
    coverage: int
    rows: int


def best_candidate(
    masks: dict[str, int], index: PatternIndex, *, r: float, m: int
) -> Candidate | None:
    """Return the pattern of least rate with rate <= r and coverage >= m, or None.

    Among equal rates the larger coverage wins, then the more specific pattern, then the one whose
    text is smaller.
    """
    texts = list(masks)
    coverage, fpr = index.lookup(texts)
    feasible = np.flatnonzero((coverage >= m) & (fpr <= r))
    if not len(feasible):
        return None
    order = feasible[np.lexsort((-coverage[feasible], fpr[feasible]))]
    first = order[0]
    tied = [i for i in order if fpr[i] == fpr[first] and coverage[i] == coverage[first]]
    best = min(
        (texts[i] for i in tied[:_MAX_TIED]),
        key=lambda text: (parse_pattern(text).generality, text),
    )
    return Candidate(best, float(fpr[first]), int(coverage[first]), masks[best])


def best_segmentation(
    sample: ColumnSample, index: PatternIndex, *, r: float, m: int, min_share: float
) -> Candidate | None:
    """Return the chain of segments of least total rate, or None where none is feasible.

    Args:
        sample: the column.
        r: largest total rate.
        m: least coverage of each segment.
        min_share: share of rows that the chain has to match, in (0, 1].
    """
    alignment = align(sample, min_share=min_share)
    if alignment is None:
        return None
    needed = min_share * sample.rows
    # Each segment alone may drop the allowed share; together they must not. If they do, segments
    # that drop nothing more are sought.
    kept_share = min(1.0, needed / alignment.rows.bit_count())
    for share in dict.fromkeys((kept_share, 1.0)):
        found = _Programme(alignment, index, r=r, m=m, share=share).solve()
        if found is not None and found.rows.bit_count() >= needed - 1e-9:
            return found
    return None


class _Programme:
    """The dynamic programme of equation (11) over one alignment."""

    def __init__(
        self, alignment: Alignment, index: PatternIndex, *, r: float, m: int, share: float
    ) -> None:
        self._alignment = alignment
        self._index = index
        self._r = r
        self._m = m
        self._share = share

    def solve(self) -> Candidate | None:
        """Return the best chain over all positions.

        Every chain's last segment ends at the last position, so the best chain up to position e is
        the best chain up to some s plus the segment (s, e]: the binary splits of equation (11)
        reach no chain that this does not.
        """
        stretches = list(_stretches(self._alignment))
        if sum(optional for _, _, optional in stretches) > _MAX_OPTIONAL_GROUPS:
            return None
        total = Candidate("", 0.0, self._index.columns, self._alignment.rows)
        for start, end, optional in stretches:
            part = self._chain(start, end)
            if part is None or total.fpr + part.fpr > self._r:
                return None
            missing = self._alignment.rows & ~self._alignment.columns[start].rows
            text = f"<(>{part.text}<)?>" if optional else part.text
            total = Candidate(
                total.text + text,
                total.fpr + part.fpr,
                min(total.coverage, part.coverage),
                total.rows & (part.rows | (missing if optional else 0)),
            )
        return total if any(c.kind == WORD for c in self._alignment.columns) else None

    def _chain(self, start: int, end: int) -> Candidate | None:
        rows = self._alignment.columns[start].rows
        best: dict[int, Candidate] = {start: Candidate("", 0.0, self._index.columns, rows)}
        for stop in range(start + 1, end + 1):
            choices: list[Candidate] = []
            for begin in range(max(start, stop - self._index.settings.tau), stop):
                left = best.get(begin)
                if left is None or not self._cut_allowed(begin, start):
                    continue
                segment = self._segment(begin, stop)
                if segment is None or left.fpr + segment.fpr > self._r:
                    continue
                choices.append(
                    Candidate(
                        left.text + segment.text,
                        left.fpr + segment.fpr,
                        min(left.coverage, segment.coverage),
                        left.rows & segment.rows,
                    )
                )
            if choices:
                best[stop] = min(choices, key=lambda c: (c.fpr, -c.coverage, len(c.text), c.text))
        return best.get(end)

    def _cut_allowed(self, position: int, start: int) -> bool:
        """Words and symbols alternate, so any cut between them is allowed."""
        return position >= start

    def _segment(self, begin: int, end: int) -> Candidate | None:
        columns = self._alignment.columns
        rows = columns[begin].rows
        if end - begin == 1 and columns[begin].kind != WORD:
            text = escape_constant(columns[begin].kind)
            return Candidate(text, 0.0, self._index.columns, rows)
        if columns[begin].kind != WORD or columns[end - 1].kind != WORD:
            return None
        masks: dict[str, int] = {}
        if end - begin == 1:
            masks = columns[begin].texts
        else:
            for mask, texts in self._alignment.values:
                if texts[begin] is not None:
                    text = "".join(part or "" for part in texts[begin:end])
                    masks[text] = masks.get(text, 0) | mask
        patterns = hypotheses(
            ColumnSample(rows.bit_count(), masks),
            tau=self._index.settings.tau,
            min_share=self._share,
        )
        return best_candidate(patterns, self._index, r=self._r, m=self._m)


def _stretches(alignment: Alignment) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, optional) of the longest stretches that the same rows have."""
    columns = alignment.columns
    start = 0
    for position in range(1, len(columns) + 1):
        if position == len(columns) or columns[position].rows != columns[start].rows:
            yield start, position, columns[start].rows != alignment.rows
            start = position
