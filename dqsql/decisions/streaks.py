"""`after`: a check fails only with several failing batches in a row; before that it warns.

Batches are counted by their order, whenever they were checked: each verdict says how many batches
in a row have failed up to its own, so that the next one needs only the batch directly before. So a
backfill and day-by-day runs come to the same verdicts. Where the age of the newest batch is told,
runs are counted: each finds another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from dqsql.model.batches import batch_order
from dqsql.model.results import Result, Status

# In the details of a verdict.
_IN_A_ROW = "failing_in_a_row"
# A verdict that says nothing neither adds to a row nor ends it.
_SILENT = (Status.NO_DATA, Status.SKIPPED, Status.ERROR)
_SILENT_TEXTS = {status.value for status in _SILENT}


@dataclass
class Streaks:
    """Counts the failing batches in a row of the checks that wait for several.

    Attributes:
        after: by check, how many failing batches in a row make it fail.
        known: all batches of the model, those under test among them.
        by_run: the checks of which runs are counted.
        run_counts: how many runs in a row they have failed in before, by check and segment.
    """

    after: Mapping[str, int]
    known: Collection[str]
    by_run: Collection[str] = ()
    run_counts: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    _before: dict[str, str] = field(default_factory=dict)
    _counts: dict[tuple[str, str, str | None], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(set(self.known), key=batch_order)
        self._before = dict(zip(ordered[1:], ordered, strict=False))

    def needed(self, batches: Collection[str]) -> set[str]:
        """The batches directly before some that are tested, whose stored verdicts count."""
        if not self.after:
            return set()
        return {self._before[b] for b in batches if b in self._before}.difference(batches)

    def add_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count stored verdicts (rows of dq_results)."""
        for row in rows:
            if row["check_id"] in self.after:
                self._counts[row["check_id"], row["batch"], row["segment"]] = count_of(row)

    def judged(self, results: Iterable[Result]) -> list[Result]:
        """The verdicts, with those that have to wait as warnings; in their order.

        All results of a batch must be there before those of a later one are asked for.
        """
        given = list(results)
        places = sorted(range(len(given)), key=lambda i: batch_order(given[i].batch or ""))
        for i in places:
            if given[i].check_id in self.after:
                given[i] = self._judged(given[i])
        return given

    def _judged(self, result: Result) -> Result:
        batch, after = result.batch or "", self.after[result.check_id]
        by_run = result.check_id in self.by_run
        before = self._before.get(batch, "")
        count = (
            self.run_counts.get((result.check_id, result.segment), 0)
            if by_run
            else self._counts.get((result.check_id, before, result.segment), 0)
        )
        if result.status is Status.FAIL:
            count += 1
        elif result.status not in _SILENT:
            count = 0
        if not by_run:
            self._counts[result.check_id, batch, result.segment] = count
        verdict = replace(result, details={**result.details, _IN_A_ROW: count, "after": after})
        if result.status is not Status.FAIL:
            return verdict
        unit = "run" if by_run else "batch"
        message = f"{result.message}; {unit} {count:,} in a row that fails (after: {after})"
        if count >= after:
            return replace(verdict, message=message)
        return replace(verdict, status=Status.WARN, message=f"{message}, so far a warning")


def miscounted(
    results: Iterable[Result],
    known: Collection[str],
    stored: Callable[[Sequence[str]], Iterable[Mapping[str, Any]]],
    by_run: Collection[str] = (),
) -> list[str]:
    """The batches directly behind these, whose stored verdicts count from something else.

    A batch that comes late, or is checked again, changes how many in a row have failed up to the
    next one, which no run looks at by itself.

    Args:
        results: the verdicts of a run.
        known: all batches of the model.
        stored: returns the stored verdicts (rows of dq_results) of batches.
        by_run: the checks of which runs are counted, not batches.
    """
    counts = {
        (r.check_id, r.batch, r.segment): int(r.details[_IN_A_ROW])
        for r in results
        if _IN_A_ROW in r.details and r.batch is not None and r.check_id not in by_run
    }
    tested, ordered = {batch for _, batch, _ in counts}, sorted(set(known), key=batch_order)
    before = {b: a for a, b in pairwise(ordered) if a in tested and b not in tested}
    batches = set()
    for row in stored(sorted(before)) if before else ():
        count, batch = _stored_count(row), row["batch"]
        so_far = counts.get((row["check_id"], before[batch], row["segment"]))
        if so_far is None or count is None:
            continue
        # A batch that said nothing has only handed the count on; what passed begins anew.
        silent = row["status"] in _SILENT_TEXTS
        if count != (so_far if silent else so_far + 1) and (silent or count > 0):
            batches.add(batch)
    return sorted(batches, key=batch_order)


def count_of(row: Mapping[str, Any]) -> int:
    """How many in a row a stored verdict counted.

    One of before the check had the setting is a row of one.
    """
    count = _stored_count(row)
    return int(row["status"] == Status.FAIL.value) if count is None else count


def _stored_count(row: Mapping[str, Any]) -> int | None:
    count = json.loads(row["details"] or "{}").get(_IN_A_ROW)
    return None if count is None else int(count)
