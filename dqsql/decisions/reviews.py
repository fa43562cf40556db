"""What people's verdicts on batches mean: which counts, and what follows from it.

A review says whether a batch belongs to the history that monitors learn from and to cumulative
metrics. It stands when the batch is checked again, until that finds nothing any more (see
`dqsql.decisions.lifecycle.batch_statuses`), or another or worse failure than what was accepted.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from dqsql.decisions.cadence import misses_next
from dqsql.decisions.lifecycle import REVIEWED, accepted_findings
from dqsql.errors import StorageError
from dqsql.model.batches import batch_order
from dqsql.model.results import (
    ACKNOWLEDGED,
    MUTED,
    OPEN,
    RESOLVED,
    BatchRecord,
    BatchStatus,
    MetricValue,
    Result,
    Status,
    distance_outside,
)
from dqsql.model.tables import FINDINGS, REVIEWS
from dqsql.model.wording import plural

Row = Mapping[str, Any]

_METRIC = ("column_name", "metric", "parameters", "scope")

# Sums of the same numbers in another order differ by less, relatively.
_SAME = 1e-9
# The name of the batch of a run, which says when it began.
_OF_RUN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


def newest_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The newest row of dq_reviews about each batch, by model and batch."""
    newest_by_model: dict[str, dict[str, Mapping[str, Any]]] = {}
    # By SQL a row may come without a time.
    for row in sorted(rows, key=lambda r: (r["at"] is not None, r["at"] or 0)):
        newest_by_model.setdefault(row["model"], {})[row["batch"]] = row
    return newest_by_model


def standing(
    reviews: Mapping[str, Row],
    ledger: Mapping[str, BatchRecord],
    failing: Callable[[Collection[str]], Collection[str]],
) -> dict[str, Row]:
    """The reviews that still say something of their batches.

    A batch that was checked again, and is not what the review made of it, was repaired since. So
    was one that was accepted in spite of its failures and has none now: should it fail again, that
    is another failure. `failing` gives those of some batches whose verdicts have a finding.
    """
    # Of what could not be computed nobody knows whether it was repaired.
    again = {
        batch: REVIEWED[row["verdict"]]
        for batch, row in reviews.items()
        if _is_older(row, record := ledger.get(batch))
        and record is not None
        and record.status is not BatchStatus.INCOMPLETE
        and not record.uncomputed
    }
    changed = {b for b, made in again.items() if ledger[b].status is not made}
    accepted = [b for b in again.keys() - changed if again[b] is BatchStatus.ACCEPTED]
    spent = changed | ({*accepted} - {*failing(accepted)})
    return {batch: row for batch, row in reviews.items() if batch not in spent}


def of_same_failures(
    reviews: Mapping[str, str],
    results: Iterable[Result],
    stored: Callable[[Collection[str]], Iterable[Row]],
) -> Mapping[str, str]:
    """The reviews without acceptances of batches that fail otherwise, or worse, than before.

    A person accepted what failed then, and what grows old meanwhile. `stored` gives the rows of
    dq_results of some batches.
    """
    failing = [
        r
        for r in results
        if r.status is Status.FAIL and reviews.get(r.batch or "") == "accept" and not misses_next(r)
    ]
    if not failing:
        return reviews
    before = stored({r.batch for r in failing if r.batch is not None})
    known = {
        (r["batch"], r["check_id"], r["segment"]): r
        for r in before
        if r["status"] == Status.FAIL.value
    }
    spent = {r.batch for r in failing if _is_worse(r, known.get((r.batch, r.check_id, r.segment)))}
    return {batch: verdict for batch, verdict in reviews.items() if batch not in spent}


def _is_worse(result: Result, before: Row | None) -> bool:
    """Whether a failure is another one than was there before, or of a value further off."""
    if before is None:
        return True
    now, then = result.observed, before["observed"]
    if now is None or then is None:
        # Of several values, or of a text.
        return (now, result.message) != (then, before["message"])
    if _alike(now, then):
        return False
    outside = _outside(now, result.lower, result.upper)
    was_outside = _outside(then, before["lower_bound"], before["upper_bound"])
    # No distance is known, or it is one on the other side.
    is_other = 0 in (outside, was_outside) or (outside > 0) is not (was_outside > 0)
    return is_other or not abs(outside) <= abs(was_outside)


def _outside(value: float, lower: float | None, upper: float | None) -> float:
    """How far a value lies above its bounds, or below if negative; NaN of what is no number."""
    if math.isnan(value):
        return value
    below = distance_outside(value, lower, None)
    return -below if below else distance_outside(value, None, upper)


def _alike(now: float | None, then: float | None) -> bool:
    """Whether two values are the same; what is no number (null or NaN) is so here."""
    a, b = (math.nan if v is None else v for v in (now, then))
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_SAME)


def changed_batches(values: Iterable[MetricValue], stored: Iterable[Row]) -> frozenset[str]:
    """The batches of which some value is another one than is stored (rows of dq_metrics)."""
    known = {(r["batch"], r["segment"], *(r[name] or "" for name in _METRIC)): r for r in stored}
    changed: set[str] = set()
    for value in values:
        metric = (value.column or "", value.metric, value.parameters, value.scope)
        row = known.get((value.batch, value.segment, *metric))
        # A metric that is new says nothing of what was reviewed.
        is_new = row is None and value.segment is None
        if not is_new and (row is None or not _is_same(value, row)):
            changed.add(value.batch)
    return frozenset(changed)


def _is_same(value: MetricValue, row: Row) -> bool:
    return _alike(value.value, row["value"]) and (value.value_text, value.sample_size) == (
        row["value_text"],
        row["sample_size"],
    )


