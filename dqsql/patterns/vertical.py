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

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dqsql.errors import PatternError
from dqsql.patterns.alignment import WORD, Alignment, align
from dqsql.patterns.generation import ColumnSample, hypotheses
from dqsql.patterns.language import escape_constant, parse_pattern
from dqsql.patterns.selection import Candidate, Judge

_MAX_OPTIONAL_GROUPS = 3


def best_segmentation(sample: ColumnSample, judge: Judge, *, min_share: float) -> Candidate | None:
    """Return the chain of segments of least total rate, or None where none is feasible.

    Args:
        sample: the column.
        judge: which patterns are feasible; its r bounds the sum over segments.
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
        found = _Programme(alignment, judge, share=share).solve()
        if found is not None and found.rows.bit_count() >= needed - 1e-9:
            return found
    return None


class _Programme:
    """The dynamic programme of equation (11) over one alignment."""

    def __init__(self, alignment: Alignment, judge: Judge, *, share: float) -> None:
        self._alignment = alignment
        self._judge = judge
        self._share = share
        self._everywhere = judge.index.columns
        self._masks: dict[tuple[int, int], dict[str, int]] = {}

    def solve(self) -> Candidate | None:
        """Return the best chain over all positions."""
        stretches = list(_stretches(self._alignment))
        if sum(optional for _, _, optional in stretches) > _MAX_OPTIONAL_GROUPS:
            return None
        everywhere = [c for c in self._alignment.columns if c.rows == self._alignment.rows]
        if not any(column.kind == WORD for column in everywhere):
            # Values without a common part are several domains, not one with gaps.
            return None
        chains: _ByCuts = {0: ()}
        for start, end, optional in stretches:
            parts = self._chains(start, end, optional=optional)
            chains = _cheapest(
                (*left, *part) for left in chains.values() for part in parts.values()
            )
        # The paper's rate knows no gaps; rehearsals of segments say nothing of new sequences.
        unseen = self._alignment.unseen if self._judge.evidence == "rehearsal" else 0.0
        feasible = [c for c in chains.values() if _rate(c) + unseen <= self._judge.r]
        if not feasible:
            return None
        if self._judge.evidence == "impurity":
            return self._joined(min(feasible, key=_preference), unseen)
        # Few long segments are known as wholes; many short ones only as digits and letters.
        chain = min(feasible, key=lambda c: (_words(c), _preference(c)))
        return self._joined(self._sharpened(chain, self._judge.r - unseen - _rate(chain)), unseen)

    def _chains(self, start: int, end: int, *, optional: bool) -> _ByCuts:
        """Return, by number of segments, the best chains over the positions start..end-1.

        The best chain up to a position is the best chain up to some earlier one plus one segment:
        the binary splits of equation (11) reach no chain that this does not.
        """
        best: dict[int, _ByCuts] = {start: {0: ()}}
        for stop in range(start + 1, end + 1):
            choices: list[_Chain] = []
            for begin in range(max(start, stop - self._judge.index.settings.tau), stop):
                segment = self._segment(begin, stop) if best[begin] else None
                if segment is not None:
                    segment = replace(segment, optional=optional)
                    choices += [(*left, segment) for left in best[begin].values()]
            best[stop] = _cheapest(choices)
        return best[end]

    def _segment(self, begin: int, end: int) -> _Segment | None:
        columns = self._alignment.columns
        if end - begin == 1 and columns[begin].kind != WORD:
            text = escape_constant(columns[begin].kind)
            delimiter = Candidate(text, 0.0, self._everywhere, columns[begin].rows)
            return _Segment(begin, end, delimiter, delimiter=True)
        if columns[begin].kind != WORD or columns[end - 1].kind != WORD:
            return None
        masks = self._hypotheses(begin, end)
        candidate = self._judge.safest(masks)
        return None if candidate is None else _Segment(begin, end, candidate)

    def _hypotheses(self, begin: int, end: int) -> dict[str, int]:
        found = self._masks.get((begin, end))
        if found is None:
            column = self._alignment.columns[begin]
            sample = ColumnSample(column.rows.bit_count(), self._texts(begin, end))
            tau = self._judge.index.settings.tau
            found = hypotheses(sample, tau=tau, min_share=self._share)
            self._masks[begin, end] = found
        return found

    def _texts(self, begin: int, end: int) -> dict[str, int]:
        """Return the distinct texts of a segment with their rows."""
        if end - begin == 1:
            return self._alignment.columns[begin].texts
        texts: dict[str, int] = {}
        for mask, parts in self._alignment.values:
            if parts[begin] is not None:
                text = "".join(part or "" for part in parts[begin:end])
                texts[text] = texts.get(text, 0) | mask
        return texts

    def _sharpened(self, chain: _Chain, left: float) -> _Chain:
        """Return the chain with each segment as specific as the rate that is left allows."""
        sharpened: list[_Segment] = []
        for segment in chain:
            candidate = segment.candidate
            if self._alignment.columns[segment.begin].kind == WORD:
                masks = self._hypotheses(segment.begin, segment.end)
                found = self._judge.most_specific(masks, max_rate=candidate.rate + left)
                if found is not None:
                    left -= found.rate - candidate.rate
                    candidate = found
            sharpened.append(replace(segment, candidate=candidate))
        return tuple(sharpened)

    def _joined(self, chain: _Chain, unseen: float) -> Candidate | None:
        text = ""
        rows = self._alignment.rows
        for group, members in itertools.groupby(chain, key=self._group_of):
            segments = list(members)
            part = "".join(segment.candidate.text for segment in segments)
            text += part if group is None else f"<(>{part}<)?>"
            for segment in segments:
                missing = self._alignment.rows & ~self._alignment.columns[segment.begin].rows
                rows &= segment.candidate.rows | missing
        if not _is_linear(text):
            return None
        coverage = min(segment.candidate.coverage for segment in chain)
        return Candidate(text, _rate(chain) + unseen, coverage, rows)

    def _group_of(self, segment: _Segment) -> int | None:
        """Return which rows an optional segment is in, as a name for its group."""
        return self._alignment.columns[segment.begin].rows if segment.optional else None


@dataclass(frozen=True, slots=True)
class _Segment:
    """Positions begin..end-1 with the pattern chosen for them."""

    begin: int
    end: int
    candidate: Candidate
    delimiter: bool = False
    optional: bool = False


_Chain = tuple[_Segment, ...]

#: The cheapest chain for each number of segments that are no delimiters.
_ByCuts = dict[int, _Chain]


def _rate(chain: _Chain) -> float:
    return sum(segment.candidate.rate for segment in chain)


def _words(chain: _Chain) -> int:
    return sum(not segment.delimiter for segment in chain)


def _cheapest(chains: Iterable[_Chain]) -> _ByCuts:
    best: _ByCuts = {}
    for chain in chains:
        count = _words(chain)
        if count not in best or _preference(chain) < _preference(best[count]):
            best[count] = chain
    return best


def _preference(chain: _Chain) -> tuple[float, int, int]:
    """Order chains by rate, then by coverage of the rarest segment, then by number of segments."""
    coverage = min((segment.candidate.coverage for segment in chain), default=0)
    return _rate(chain), -coverage, len(chain)


def _stretches(alignment: Alignment) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, optional) of the longest stretches that the same rows have."""
    columns = alignment.columns
    start = 0
    for position in range(1, len(columns) + 1):
        if position == len(columns) or columns[position].rows != columns[start].rows:
            yield start, position, columns[start].rows != alignment.rows
            start = position


def _is_linear(text: str) -> bool:
    """Whether the pattern stays linear with its optional groups left out (`a<(>-<)?>b`)."""
    try:
        parse_pattern(text)
    except PatternError:
        return False
    return True
