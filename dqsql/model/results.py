"""What a run produces: metric values, verdicts, and the summary of the run."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any

from dqsql.errors import CheckFailedError, DqsqlError
from dqsql.model.project import NoData, Severity
from dqsql.model.wording import gone_rows, plural

if TYPE_CHECKING:
    import pandas

    from dqsql.model.plan import Check

# Fields of a verdict that are numbers.
_NUMBERS = ("observed", "lower", "upper", "score", "warn_lower", "warn_upper")
# What a notebook shows of findings, of how many of them, and how many an exception names.
_SHOWN = ("status", "model", "batch", "segment", "check_name", "message")
_MAX_SHOWN, _MAX_TOLD = 50, 20


class Status(StrEnum):
    """The verdict of a check on one batch and segment.

    `NO_DATA` means that the metric is null because there was nothing to measure; `ERROR` that the
    check could not be evaluated; `SKIPPED` that it was not meant to be (disabled, or a monitor
    with too short a history).
    """

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    NO_DATA = "no_data"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def words(self) -> str:
        """The status in a sentence, where `error` would read as the severity of that name."""
        return "could not be computed" if self is Status.ERROR else self.value.replace("_", " ")


# The worst first.
STATUS_ORDER = (Status.ERROR, Status.FAIL, Status.WARN, Status.NO_DATA, Status.SKIPPED, Status.PASS)
# What a person should look at.
FINDINGS = frozenset({Status.WARN, Status.FAIL, Status.ERROR, Status.NO_DATA})
# The detector of a check that somebody wrote; those of monitors are their kinds.
CONSTRAINT = "constraint"
# The states of a row of `dq_findings`.
OPEN, ACKNOWLEDGED, MUTED, RESOLVED = "open", "acknowledged", "muted", "resolved"


def state_text(finding: Mapping[str, Any]) -> str:
    """The state of a row of `dq_findings`, with the day until which it is muted.

    >>> state_text({"state": "muted", "muted_until": datetime(2025, 3, 1)})
    'muted until 2025-03-01'
    """
    until = finding["muted_until"] if finding["state"] == MUTED else None
    return str(finding["state"]) if until is None else f"{finding['state']} until {until:%Y-%m-%d}"


def worst_status(statuses: Iterable[Status]) -> Status:
    """Return the worst of the statuses, `pass` when there are none."""
    return min(statuses, key=STATUS_ORDER.index, default=Status.PASS)


class BatchStatus(StrEnum):
    """Whether a batch belongs to the history that monitors and cumulative metrics use.

    An `INCOMPLETE` batch is checked again by the next run: a run was killed, or rows are held back
    until checks that could not be evaluated can be. A `RETIRED` one was made by another `batch_by`
    than the model has now.
    """

    ACCEPTED = "accepted"
    FLAGGED = "flagged"
    REJECTED = "rejected"
    INCOMPLETE = "incomplete"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of one batch and segment: a row of `dq_metrics`.

    `value` is the number (booleans as 0 and 1), `value_text` the value of dates, strings and the
    like; both are None when the metric is null. `sample_size` is the number of rows.
    """

    model: str
    batch: str
    segment: str | None
    column: str | None
    metric: str
    parameters: str
    scope: str
    value: float | None
    value_text: str | None
    sample_size: int | None


@dataclass(frozen=True)
class MetricProfile:
    """A distribution in bounded size: quantiles of numbers, or frequent values with counts."""

    quantiles: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    counts: tuple[float, ...] = ()
    other: float = 0.0

    @classmethod
    def from_json(cls, text: str) -> MetricProfile:
        """The profile that a metric macro wrote."""
        data = json.loads(text)
        if isinstance(data, list):
            return cls(quantiles=tuple(float(q) for q in data))
        return cls(
            labels=tuple(data["values"]),
            counts=tuple(float(n) for n in data["counts"]),
            other=float(data["other"]),
        )


@dataclass(frozen=True)
class CheckOutcome:
    """What Spark said of one check on one state row: `holds` is None when a metric is null.

    `spotless` is whether its second threshold, which only warns, holds, too.
    """

    check: Check
    batch: str
    segment: str | None
    holds: bool | None
    observed: tuple[MetricValue, ...]
    spotless: bool | None = True


