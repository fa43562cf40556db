"""Texts with a running number: one digit more is no change of their shape.

Where the values of a column are numbered on, as order numbers are, `A999` is followed by `A1000`.
Lengths and patterns of such texts have a step that no history foretells, and that says nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dqsql.decisions.distances import CategoricalState, categorical_distances
from dqsql.model.metric_traits import PATTERN_PREFIX

# The share of kept values that may have been in the batch before: a number may stand in many rows.
_MOST_AGAIN = 0.1
# How many times the largest number before a wider one may be. A digit that was put in makes it ten.
_MOST_GROWTH = 5
_PATTERN_DIGITS = re.compile("d+")
_DIGITS = re.compile("[0-9]+")
_DIGIT = re.compile("[0-9]")
_LETTERS = re.compile("[A-Za-z]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


@dataclass(frozen=True, slots=True)
class TextState:
    """What is kept of one batch of a column of texts.

    Attributes:
        values: the most frequent values.
        patterns: the most frequent patterns, each digit as d, each letter as l, each punctuation
            character as a full stop.
    """

    values: CategoricalState
    patterns: CategoricalState


def text_distances(reference: TextState, new: TextState) -> dict[str, float]:
    """Return the two-distribution metrics of a column of texts (paper, Table 4).

    Patterns of a running number are compared without the number of its digits.
    """
    before, now = reference.patterns, new.patterns
    if counted_on(reference, new):
        before, now = _without_widths(before), _without_widths(now)
    return {
        **categorical_distances(reference.values, new.values),
        **categorical_distances(before, now, PATTERN_PREFIX),
    }


def counted_on(reference: TextState, new: TextState) -> bool:
    """Whether the patterns of a batch differ from those before as a running number makes them.

    Hardly any value has been in the batch before. Of each pattern one run of digits may have become
    wider, by one digit, without zeros in front and without a tenfold number. Numbers of the former
    width may still come.
    """
    if not _are_new(reference.values, new.values):
        return False
    before, now = reference.patterns, new.patterns
    old, young = _widths(before.counts), _widths(now.counts)
    if before.other or now.other or old.keys() != young.keys():
        return False
    if not all(_gained(old[pattern], widths) for pattern, widths in young.items()):
        return False
    return _continue(reference, new)


_Widths = set[tuple[int, ...]]


def _gained(old: _Widths, young: _Widths) -> bool:
    """Whether one run of digits at most has become wider, and that by one digit at most."""
    places = range(len(next(iter(old))))
    moved = [place for place in places if len({widths[place] for widths in old | young}) > 1]
    if len(moved) != 1:
        return not moved
    before = {widths[moved[0]] for widths in old}
    now = {widths[moved[0]] for widths in young}
    grown = min(before) <= min(now) and 0 <= max(now) - max(before) <= 1
    return grown and (min(now) >= max(before) or max(now) - min(before) <= 1)


def _continue(reference: TextState, new: TextState) -> bool:
    """Whether numbers that are wider than all before are those that come next."""
    widest: dict[str, list[str]] = {}
    for pattern, runs in _numbers(reference):
        known = widest.get(pattern, runs)
        widest[pattern] = [max(pair, key=_size) for pair in zip(known, runs, strict=True)]
    return all(
        all(map(_may_follow, widest.get(pattern, runs), runs)) for pattern, runs in _numbers(new)
    )


def _numbers(state: TextState) -> Iterator[tuple[str, list[str]]]:
    """The runs of digits of the values, with the pattern without widths; not of hashes."""
    for value in state.values.counts:
        pattern = _DIGIT.sub("d", _LETTERS.sub("l", _PUNCTUATION.sub(".", value)))
        if pattern in state.patterns.counts:
            yield _PATTERN_DIGITS.sub("d", pattern), _DIGITS.findall(value)


def _may_follow(before: str, digits: str) -> bool:
    if len(digits) <= len(before):
        return True
    return digits[0] != "0" and int(digits) <= _MOST_GROWTH * int(before)


def _size(digits: str) -> tuple[int, str]:
    return len(digits), digits


def _are_new(reference: CategoricalState, new: CategoricalState) -> bool:
    again = len(reference.counts.keys() & new.counts.keys())
    return again <= _MOST_AGAIN * len(new.counts)


def _widths(patterns: Mapping[str, float]) -> dict[str, _Widths]:
    """By pattern without widths, the widths of the runs of digits."""
    widths: dict[str, _Widths] = defaultdict(set)
    for pattern in patterns:
        runs = tuple(len(run) for run in _PATTERN_DIGITS.findall(pattern))
        widths[_PATTERN_DIGITS.sub("d", pattern)].add(runs)
    return widths


def _without_widths(patterns: CategoricalState) -> CategoricalState:
    counts: dict[str, float] = defaultdict(float)
    for pattern, count in patterns.counts.items():
        counts[_PATTERN_DIGITS.sub("d", pattern)] += count
    return CategoricalState(counts, patterns.other)
