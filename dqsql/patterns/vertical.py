"""Vertical cuts: a composite column as a chain of segments with a pattern each.

Auto-Validate, section 3. Columns such as `0.1|02/18/2015 00:00:00|OnBooking` are too rare as a
whole to be found in a corpus, but their parts are not. With the values aligned, the best cut is
found by dynamic programming over equation (11): the rate of a chain is the sum of its segments'
rates, and symbols are segments, or parts of them, like any other token.

Values are cut to words (runs of letters and digits) and symbols (runs of anything else), and the
sequences are aligned one after the other to a growing profile, the most frequent first: the
standard greedy approximation of multi-sequence alignment. Homogeneous machine-made values share one
sequence, for which the alignment is the sequence itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dqsql.errors import PatternError
from dqsql.patterns.characters import shape
from dqsql.patterns.generation import MAX_VALUE_LENGTH, ColumnSample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.parsing import parse_pattern

#: Values of more words and symbols are not aligned.
_MAX_TOKENS = 48
#: At most this many different sequences are aligned; rows of rarer ones are left out.
_MAX_SEQUENCES = 12

_WORD = "w"
_TOKENS = re.compile(r"[Aax0]+|[^Aax0]+")

# In ISO 8601 times the letters T and Z separate, as symbols do elsewhere.
_TIME = re.compile(r"00A00:00")
_TOKENS_OF_TIME = re.compile(r"(?<=00)A(?=00:00|$)|0+|[Aax]+|[^Aax0]+")
_TIME_LETTER = "T"
_MATCH, _GAP = 2, -1

Sequence_ = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Aligned values of a column.

    Attributes:
        length: the number of positions.
        rows: the aligned rows, as bits; others are non-conforming.
        values: each aligned value with its rows and its text at each position (None is a gap).
    """

    length: int
    rows: int
    values: tuple[tuple[int, tuple[str | None, ...]], ...]


def align(sample: ColumnSample, *, min_share: float) -> Alignment | None:
    """Align the values of a column.

    The most frequent sequences are taken until at least `min_share` of the rows, in (0, 1], are
    aligned. Returns None where `_MAX_SEQUENCES` sequences of `_MAX_TOKENS` tokens do not suffice.
    """
    by_sequence: dict[Sequence_, list[tuple[str, int, tuple[int, ...]]]] = {}
    for value, mask in sample.masks.items():
        if 0 < len(value) <= MAX_VALUE_LENGTH:
            sequence, bounds = token_sequence(shape(value))
            if len(sequence) <= _MAX_TOKENS:
                by_sequence.setdefault(sequence, []).append((value, mask, bounds))
    frequency = {s: sum(m.bit_count() for _, m, _ in rows) for s, rows in by_sequence.items()}
    needed = min_share * sample.rows
    chosen: list[Sequence_] = []
    covered = 0
    for sequence in sorted(frequency, key=lambda s: (-frequency[s], s)):
        if covered >= needed - 1e-9 and covered:
            break
        if len(chosen) == _MAX_SEQUENCES:
            return None
        chosen.append(sequence)
        covered += frequency[sequence]
    if not chosen or covered < needed - 1e-9:
        return None
    profile, places = align_sequences(chosen)
    if len(profile) > _MAX_TOKENS:
        return None
    aligned = 0
    values: list[tuple[int, tuple[str | None, ...]]] = []
    for sequence, indices in places.items():
        for value, mask, bounds in by_sequence[sequence]:
            row: list[str | None] = [None] * len(profile)
            for index, (start, end) in zip(indices, pairwise(bounds), strict=True):
                row[index] = value[start:end]
            values.append((mask, tuple(row)))
            aligned |= mask
    return Alignment(len(profile), aligned, tuple(values))


@lru_cache(maxsize=16_384)
def token_sequence(value_shape: str) -> tuple[Sequence_, tuple[int, ...]]:
    """Return the words and symbols of a value's shape, and where they begin and end."""
    sequence: list[str] = []
    bounds = [0]
    is_time = _TIME.search(value_shape)
    for match in (_TOKENS_OF_TIME if is_time else _TOKENS).finditer(value_shape):
        run = match.group()
        letter = is_time and run == "A"
        sequence.append(_TIME_LETTER if letter else _WORD if run[0] in "Aax0" else run)
        bounds.append(match.end())
    return tuple(sequence), tuple(bounds)


def align_sequences(
    sequences: Sequence[Sequence_],
) -> tuple[Sequence_, dict[Sequence_, tuple[int, ...]]]:
    """Align distinct sequences greedily, in the given order. Only equal kinds share a position.

    Returns the profile (the kind at each position), and for each sequence the positions of its
    tokens, ascending.
    """
    profile: Sequence_ = sequences[0]
    places = {profile: tuple(range(len(profile)))}
    for sequence in sequences[1:]:
        merged, of_profile, of_sequence = _merge(profile, sequence)
        places = {s: tuple(of_profile[i] for i in indices) for s, indices in places.items()}
        places[sequence] = of_sequence
        profile = merged
    return profile, places