@dataclass(frozen=True, slots=True)
class Result:
    """One verdict: a row of `dq_results`. `details` is JSON-serialisable.

    `warn_lower` and `warn_upper` are the bounds that only warn, of a check with two thresholds.
    """

    check_id: str
    model: str
    batch: str | None
    segment: str | None
    column: str | None
    check_name: str
    detector: str
    status: Status
    severity: Severity
    message: str
    observed: float | None = None
    observed_text: str | None = None
    lower: float | None = None
    upper: float | None = None
    score: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    warn_lower: float | None = None
    warn_upper: float | None = None

    @property
    def is_finding(self) -> bool:
        """Whether a person should look at it."""
        return self.status in FINDINGS

    @property
    def id(self) -> str:
        """What names this verdict in all runs; see `result_id`."""
        return result_id(self.check_id, self.batch, self.segment)


def distance_outside(observed: float | None, lower: float | None, upper: float | None) -> float:
    """How far a value lies outside its bounds; 0 inside, and where it is not known."""
    if observed is None:
        return 0.0
    above = 0.0 if upper is None else observed - upper
    return max(0.0, above, 0.0 if lower is None else lower - observed)


def result_id(check_id: str, batch: str | None, segment: str | None) -> str:
    """The name of a verdict: `check_id@batch`, for a segment `check_id@batch/segment`.

    Checking a batch again gives its verdicts the same names.
    """
    about = "" if segment is None else f"/{segment}"
    return f"{check_id}@{batch or ''}{about}"


@dataclass(frozen=True, slots=True)
class RankedFinding:
    """A finding, and the one in the same batch that explains it; None for a root symptom."""

    result: Result
    cause: Result | None = None


@dataclass(frozen=True, slots=True)
class BatchFinding:
    """All that was found in one batch of a model, as one finding.

    Attributes:
        model: name of the check model.
        batch: name of the batch.
        severity: the worst of the findings'.
        findings: root symptoms first; at least one.
        segments: the segments that explain it; empty when it is about all rows.
    """

    model: str
    batch: str
    severity: Severity
    findings: tuple[RankedFinding, ...]
    segments: tuple[str, ...] = ()

    @property
    def roots(self) -> tuple[Result, ...]:
        """The findings that no other one explains."""
        return tuple(f.result for f in self.findings if f.cause is None)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """How many rows of a batch each table has, and which version of the tables had them first.

    Attributes:
        metrics: rows in `dq_metrics`.
        results: rows in `dq_results`.
        states: rows in the model's state table.
        versions: versions by the name of a table; empty where tables have none.
    """

    metrics: int
    results: int
    states: int
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A row of `dq_batches`: a batch of a model whose verdicts are stored.

    `counted` is whether no check of scope `delta` and severity error failed on the batch (or a
    review accepted it nevertheless); None where it is not known, as for batches that are about to
    be checked again.

    `stored` is what the ledger vouches for; None of a batch that is about to be checked again, of
    which the tables may have anything.

    `start` and `end` are the first moment of the batch and of the next one, where it is a time.
    `quarantined` is how many of its rows are quarantined; None where rows were not split.
    `uncomputed` is how many verdicts on it are errors. `grown_at` is when the batch was first found
    with about `grown_rows` rows, as what the model means now, and `lacked_at` a check at which it
    had ten elevenths of them at most; None if it has not grown. `judged_from` is when monitors
    judge it that wait until it is full; None if they have.
    """

    model: str
    batch: str
    status: BatchStatus
    rows: int
    run_id: str
    fingerprint: str
    counted: bool | None = None
    checked_at: datetime | None = None
    stored: StoredRows | None = None
    start: datetime | None = None
    end: datetime | None = None
    quarantined: int | None = None
    uncomputed: int = 0
    grown_at: datetime | None = None
    grown_rows: int | None = None
    lacked_at: datetime | None = None
    judged_from: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether the batch belongs to the cumulative metrics of later batches.

        It does unless a review rejected it or a check of scope `delta` and severity error failed
        on it or one of its segments. Cumulative checks and monitors have no say in it: what they
        find depends on other batches, and the rule must not depend on the order in which batches
        are processed. The batch under test always belongs to its own cumulative metrics.
        """
        if self.status in (BatchStatus.REJECTED, BatchStatus.RETIRED):
            return False
        return self.status is BatchStatus.ACCEPTED if self.counted is None else self.counted

    @property
    def reopened(self) -> BatchRecord:
        """The record of a batch that has to be checked again."""
        return replace(self, status=BatchStatus.INCOMPLETE, counted=None, stored=None)


