"""A suggested check: its annotation, why, and how well it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dqsql.model.plain_names import plain_name

_OPENING = re.compile(r"\{[{%#]")
_RELATION = re.compile(r"\{\{ (?:ref|source)\([^{}]*\) \}\}")


def outside_jinja(text: str) -> str:
    """SQL text as it is written in a file that is rendered; a `ref(..)` or `source(..)` stays."""
    if _RELATION.fullmatch(text):
        return text
    return _OPENING.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


class SuggestionVerdict(StrEnum):
    """What became of a candidate."""

    SUGGESTED = "suggested"
    EXISTS = "exists"
    REFUSED = "refused"


@dataclass(frozen=True)
class Envelope:
    """The interval that a metric must lie in; None is unbounded.

    `widen` says that the interval may follow the metric's values in the batches of history.
    """

    metric: str
    lower: float | None = None
    upper: float | None = None
    widen: bool = False


@dataclass(frozen=True)
class Suggestion:
    """One candidate.

    The annotation is `call(arguments) comparison {settings}`; with a `column` that column is the
    first argument. `promise` names what is demanded of the column, so that a check of the user's
    about the same is left alone. `coverage` is a metric in [0, 1]: the share of rows that comply;
    None where the check is about all rows at once. `weaker` takes the candidate's place where it
    does not hold. `score` is the classifier's probability. Of a guess nothing is said where it does
    not hold. After validation `measured` is the coverage on held-out rows, `batches` and `held`
    count the batches tried and passed.
    """

    rule: str
    promise: str
    column: str | None
    call: str
    reason: str
    arguments: tuple[str, ...] = ()
    comparison: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    takes_column: bool = True
    coverage: str | None = None
    envelope: Envelope | None = None
    weaker: Suggestion | None = None
    score: float | None = None
    is_guess: bool = False
    verdict: SuggestionVerdict = SuggestionVerdict.SUGGESTED
    measured: float | None = None
    batches: int = 0
    held: int = 0

    def expression(self, *, inside: bool) -> str:
        """The annotation's SQL: in the column's own place (`inside`), or naming the column."""
        return self._called(self._arguments(inside))

    def annotation(self, *, inside: bool) -> str:
        """The annotation as it stands in a comment."""
        settings = ", ".join(f"{k}: {v}" for k, v in self.settings.items())
        called = self._called([outside_jinja(a) for a in self._arguments(inside)])
        return f"@{called}" + (f" {{{settings}}}" if settings else "")

    def _arguments(self, inside: bool) -> Sequence[str]:
        if self.column is None or inside or not self.takes_column:
            return self.arguments
        return (plain_name(self.column), *self.arguments)

    def _called(self, arguments: Sequence[str]) -> str:
        call = f"{self.call}({', '.join(arguments)})" if arguments else self.call
        return f"{call} {self.comparison}".rstrip()

    def refused(self, why: str) -> Suggestion:
        """The candidate as one that is not suggested, and why."""
        return replace(self, verdict=SuggestionVerdict.REFUSED, reason=why)


def without_bounds(suggestion: Suggestion) -> Suggestion | None:
    """A candidate without forms whose bounds depend on what a batch is; None where that is all."""
    if suggestion.envelope is not None and suggestion.envelope.widen:
        return None
    weaker = suggestion.weaker
    return replace(suggestion, weaker=None if weaker is None else without_bounds(weaker))
