"""Says so when most batches are kept out of what monitors learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dqsql.model.results import BatchStatus, Result, Status
from dqsql.model.wording import plural

# Fewer batches than this are no history yet, whatever was found in them.
_HISTORY = 8


def held_back_note(
    model: str, statuses: Iterable[BatchStatus], results: Iterable[Result]
) -> tuple[str, ...]:
    """A note when at least half of a model's batches wait for a review, else nothing.

    Its monitors then stay at `still learning` for a reason that their verdicts do not tell.

    Args:
        model: name of the model.
        statuses: of all its batches, those of the run included.
        results: the verdicts of the run, of which the most frequent failure is named.
    """
    counted = Counter(statuses)
    flagged, every = counted[BatchStatus.FLAGGED], counted.total()
    if every < _HISTORY or 2 * flagged < every:
        return ()
    failed = [r for r in results if r.status is Status.FAIL]
    named, setting = "", "{severity: warn}"
    if failed:
        often = Counter(r.check_id for r in failed).most_common(1)[0][0]
        named = f", mostly of {often}"
        if all(r.segment is not None for r in failed if r.check_id == often):
            named, setting = f"{named} on segments", "{segments: false}"
    return (
        f"monitors do not learn from {flagged:,} of {plural(every, 'batch')}, as they have"
        f" findings of severity error{named}: mend it or give it {setting}, and run with"
        f" --full-refresh; or see `dqsql review list --select {model}`",
    )