def _merge(
    profile: Sequence_, sequence: Sequence_
) -> tuple[Sequence_, tuple[int, ...], tuple[int, ...]]:
    """Align two sequences by Needleman and Wunsch's dynamic programme."""
    rows, columns = len(profile), len(sequence)
    score = [[_GAP * (i + j) for j in range(columns + 1)] for i in range(rows + 1)]
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            best = max(score[i - 1][j], score[i][j - 1]) + _GAP
            if profile[i - 1] == sequence[j - 1]:
                best = max(best, score[i - 1][j - 1] + _MATCH)
            score[i][j] = best
    i, j = rows, columns
    merged: list[tuple[str, int | None, int | None]] = []
    while i or j:
        if (
            i
            and j
            and profile[i - 1] == sequence[j - 1]
            and score[i][j] == score[i - 1][j - 1] + _MATCH
        ):
            i, j = i - 1, j - 1
            merged.append((profile[i], i, j))
        elif i and score[i][j] == score[i - 1][j] + _GAP:
            i -= 1
            merged.append((profile[i], i, None))
        else:
            j -= 1
            merged.append((sequence[j], None, j))
    merged.reverse()
    of_profile = tuple(k for k, (_, i, _) in enumerate(merged) if i is not None)
    of_sequence = tuple(k for k, (_, _, j) in enumerate(merged) if j is not None)
    return tuple(kind for kind, _, _ in merged), of_profile, of_sequence


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pattern in printable form with its rate and coverage, and the rows that it matches."""

    text: str
    rate: float
    coverage: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Judge:
    """The corpus and what is asked of a pattern: at most the FPR_T `r`, at least `m` columns."""

    index: PatternIndex
    r: float
    m: int

    def safest(self, patterns: Mapping[str, int]) -> Candidate | None:
        """Return the feasible pattern of least rate, or None; `patterns` have their rows as bits.

        Among equal rates the larger coverage wins, then the more specific pattern, then the one
        whose text is smaller.
        """
        texts = list(patterns)
        evidence = self.index.lookup(texts)
        coverage, rate = evidence.coverage, evidence.fpr
        feasible = np.flatnonzero((coverage >= self.m) & (rate <= self.r))
        if not len(feasible):
            return None
        least = feasible[rate[feasible] == rate[feasible].min()]
        tied = least[coverage[least] == coverage[least].max()]
        best = min(tied, key=lambda i: (parse_pattern(texts[i]).generality, texts[i]))
        text = texts[best]
        return Candidate(text, float(rate[best]), int(coverage[best]), patterns[text])


# The best chain may be one that the language refuses (`<alphanum>+<num>`, where the sign of the
# number was a symbol): then the next one is taken.
_KEPT_CHAINS = 16


@dataclass(frozen=True, slots=True)
class _Chain:
    """Segments up to a position: the sum of their rates, and the coverage of the rarest.

    `rows` match all of them.
    """

    text: str
    rate: float
    coverage: int
    segments: int
    rows: int

    def then(self, segment: Candidate) -> _Chain:
        return _Chain(
            self.text + segment.text,
            self.rate + segment.rate,
            min(self.coverage, segment.coverage),
            self.segments + 1,
            self.rows & segment.rows,
        )

    @property
    def preference(self) -> tuple[float, int, int]:
        """The lowest rate first, then the largest coverage, then the fewest segments."""
        return self.rate, -self.coverage, self.segments


def best_segmentation(sample: ColumnSample, judge: Judge, *, min_share: float) -> Candidate | None:
    """The chain of segments of least total rate (bounded by `judge.r`), or None.

    With horizontal cuts, values whose tokens do not follow the majority's are dropped first
    (section 4), and where no chain matches all the rest, others may be dropped as well: at least
    `min_share` of the rows, in (0, 1], are matched.
    """
    alignment = align(sample, min_share=min_share)
    if alignment is None:
        return None
    every = alignment.rows.bit_count()
    chain = _best_chain(alignment, judge, every)
    fewest = math.ceil(min_share * sample.rows - 1e-9)
    return chain or (_best_chain(alignment, judge, fewest) if fewest < every else None)


def _best_chain(alignment: Alignment, judge: Judge, fewest: int) -> Candidate | None:
    """The chain of least rate that matches at least so many rows."""
    end = alignment.length
    best: list[list[_Chain]] = [
        [_Chain("", 0.0, judge.index.columns, 0, alignment.rows)],
        *([] for _ in range(end)),
    ]
    for stop in range(1, end + 1):
        # The best chain up to a position is the best one up to an earlier position and a segment:
        # the binary splits of equation (11) reach no chain that this does not.
        chains: list[_Chain] = []
        for begin in range(max(0, stop - judge.index.settings.tau), stop):
            segment = _segment(alignment, begin, stop, judge, fewest) if best[begin] else None
            if segment is not None:
                longer = [before.then(segment) for before in best[begin]]
                chains += [chain for chain in longer if chain.rows.bit_count() >= fewest]
        best[stop] = sorted(chains, key=lambda chain: chain.preference)[:_KEPT_CHAINS]
    for chain in best[end]:
        if chain.rate <= judge.r and _is_linear(chain.text):
            return Candidate(chain.text, chain.rate, chain.coverage, chain.rows)
    return None


def _segment(
    alignment: Alignment, begin: int, end: int, judge: Judge, fewest: int
) -> Candidate | None:
    texts: dict[str, int] = {}
    joined = False
    for mask, parts in alignment.values:
        text = "".join(part or "" for part in parts[begin:end])
        texts[text] = texts.get(text, 0) | mask
        if text[:1] in ("+", "-"):
            before = "".join(part or "" for part in parts[:begin])
            joined |= before[-1:].isalnum()
    # Rows that were dropped stay out of the count.
    sample = ColumnSample(alignment.rows.bit_count(), texts)
    share = fewest / sample.rows
    candidates = hypotheses(sample, tau=judge.index.settings.tau, min_share=share)
    if joined:
        # What stands between a word and a number is no sign of the number, and not optional.
        candidates = {
            text: rows for text, rows in candidates.items() if not text.startswith("<num>")
        }
    return judge.safest(candidates)


def _is_linear(text: str) -> bool:
    """Whether segments that meet without a symbol between them are still matched in linear time."""
    try:
        parse_pattern(text)
    except PatternError:
        return False
    return True
