"""What is suggested for a relation."""

from __future__ import annotations

from dataclasses import dataclass

from dqsql.monitors.subjects import Subject
from dqsql.suggestions.batches import ProposedBatches
from dqsql.suggestions.profiles import Profile
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict


@dataclass(frozen=True)
class Proposal:
    """What is suggested for a relation.

    `rows` are those of the accepted batches, of which `learned` were learned from and `held_out`
    measured; `batches` is 0 without `batch_by`. `suggestions` are all candidates, also those that
    exist and those that are refused, each with its reason. `notes` say what was left out.
    `proposed` is the `batch_by` of a file that is new, if any is.
    """

    subject: Subject
    profile: Profile
    rows: int
    learned: int
    held_out: int
    batches: int
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...] = ()
    proposed: ProposedBatches | None = None

    @property
    def new(self) -> tuple[Suggestion, ...]:
        """The candidates that are suggested and not there yet."""
        return tuple(s for s in self.suggestions if s.verdict is SuggestionVerdict.SUGGESTED)
