"""Alignment of token sequences, for vertical cuts (Auto-Validate, section 3).

Values are cut to words (runs of letters and digits) and symbols (runs of anything else), and the
sequences are aligned one after the other to a growing profile, the most frequent first: the
standard greedy approximation of multi-sequence alignment. Homogeneous machine-made values share one
sequence, for which the alignment is the sequence itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from dqsql.patterns.characters import shape
from dqsql.patterns.generation import MAX_VALUE_LENGTH, ColumnSample

#: Values of more words and symbols are not aligned.
MAX_TOKENS = 48
#: At most this many different sequences are aligned; rows of rarer ones are left out.
MAX_SEQUENCES = 12

WORD = "w"
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
    aligned. Returns None where `MAX_SEQUENCES` sequences of `MAX_TOKENS` tokens do not suffice.
    """
    by_sequence: dict[Sequence_, list[tuple[str, int, tuple[int, ...]]]] = {}
    for value, mask in sample.masks.items():
        if 0 < len(value) <= MAX_VALUE_LENGTH:
            sequence, bounds = token_sequence(shape(value))
            if len(sequence) <= MAX_TOKENS:
                by_sequence.setdefault(sequence, []).append((value, mask, bounds))
    frequency = {s: sum(m.bit_count() for _, m, _ in rows) for s, rows in by_sequence.items()}
    needed = min_share * sample.rows
    chosen: list[Sequence_] = []
    covered = 0
    for sequence in sorted(frequency, key=lambda s: (-frequency[s], s)):
        if covered >= needed - 1e-9 and covered:
            break
        if len(chosen) == MAX_SEQUENCES:
            return None
        chosen.append(sequence)
        covered += frequency[sequence]
    if not chosen or covered < needed - 1e-9:
        return None
    profile, places = align_sequences(chosen)
    if len(profile) > MAX_TOKENS:
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
        sequence.append(_TIME_LETTER if letter else WORD if run[0] in "Aax0" else run)
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
