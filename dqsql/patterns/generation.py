"""All patterns of a value, and of a column: P(v), and the rows that each pattern matches.

Two steps, as in Auto-Validate, section 2.1. First every value is reduced to a coarse sequence
(letters, digits, symbols), and values of equal sequence form a group. Then each position of a
group is specialised (constant, class of fixed length, class of any length, number, ...) as long
as enough rows share the specialisation.

What keeps this fast: a column has few distinct shapes (`Mar 01` and `Apr 17` are both `Aaa 00`),
so positions, lengths and letter case are worked out once per shape; sets of rows are the bits of
Python integers, so that the support of a combination is one `&` and one population count.

Choices where the paper is silent:

* A token, for the limit tau, is a run of letters and digits or a run of symbols.
* A run that mixes letters and digits is specialised to its parts up to four parts; beyond that
  (hexadecimal ids) only <alphanum>{k} and <alphanum>+ are offered.
* Patterns of whole words (<alphanum>{8}-<alphanum>{4}) are counted over all values of a column,
  exactly; only narrower ones share the budget of work for one column.
* The more words a value has, the fewer options each of them gets, so that the number of patterns
  of a value stays in the hundreds. The rule looks at the value alone, so that a pattern is offered
  for a query column if and only if it was offered for the columns of the corpus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dqsql.patterns.characters import DIGIT, shape
from dqsql.patterns.language import escape_constant

#: Longer values are not generalised (they count as rows that no pattern matches).
MAX_VALUE_LENGTH = 512

#: Constants are offered where at least this share of a column's rows has them.
_MIN_CONSTANT_SHARE = 0.02

# Bounds on the work for one column, whatever it holds.
_MAX_SHAPES = 1_000
_MAX_NODES = 6_000
_MAX_CONSTANTS = 24

# Setting single bits one by one costs more than packing an array from about here.
_FEW_BITS = 24

_MAX_PARTS_OF_WORD = 4
_WORDS_WITH_ALL_OPTIONS = 3
_WORDS_WITH_CONSTANTS = 4

# Each symbol is a run of its own, so that a sign can belong to the number after it.
_RUNS = re.compile(r"[Aax]+|0+|[^Aax0]")
_TOKENS = re.compile(r"[Aax0]+|[^Aax0]+")
_NUMBER_PLACES = re.compile(r"(?:(?:^|(?<=[\s,;:(\[|=/]))[+-])?(?<![a0.])0(?:\.0)?(?!\.?[a0])")
_SIGNED_EXPONENT = re.compile(r"[+-]?\d+(?:\.\d+)?[eE][+-]\d+")


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """A column's sampled values as distinct values with the rows that hold them.

    Attributes:
        rows: number of rows.
        masks: for each distinct value the rows that hold it, as bits of an integer; bit i is row i.
    """

    rows: int
    masks: dict[str, int]


def column_sample(values: Iterable[str | None]) -> ColumnSample:
    """Return the sample of the given values without nulls; empty strings are values."""
    places: dict[str, list[int]] = {}
    position = 0
    for value in values:
        if value is not None:
            places.setdefault(value, []).append(position)
            position += 1
    return ColumnSample(position, {value: _bits(rows) for value, rows in places.items()})


def _bits(rows: list[int]) -> int:
    """Return the integer with the given bits, ascending, in time linear in the last one."""
    if len(rows) < _FEW_BITS:
        mask = 0
        for row in rows:
            mask |= 1 << row
        return mask
    bits = np.zeros(rows[-1] + 1, dtype=np.uint8)
    bits[rows] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=16_384)
def _tokens_of_shape(value_shape: str) -> int:
    return len(_TOKENS.findall(value_shape))


def pattern_masks(
    sample: ColumnSample, *, tau: int, min_rows: int, constants: bool = True
) -> dict[str, int]:
    """The column's patterns (printable, never the trivial one), with the rows of each as bits.

    Args:
        sample: the column.
        tau: values of more tokens are left out, at least 1.
        min_rows: specialisations that fewer rows of a coarse group share are left out, at least 1.
        constants: whether words may stay constant (symbols always do).
    """
    groups = _coarse_groups(sample, tau)
    result = _patterns_of_words(groups.values())
    budget = _Budget(_MAX_NODES)
    largest_first = sorted(groups.values(), key=lambda group: (-group.mask.bit_count(), group.key))
    for group in largest_first:
        # In a group smaller than the threshold only what is general can reach it elsewhere.
        threshold = min(min_rows, max(1, group.mask.bit_count()))
        options = group.options(sample, threshold, constants=constants)
        _combine(options, group.mask, threshold, result, budget)
        if budget.spent:
            break
    if sample.masks:
        _add_exponents(sample, result)
    return result


def _patterns_of_words(groups: Iterable[_Group]) -> dict[str, int]:
    """Return the patterns in which each word is one token, with the rows that match each of them.

    Groups that differ in the runs inside of mixed words only (`a1b2`, `ab12`) are one group here,
    so that their number does not grow with the variety of the values.
    """
    together: dict[tuple[str, ...], list[dict[str, int]]] = {}
    masks: dict[tuple[str, ...], int] = {}
    for group in groups:
        for pure in (True, False):
            kinds, options = group.word_options(pure=pure)
            stretches = together.setdefault(kinds, [{} for _ in kinds])
            for stretch, option in zip(stretches, options, strict=True):
                for text, mask in option.items():
                    stretch[text] = stretch.get(text, 0) | mask
            masks[kinds] = masks.get(kinds, 0) | group.mask
    result: dict[str, int] = {}
    for kinds, stretches in together.items():
        combined = {"": masks[kinds]}
        for stretch in stretches:
            combined = {
                prefix + text: shared
                for prefix, rows in combined.items()
                for text, mask in stretch.items()
                if (shared := rows & mask)
            }
        for text, rows in combined.items():
            result[text] = result.get(text, 0) | rows
    return result


def hypotheses(
    sample: ColumnSample, *, tau: int, min_share: float = 1.0, constants: bool = True
) -> dict[str, int]:
    """Return the patterns that match at least a share of the rows: H(C) for a share of 1.

    With a share of 1 - theta, in (0, 1], this is the space of FMDV-H (section 4).
    """
    needed = max(1, math.ceil(min_share * sample.rows - 1e-9))
    # A pattern may collect its rows from several coarse groups (<alphanum>+, <num>).
    masks = pattern_masks(sample, tau=tau, min_rows=max(1, needed // 16), constants=constants)
    return {text: mask for text, mask in masks.items() if mask.bit_count() >= needed}


@dataclass(slots=True)
class _Budget:
    nodes: int

    @property
    def spent(self) -> bool:
        return self.nodes <= 0


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to write a stretch of a coarse group: its text, its end position, its rows."""

    text: str
    end: int
    mask: int