def _is_older(review: Row, record: BatchRecord | None) -> bool:
    """Whether a batch was checked after its review; by SQL a row may come without a time."""
    at = review["at"]
    checked = None if record is None else record.checked_at
    return at is not None and checked is not None and at < checked


def waiting_batches(ledger: Iterable[Row], *, replaced: bool) -> list[str]:
    """The batches of a ledger that wait for a review, oldest first.

    If a model's rows are `replaced`, as without `batch_by` each run reads all of them anew, these
    are only those since the newest accepted one: what earlier ones found is gone from the data.
    Batches of streams, which are not called by a time, are not replaced.
    """
    newest_first = sorted(ledger, key=lambda row: batch_order(row["batch"]), reverse=True)
    if replaced and all(_OF_RUN.fullmatch(row["batch"]) for row in newest_first):
        newest_first = list(
            takewhile(lambda r: r["status"] != BatchStatus.ACCEPTED.value, newest_first)
        )
    return [r["batch"] for r in newest_first[::-1] if r["status"] == BatchStatus.FLAGGED.value]


def flagged_last(ledger: Mapping[str, BatchRecord]) -> tuple[str, ...]:
    """The batches that were flagged by the last run, or the one that checked the newest batch.

    Those that nobody has reviewed. A retry of that run finds nothing new, and is to end as it did.
    """
    if not ledger:
        return ()
    newest = max(ledger.values(), key=lambda r: batch_order(r.batch))
    last = max(ledger.values(), key=lambda r: (r.checked_at is not None, r.checked_at))
    # Not by the run, which is another one where only the age of the newest batch was looked at.
    times = {newest.checked_at, last.checked_at}
    flagged = (
        r.batch
        for r in ledger.values()
        if r.checked_at in times and r.status is BatchStatus.FLAGGED
    )
    return tuple(sorted(flagged, key=batch_order))


_STATES = (OPEN, ACKNOWLEDGED, MUTED, RESOLVED)


@dataclass(frozen=True)
class Extent:
    """Which of the batches that wait for a review are meant: `first` and `last` are inclusive."""

    first: str | None = None
    last: str | None = None
    every: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether none is meant."""
        return self.first is None and self.last is None and not self.every

    def of(self, waiting: Iterable[str]) -> list[str]:
        """Those of some batches that wait."""
        return [] if self.is_empty else [b for b in waiting if self._holds(b)]

    def _holds(self, batch: str) -> bool:
        early = self.first is not None and batch_order(batch) < batch_order(self.first)
        late = self.last is not None and batch_order(batch) > batch_order(self.last)
        # The hours of the last day belong to it.
        return not early and (not late or batch.startswith(f"{self.last} "))


def refuse_other_states(findings: Iterable[Row]) -> None:
    """Raise StorageError for a finding, changed by SQL, whose state is none."""
    for row in findings:
        if row["state"] not in _STATES:
            raise StorageError(
                f"{FINDINGS.name} has the state {row['state']!r} of {row['finding_id']}",
                hint=f"the state is one of {', '.join(_STATES)}",
            )


def refuse_other_words(model: str, reviews: Mapping[str, Row]) -> None:
    """Raise StorageError for a review, written by SQL, that neither accepts nor rejects."""
    for batch, row in reviews.items():
        if row["verdict"] not in REVIEWED:
            raise StorageError(
                f"{REVIEWS.name} has the verdict {row['verdict']!r} on {model} {batch}",
                hint=f"the verdict is one of {', '.join(REVIEWED)}",
            )


def follow(ledger: dict[str, BatchRecord], reviews: Mapping[str, Row]) -> bool:
    """Let reviews that are younger than the verdicts change a ledger; whether any did."""
    changed = False
    for batch, row in reviews.items():
        record = ledger.get(batch)
        # What another `batch_by` has made is no batch of today, whatever was said of it.
        if record is None or record.status in (BatchStatus.INCOMPLETE, BatchStatus.RETIRED):
            continue
        after = REVIEWED[row["verdict"]]
        if record.status is after or row["at"] is None or _is_older(row, record):
            continue
        counted = after is BatchStatus.ACCEPTED
        ledger[batch] = replace(record, status=after, counted=counted)
        changed = True
    return changed


def ended_with(
    model: str, ledger: Mapping[str, BatchRecord], findings: Sequence[Mapping[str, Any]]
) -> str:
    """What ends with a model that is gone and what stays; `findings` are rows of dq_findings."""
    ended = []
    if unresolved := sum(row["state"] != RESOLVED for row in findings):
        verb = "is" if unresolved == 1 else "are"
        ended.append(f"{plural(unresolved, 'finding')} of it {verb} resolved")
    if waiting := sum(r.status is BatchStatus.FLAGGED for r in ledger.values()):
        verb = "needs" if waiting == 1 else "need"
        ended.append(f"{plural(waiting, 'batch', 'batches')} of it {verb} no review any more")
    history = f"its history of {plural(len(ledger), 'batch', 'batches')} stays"
    return f"{model} is no longer in the project: {', '.join([*ended, history])}"


def without_accepted(rows: list[Row], reviews: Mapping[str, Row], now: dt.datetime) -> list[Row]:
    """The findings of a model without those that are about batches only that a person accepted."""
    accepted = {b: r for b, r in reviews.items() if r["verdict"] == "accept"}
    if not rows or not accepted:
        return rows
    # By SQL a row may come without a time.
    newest = max(accepted.values(), key=lambda r: (r["at"] is not None, r["at"] or now))
    return list(
        accepted_findings(
            rows, accepted, author=newest["author"], reason=newest["reason"] or "", now=now
        )
    )
