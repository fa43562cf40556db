"""The ladder of generality: what a column's values have in common, at twelve levels.

The hypotheses of `rehearsal`, the default way to learn a pattern, are unions. At each level every
value has a form (itself, its case and length, its runs of characters, ..), and the rule of the
level is the union of the forms that the training values have: `<a><|><b>` on the lowest rung, the
set of characters that occur on the highest. Auto-Validate looks for a single pattern that all
values share; many columns, words in changing number among them, have none.

What is asked of a level is always the same question: from which row on would a rule that had seen
the rows so far have accepted this value? All rehearsals, at any cut, follow from the answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dqsql.errors import PatternError
from dqsql.patterns.characters import DIGIT, LOWER, OTHER_LETTER, UPPER, shape
from dqsql.patterns.generation import MAX_VALUE_LENGTH
from dqsql.patterns.language import Pattern, Token, TokenKind, escape_constant
from dqsql.patterns.parsing import parse_pattern

#: From the most specific rule to the most general one, roughly.
EXACT = "exact"
LEVELS = (
    EXACT,  # the values themselves
    "shape",  # letters of upper and lower case, digits: each run with its length
    "letter_lengths",  # runs of letters with their lengths, of digits of any length
    "case_runs",  # runs of upper, lower, digits, of any length
    "class_runs",  # runs of letters, digits
    "widths",  # runs of letters and digits, half to twice as long as those seen
    "words",  # words of letters and digits, the same words and symbols repeated
    "case_set_and_length",  # the characters: upper, lower, digit, each symbol; the same lengths
    "case_set",  # the same, up to twice the length
    "class_set",  # the characters: letter, digit, each symbol; up to twice the length
    "word_set",  # the characters: letter or digit, each symbol; up to twice the length
    "word_set_any_length",
)

_FORMS = LEVELS[1:7]
_SETS = {"case_set_and_length": 0, "case_set": 0, "class_set": 1, "word_set": 2}
_SETS["word_set_any_length"] = 2

#: Rules of more alternatives are dictionaries, not formats, and dear to match.
_MAX_ALTERNATIVES = 100

_SLACK = 2
_LETTERS = UPPER + LOWER + OTHER_LETTER
_CASE_RUNS = re.compile(r"[Aax]*x[Aax]*|A+|a+|0+|[^Aax0]+")
_CLASS_RUNS = re.compile(r"[Aax]+|0+|[^Aax0]+")
_WORD_RUNS = re.compile(r"[Aax0]+|[^Aax0]+")

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Form:
    """A shape at all levels.

    Attributes:
        branches: for each level of `_FORMS` the form as a pattern.
        members: for each kind of set the characters, as tokens of the pattern language.
        widths: lengths of the runs of letters and of digits.
    """

    branches: tuple[str, ...]
    members: tuple[frozenset[str], ...]
    widths: tuple[int, ...]


@lru_cache(maxsize=65_536)
def _form(value_shape: str) -> _Form:
    case_runs: list[str] = _CASE_RUNS.findall(value_shape)
    class_runs = [_without_case(run) for run in _CLASS_RUNS.findall(value_shape)]
    classes = "".join(_token(run, "+") for run in class_runs)
    return _Form(
        branches=(
            "".join(_token(run, f"{{{len(run)}}}") for run in case_runs),
            "".join(
                _token(run, "+" if run[0] == DIGIT else f"{{{len(run)}}}") for run in class_runs
            ),
            "".join(_token(run, "+") for run in case_runs),
            classes,
            classes,
            _repeated_words(_WORD_RUNS.findall(value_shape)),
        ),
        members=(
            frozenset(map(_case_of, value_shape)),
            frozenset(map(_class_of, value_shape)),
            frozenset(map(_word_of, value_shape)),
        ),
        widths=tuple(len(run) for run in class_runs if run[0] in _LETTERS + DIGIT),
    )


def _without_case(run: str) -> str:
    return OTHER_LETTER * len(run) if run[0] in _LETTERS else run


def _token(run: str, quantifier: str) -> str:
    """Return a run of a shape in the pattern language."""
    if run[0] == DIGIT:
        return f"<digit>{quantifier}"
    if run[0] not in _LETTERS:
        return escape_constant(run)
    kinds = set(run)
    kind = "upper" if kinds == {UPPER} else "lower" if kinds == {LOWER} else "letter"
    return f"<{kind}>{quantifier}"


def _case_of(code: str) -> str:
    return {UPPER: "<upper>", LOWER: "<lower>"}.get(code) or _class_of(code)


def _class_of(code: str) -> str:
    return "<digit>" if code == DIGIT else "<letter>" if code in _LETTERS else code


def _word_of(code: str) -> str:
    return "<alphanum>" if code in _LETTERS + DIGIT else code


def _repeated_words(runs: Sequence[str]) -> str:
    """Return words and symbols with a repeated symbol and word as a part that repeats."""
    parts: list[str] = []
    position = 0
    while position < len(runs):
        run = runs[position]
        if run[0] in _LETTERS + DIGIT:
            parts.append("<alphanum>+")
            position += 1
        elif position + 1 < len(runs):
            parts.append(f"<(>{escape_constant(run)}<alphanum>+<)+>")
            while runs[position : position + 1] == [run] and position + 1 < len(runs):
                position += 2
        else:
            parts.append(escape_constant(run))
            position += 1
    return "".join(parts)


class Ladder:
    """The rules of a column at all levels.

    Attributes:
        values: the values, in their order.
        distinct: the distinct values, in the order in which they first occur.
        numbers: for each row the number of its value in `distinct`.
    """

    def __init__(self, values: Sequence[str]) -> None:
        self.values = values
        places: dict[str, int] = {}
        self.numbers = np.array(
            [places.setdefault(value, len(places)) for value in values], dtype=np.int64
        )
        self.distinct = list(places)
        _, first = np.unique(self.numbers, return_index=True)
        self._first: Times = first.astype(np.int64)
        # Values that can have a form. The others conform to no rule: the test of shares has them.
        self._formed = [
            k for k, value in enumerate(self.distinct) if 0 < len(value) <= MAX_VALUE_LENGTH
        ]
        self._forms = {k: _form(shape(self.distinct[k])) for k in self._formed}

    def formless(self) -> int:
        """Return the number of rows whose values are empty or too long."""
        return len(self.values) - int(np.isin(self.numbers, self._formed).sum())

    def accepted_from(self) -> Times:
        """Return for each level and row the row whose value makes the rule accept this one.

        Shape (levels, rows). The rule learned from rows 0..c-1 accepts row i where the result is
        less than c; it is i itself where the value was new. Values without a form count as
        accepted from the start.
        """
        times = np.full((len(LEVELS), len(self.distinct)), -1, dtype=np.int64)
        formed = self._formed
        if formed:
            times[:, formed] = self._times_of_formed()
        return times[:, self.numbers]

    def _times_of_formed(self) -> Times:
        first = self._first[self._formed]
        forms = [self._forms[k] for k in self._formed]
        rows: dict[str, Times] = {"exact": first}
        for level, name in enumerate(_FORMS):
            rows[name] = _first_seen([form.branches[level] for form in forms], first)
        rows["widths"] = self._times_of_widths(forms, first)
        lengths = np.array([len(self.distinct[k]) for k in self._formed])
        same, doubled = _since_within(lengths, first, slack=1), _since_at_most(lengths, first)
        for name, kind in _SETS.items():
            rows[name] = _since_members([form.members[kind] for form in forms], first)
        rows["case_set_and_length"] = np.maximum(rows["case_set_and_length"], same)
        for name in ("case_set", "class_set", "word_set"):
            rows[name] = np.maximum(rows[name], doubled)
        return np.array([rows[name] for name in LEVELS])

    @staticmethod
    def _times_of_widths(forms: Sequence[_Form], first: Times) -> Times:
        alike: dict[str, list[int]] = {}
        for place, form in enumerate(forms):
            alike.setdefault(form.branches[_FORMS.index("widths")], []).append(place)
        times = np.empty(len(forms), dtype=np.int64)
        for places in alike.values():
            since = first[places]
            widths = np.array([forms[place].widths for place in places]).reshape(len(places), -1)
            reached = np.full(len(places), since[0])
            for run in range(widths.shape[1]):
                reached = np.maximum(reached, _since_within(widths[:, run], since, slack=_SLACK))
            times[places] = reached
        return times

    def pattern(self, level: str) -> Pattern | None:
        """Return the rule of a level; None where it has too many alternatives or is not linear."""
        branches = self._branches(level)
        if not 0 < len(branches) <= _MAX_ALTERNATIVES:
            return None
        try:
            return parse_pattern("<|>".join(branches))
        except PatternError:
            # Longer than a pattern may be, or more repeated parts.
            return None

    def _branches(self, level: str) -> list[str]:
        forms = [self._forms[k] for k in self._formed]
        if level == "exact":
            return [escape_constant(self.distinct[k]) for k in self._formed]
        if level == "widths":
            return _ranges_of_widths(
                [(shape(self.distinct[k]), self._forms[k]) for k in self._formed]
            )
        if level in _FORMS:
            return list(dict.fromkeys(form.branches[_FORMS.index(level)] for form in forms))
        members = frozenset[str]().union(*(form.members[_SETS[level]] for form in forms))
        lengths = [len(self.distinct[k]) for k in self._formed]
        return [_set_of(members, lengths, level)] if lengths else []


def _first_seen(keys: Iterable[str], first: Times) -> Times:
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(k, int(row)) for k, row in zip(keys, first, strict=True)])


def _since_members(sets: Sequence[frozenset[str]], first: Times) -> Times:
    """Return from when on all members of each set have been seen."""
    seen: dict[str, int] = {}
    return np.array(
        [
            max(seen.setdefault(member, int(row)) for member in members)
            for members, row in zip(sets, first, strict=True)
        ]
    )


def _since_within(sizes: npt.NDArray[np.int64], first: Times, *, slack: int) -> Times:
    """Return from when on each size is between least / slack and largest * slack."""
    largest, least = np.maximum.accumulate(sizes) * slack, np.minimum.accumulate(sizes)
    above = np.searchsorted(largest, sizes)
    below = np.searchsorted(-least, -sizes * slack)
    return first[np.maximum(above, below)]


def _since_at_most(sizes: npt.NDArray[np.int64], first: Times) -> Times:
    return first[np.searchsorted(np.maximum.accumulate(sizes) * _SLACK, sizes)]


def _ranges_of_widths(shapes: Sequence[tuple[str, _Form]]) -> list[str]:
    """Return a branch for each sequence of runs, with the widths that are admitted."""
    alike: dict[str, tuple[str, list[tuple[int, ...]]]] = {}
    for value_shape, form in shapes:
        key = form.branches[_FORMS.index("widths")]
        alike.setdefault(key, (value_shape, []))[1].append(form.widths)
    branches: list[str] = []
    for value_shape, widths in alike.values():
        table = np.array(widths).reshape(len(widths), -1)
        ranges = iter(zip(-(-table.min(axis=0) // _SLACK), table.max(axis=0) * _SLACK, strict=True))
        text = ""
        for run in _CLASS_RUNS.findall(value_shape):
            if run[0] in _LETTERS + DIGIT:
                least, most = next(ranges)
                kind: TokenKind = "digit" if run[0] == DIGIT else "letter"
                text += str(Token(kind, count=int(least), most=int(most)))
            else:
                text += escape_constant(run)
        branches.append(text)
    return branches


def _set_of(members: frozenset[str], lengths: Sequence[int], level: str) -> str:
    classes: list[TokenKind] = [
        kind for kind in ("alphanum", "digit", "letter", "lower", "upper") if f"<{kind}>" in members
    ]
    text = "".join(sorted(member for member in members if len(member) == 1))
    least, most = 1, max(lengths) * _SLACK
    if level == "word_set_any_length":
        return str(Token("set", text, classes=tuple(classes)))
    if level == "case_set_and_length":
        least, most = min(lengths), max(lengths)
    counts = (least, None if least == most else most)
    return str(Token("set", text, *counts, tuple(classes)))