# `ModelResult.skipped` of a model that the run did not come to, since another one failed or lost
# Spark, or since somebody ended the run.
FAIL_FAST, INTERRUPTED = "fail fast", "the run did not come to its end"
CONNECTION_LOST = "the connection to Spark is lost"


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What a run did for one check model.

    `error` is set when the model could not be checked, or some of its annotations could not be
    read; these have results of status error then, beside those of the others. `groups` are the
    findings put together by batch, oldest first. `waiting` are the batches that the run before
    flagged and that nobody has reviewed, where there was nothing new to check. `columns` are the
    types of the SELECT's columns, by name. `phases` are the seconds that its phases took;
    `bytes_read` is what Spark read meanwhile, where that is known. `returned` are the rows that the
    queries of failing tests of dbt return, by check, where these are not the failing rows. `gone`
    is how many batches were checked before, where the model has no rows at all now; `no_data` says
    what that means. `empty` are batches that were asked for by name and have no rows, so that
    nothing of them is stored. `unbatched` rows belong to no batch. `unfinished` batches were being
    checked when a run was killed, and have no rows any more.
    """

    model: str
    path: str
    batches: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    checks: int = 0
    metrics: int = 0
    scans: int = 0
    rows: int = 0
    seconds: float = 0.0
    error: DqsqlError | None = None
    skipped: str | None = None
    notes: tuple[str, ...] = ()
    groups: tuple[BatchFinding, ...] = ()
    waiting: tuple[str, ...] = ()
    gone: int | None = None
    no_data: NoData = NoData.WARN
    empty: tuple[str, ...] = ()
    unbatched: int = 0
    unfinished: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    bytes_read: int | None = None
    returned: Mapping[str, int] = field(default_factory=dict)

    def count(self, *statuses: Status) -> int:
        """Number of results with one of the given statuses."""
        return sum(r.status in statuses for r in self.results)

    @property
    def owed(self) -> list[str]:
        """What makes the run end as if it had failed, beside verdicts."""
        reasons = []
        if self.gone is not None and self.no_data is NoData.ERROR:
            reasons.append(gone_rows(self.gone))
        if self.waiting:
            reasons.append(
                f"nobody has reviewed {', '.join(self.waiting)}, which an earlier run flagged:"
                f" dqsql review list --select {shlex.quote(self.model)}"
            )
        if self.unfinished:
            reasons.append(
                f"not checked to the end, and without rows now: {', '.join(self.unfinished)}"
            )
        return reasons

    @property
    def left_out(self) -> bool:
        """Whether the run ended before it came to the model."""
        return self.skipped in (CONNECTION_LOST, FAIL_FAST, INTERRUPTED)

    @property
    def status(self) -> Status:
        """The worst that happened: error, fail, warn, skipped or pass."""
        if self.error is not None or self.count(Status.ERROR):
            return Status.ERROR
        if self.count(Status.FAIL) or self.owed:
            return Status.FAIL
        lacks_rows = self.gone is not None and self.no_data is not NoData.IGNORE
        if self.count(Status.WARN, Status.NO_DATA) or self.unbatched or lacks_rows:
            return Status.WARN
        return Status.SKIPPED if self.skipped else Status.PASS


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """The outcome of `dqsql run`, returned by the Python API.

    `exit_code` is 0 when everything passed (or only warned), 1 when a check of severity error
    failed or the batches on which it did still wait for a review, 2 when dqsql could not do its
    work. `phases` are the seconds of the run itself by `model.events`; those of models are theirs.
    """

    run_id: str
    project: str
    target: str
    started_at: datetime
    finished_at: datetime
    models: tuple[ModelResult, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What a notebook shows: `RunResult(fail: 3 models, 12 batches, 780 verdicts, 2 fail)`."""
        return f"RunResult({'; '.join([self.summary, *self.warnings[:1]])})"

    @property
    def summary(self) -> str:
        """What the run did, in a few words."""
        counts = Counter(r.status for r in self.results)
        broken = sum(m.error is not None and not m.batches for m in self.models)
        parts = [
            plural(len(self.models), "model"),
            plural(sum(len(m.batches) for m in self.models), "batch"),
            plural(len(self.results), "verdict"),
            *(f"{counts[s]:,} {s.words}" for s in STATUS_ORDER if counts[s] and s in FINDINGS),
        ]
        if broken:
            parts.append(f"{plural(broken, 'model')} could not be checked")
        if waiting := sum(len(m.waiting) for m in self.models):
            parts.append(f"{plural(waiting, 'batch')} not reviewed yet")
        return f"{('pass', 'fail', 'error')[self.exit_code]}: {', '.join(parts)}"

    def _repr_html_(self) -> str:
        """The summary and a table of the findings, for notebooks."""
        cells = ([getattr(r, name) for name in _SHOWN] for r in self.findings[:_MAX_SHOWN])
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(str(c or ''))}</td>" for c in row) + "</tr>"
            for row in cells
        )
        head = "".join(f"<th>{name.removesuffix('_name')}</th>" for name in _SHOWN)
        rest = len(self.findings) - _MAX_SHOWN
        more = f"<p>and {rest:,} more: <code>.to_pandas()</code></p>" if rest > 0 else ""
        table = f"<table><tr>{head}</tr>{rows}</table>{more}" if rows else ""
        troubles = "".join(f"<pre>{escape(line)}</pre>" for line in self._troubles())
        return f"<p><b>{escape(self.summary)}</b></p>{troubles}{table}"

    def _troubles(self) -> list[str]:
        """What is wrong with models as a whole, so that no verdict tells it."""
        lines = [f"{m.model}: {m.error}" for m in self.models if m.error is not None]
        lines += [f"{m.model}: {text}" for m in self.models for text in m.owed]
        return [*lines, *self.warnings]

    def to_pandas(self) -> pandas.DataFrame:
        """All verdicts as a pandas DataFrame, one row each; `details` are left out."""
        import pandas

        names = [f.name for f in fields(Result) if f.name != "details"]
        table = pandas.DataFrame(
            [[getattr(r, name) for name in names] for r in self.results], columns=names
        )
        # Where none is known they can be compared all the same.
        return table.astype(dict.fromkeys(_NUMBERS, float))

    def raise_for_status(self) -> None:
        """Raise CheckFailedError unless the exit code is 0: for scripts and tests."""
        if self.exit_code == 0:
            return
        bad = [r for r in self.results if r.status in (Status.FAIL, Status.ERROR)]
        lines = [f"{r.id}: {r.message or r.status.value}" for r in bad[:_MAX_TOLD]]
        lines += self._troubles()
        if len(bad) > _MAX_TOLD:
            lines.append(f"and {len(bad) - _MAX_TOLD:,} more")
        error = CheckFailedError("\n".join([self.summary, *lines]))
        error.findings = self.findings
        raise error

    @property
    def seconds(self) -> float:
        """Elapsed time of the run in seconds."""
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def results(self) -> tuple[Result, ...]:
        """All verdicts of all models."""
        return tuple(r for m in self.models for r in m.results)

    @property
    def findings(self) -> tuple[Result, ...]:
        """The verdicts that a person should look at."""
        return tuple(r for r in self.results if r.is_finding)

    @property
    def exit_code(self) -> int:
        """0, 1 or 2; see the class."""
        worst = {m.status for m in self.models}
        if Status.ERROR in worst:
            return 2
        return 1 if Status.FAIL in worst else 0