@dataclass(slots=True)
class _Group:
    """The rows whose values have one coarse sequence of runs.

    `shapes` maps each shape to the slices of its runs, its rows, and its values.
    """

    key: tuple[str, ...]
    mask: int = 0
    shapes: dict[str, _ShapeRows] = field(default_factory=dict)

    def options(
        self, sample: ColumnSample, min_rows: int, *, constants: bool
    ) -> list[list[_Option]]:
        """Return, for each run, the ways to write what starts there, the general ones first."""
        words = _words(self.key)
        options: list[list[_Option]] = [[] for _ in self.key]
        for index, run in enumerate(self.key):
            if run not in ("a", DIGIT):
                options[index].append(_Option(escape_constant(run), index + 1, self.mask))
        for start, end in _number_places(self.key):
            options[start].append(_Option("<num>", end, self.mask))
        min_constant = max(min_rows, int(_MIN_CONSTANT_SHARE * sample.rows))
        for start, end in words:
            parts = end - start
            if parts > 1 or len(words) <= _WORDS_WITH_ALL_OPTIONS:
                options[start] += self._alphanum(start, end, min_rows)
            if parts > _MAX_PARTS_OF_WORD:
                continue
            for index in range(start, end):
                options[index] += self._classes(index, min_rows, rich=len(words) * parts <= 4)
                if constants and len(words) <= _WORDS_WITH_CONSTANTS:
                    options[index] += self._constants(sample, index, min_constant)
        return options

    def word_options(self, *, pure: bool) -> tuple[tuple[str, ...], list[dict[str, int]]]:
        """Return the kind of each word and symbol, and the ways to write it as one token.

        With `pure`, words of letters or of digits alone are told apart and written as such;
        otherwise all words are alike, and written as <alphanum>.
        """
        words = dict(_words(self.key))
        inside = {index for start, end in words.items() for index in range(start + 1, end)}
        kinds: list[str] = []
        options: list[dict[str, int]] = []
        for index, run in enumerate(self.key):
            end = words.get(index)
            if index in inside:
                continue
            if end is None:
                kinds.append(run)
                options.append({escape_constant(run): self.mask})
                continue
            if pure and end - index == 1:
                kinds.append(f"word of {run}")
                tokens = self._classes(index, 1, rich=False)
            else:
                kinds.append("word")
                tokens = self._alphanum(index, end, 1)
            options.append({option.text: option.mask for option in tokens})
        return tuple(kinds), options

    def _alphanum(self, start: int, end: int, min_rows: int) -> list[_Option]:
        lengths: dict[int, int] = {}
        for rows in self.shapes.values():
            length = rows.bounds[end] - rows.bounds[start]
            lengths[length] = lengths.get(length, 0) | rows.mask
        return [
            _Option("<alphanum>+", end, self.mask),
            *(
                _Option(f"<alphanum>{{{length}}}", end, mask)
                for length, mask in lengths.items()
                if mask.bit_count() >= min_rows
            ),
        ]

    def _classes(self, index: int, min_rows: int, *, rich: bool) -> list[_Option]:
        kind = "digit" if self.key[index] == DIGIT else "letter"
        masks: dict[str, int] = {f"<{kind}>+": self.mask}
        for value_shape, rows in self.shapes.items():
            start, end = rows.bounds[index], rows.bounds[index + 1]
            texts = [f"<{kind}>{{{end - start}}}"]
            if kind == "letter" and rich:
                texts += _cased(value_shape[start:end])
            for text in texts:
                masks[text] = masks.get(text, 0) | rows.mask
        return [
            _Option(text, index + 1, mask)
            for text, mask in masks.items()
            if mask.bit_count() >= min_rows
        ]

    def _constants(self, sample: ColumnSample, index: int, min_rows: int) -> list[_Option]:
        if self.mask.bit_count() < min_rows:
            return []
        masks: dict[str, int] = {}
        for rows in self.shapes.values():
            start, end = rows.bounds[index], rows.bounds[index + 1]
            for value in rows.values:
                text = value[start:end]
                masks[text] = masks.get(text, 0) | sample.masks[value]
        frequent = sorted(
            (
                (-mask.bit_count(), text, mask)
                for text, mask in masks.items()
                if mask.bit_count() >= min_rows
            )
        )[:_MAX_CONSTANTS]
        return [_Option(escape_constant(text), index + 1, mask) for _, text, mask in frequent]


@dataclass(slots=True)
class _ShapeRows:
    bounds: tuple[int, ...]
    mask: int = 0
    values: list[str] = field(default_factory=list)


def _coarse_groups(sample: ColumnSample, tau: int) -> dict[tuple[str, ...], _Group]:
    groups: dict[tuple[str, ...], _Group] = {}
    by_shape: dict[str, tuple[_Group, _ShapeRows]] = {}
    for value, mask in sample.masks.items():
        if not 0 < len(value) <= MAX_VALUE_LENGTH:
            continue
        value_shape = shape(value)
        entry = by_shape.get(value_shape)
        if entry is None:
            if _tokens_of_shape(value_shape) > tau or len(by_shape) >= _MAX_SHAPES:
                continue
            key, bounds = _runs(value_shape)
            group = groups.setdefault(key, _Group(key))
            rows = group.shapes[value_shape] = _ShapeRows(bounds)
            entry = by_shape[value_shape] = (group, rows)
        group, rows = entry
        group.mask |= mask
        rows.mask |= mask
        rows.values.append(value)
    return groups


@lru_cache(maxsize=16_384)
def _runs(value_shape: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the coarse sequence of a shape, and where its runs begin and end."""
    key: list[str] = []
    bounds = [0]
    for match in _RUNS.finditer(value_shape):
        run = match.group()
        key.append(run if run[0] not in "Aax0" else DIGIT if run[0] == DIGIT else "a")
        bounds.append(match.end())
    return tuple(key), tuple(bounds)


@lru_cache(maxsize=4_096)
def _words(key: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return the stretches of runs that form words of letters and digits."""
    words: list[tuple[int, int]] = []
    start = None
    for index, run in enumerate((*key, "")):
        if run in ("a", DIGIT):
            start = index if start is None else start
        elif start is not None:
            words.append((start, index))
            start = None
    return tuple(words)


@lru_cache(maxsize=4_096)
def _number_places(key: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return the stretches of runs that read as numbers, with sign and decimals."""
    # Every run is one character here (symbols are split), so positions are indices.
    return tuple(match.span() for match in _NUMBER_PLACES.finditer("".join(key)))


@lru_cache(maxsize=4_096)
def _cased(letters: str) -> tuple[str, ...]:
    """Return the case-specific ways to write a run of letters, given its shape."""
    n = len(letters)
    if letters == "A" * n:
        return (f"<upper>{{{n}}}", "<upper>+")
    if letters == "a" * n:
        return (f"<lower>{{{n}}}", "<lower>+")
    if letters == "A" + "a" * (n - 1):
        return (f"<upper>{{1}}<lower>{{{n - 1}}}", "<upper>{1}<lower>+")
    return ()


def _combine(
    options: Sequence[Sequence[_Option]],
    mask: int,
    min_rows: int,
    result: dict[str, int],
    budget: _Budget,
) -> None:
    """Add all combinations of options that at least `min_rows` rows share to `result`."""
    end = len(options)
    stack = [(0, "", mask)]
    while stack and not budget.spent:
        position, prefix, rows = stack.pop()
        if position == end:
            result[prefix] = result.get(prefix, 0) | rows
            continue
        for option in reversed(options[position]):
            shared = rows & option.mask
            if shared.bit_count() >= min_rows:
                budget.nodes -= 1
                stack.append((option.end, prefix + option.text, shared))


def _add_exponents(sample: ColumnSample, result: dict[str, int]) -> None:
    """Let <num> match numbers with exponents; other patterns see their parts."""
    numbers = 0
    for value, mask in sample.masks.items():
        short = len(value) <= 32 and ("e" in value or "E" in value)
        if short and _SIGNED_EXPONENT.fullmatch(value):
            numbers |= mask
    if numbers:
        result["<num>"] = result.get("<num>", 0) | numbers
