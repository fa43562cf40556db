"""What the report shows, as compact data: its pages are drawn of it in the browser, on demand.

Verdicts of a check are one letter a batch, values one number a batch. The part of each model is
packed by itself, so that opening the file reads only the overview.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.results import (
    FINDINGS,
    RESOLVED,
    BatchFinding,
    BatchStatus,
    Result,
    Status,
    state_text,
    worst_status,
)
from dqsql.model.wording import in_segments
from dqsql.report.findings import LONG, check_label, headline, label_of, observation
from dqsql.report.profile import ProfileTable
from dqsql.report.series import MetricValues, Record, finite, spark_of
from dqsql.report.text import printable

# The letter of a status in a strip, its first one; a batch without a verdict is a dot.
LETTERS = {status: status.value[0] for status in Status}
# The letters of batches that are not learned from.
_LEDGER = {BatchStatus.FLAGGED.value: "f", BatchStatus.REJECTED.value: "r"}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is stored of one model.

    `batches` are rows of dq_batches, oldest first; `results` and `groups` are of these batches;
    `waiting` are the failures of all batches that wait for a review, these or others; `reviews` are
    the newest by batch; `dimension` is its row of dq_models, `checks`, `columns` and
    `findings` its rows of dq_checks, dq_columns and dq_findings, `failures` those of dq_failures,
    `costs` those of dq_model_runs, oldest first. `removed` are the ids of checks that it had, and
    has no more. `sql` is the text of its file, or its SELECT where it has no file (`file` is empty
    then); `profile` the one that was kept, if any.
    """

    name: str
    batches: Sequence[Mapping[str, Any]]
    results: Sequence[Result]
    groups: Sequence[BatchFinding]
    values: MetricValues
    programs: Sequence[Mapping[str, Any]]
    reviews: Mapping[str, Mapping[str, Any]]
    dimension: Mapping[str, Any]
    checks: Sequence[Mapping[str, Any]] = ()
    columns: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    failures: Sequence[Mapping[str, Any]] = ()
    costs: Sequence[Mapping[str, Any]] = ()
    removed: Collection[str] = ()
    waiting: Mapping[str, Sequence[Result]] = field(default_factory=dict)
    sql: str = ""
    file: str = ""
    profile: ProfileTable | None = None

    @property
    def shown_findings(self) -> list[Mapping[str, Any]]:
        """The findings that are not resolved, or about one of the batches."""
        shown = {str(row["batch"]) for row in self.batches}
        return [
            row
            for row in self.findings
            if row["state"] != RESOLVED or not shown.isdisjoint(row["batches"])
        ]

    @property
    def gone_checks(self) -> set[str]:
        """The ids of checks with verdicts that are checked no more: removed, or since mended."""
        if not self.checks:
            return set()
        newest = str(self.batches[-1]["batch"]) if self.batches else None
        checked = {r.check_id for r in self.results if r.batch == newest}.difference(self.removed)
        in_force = {row["check_id"] for row in self.checks}
        return {r.check_id for r in self.results} - checked - in_force


@dataclass(frozen=True, slots=True)
class Page:
    """The whole report. `period` is what it covers, in words.

    `profiles` are those of relations that are none of the models.
    """

    project: str
    target: str
    made_at: datetime
    version: str
    period: str
    models: tuple[ModelFacts, ...]
    profiles: tuple[ProfileTable, ...] = ()


def overview_record(page: Page) -> Record:
    """What the first page needs: of each model its days, of each finding a line."""
    findings = [f for m in page.models for f in finding_lines(m)]
    return {
        "project": printable(page.project),
        "target": printable(page.target),
        "made": page.made_at.isoformat(timespec="minutes"),
        "version": page.version,
        "period": page.period,
        "models": [_summary(m) for m in page.models],
        "findings": findings,
        "waiting": [w for m in page.models for w in waiting_lines(m)],
        "profiles": [profile_record(p) for p in page.profiles],
    }


def _summary(facts: ModelFacts) -> Record:
    dimension = facts.dimension
    by_batch = by_key((r.batch or "", r.status) for r in facts.results)
    names = [str(row["batch"]) for row in facts.batches]
    return {
        "name": printable(facts.name),
        "path": printable(dimension.get("path") or ""),
        "owner": printable(dimension.get("owner") or ""),
        "description": printable(dimension.get("description") or ""),
        "tags": [printable(t) for t in dimension.get("tags") or ()],
        "batchBy": printable(dimension.get("batch_by") or ""),
        "batches": [printable(n) for n in names],
        "strip": "".join(letter_of(by_batch.get(n, ())) for n in names),
        "ledger": "".join(_LEDGER.get(str(row["status"]), ".") for row in facts.batches),
        "passed": [_passed(by_batch.get(n, ())) for n in names],
        "checks": len({r.check_id for r in facts.results} - facts.gone_checks),
        "columns": len(facts.columns),
        "covered": sum(bool(c["checks"]) for c in facts.columns),
        "cost": _cost(facts.costs),
        "error": error_record(facts.costs),
    }


def _passed(statuses: Iterable[Status]) -> list[int]:
    """How many verdicts are passes, and how many are passes or findings."""
    judged = [s for s in statuses if s in (Status.PASS, *FINDINGS)]
    return [judged.count(Status.PASS), len(judged)]


def error_record(costs: Sequence[Mapping[str, Any]]) -> Record | None:
    """Why the newest run could not check a model, or a part of it, and since when that is so."""
    failed = list(takewhile(lambda cost: cost["error"], reversed(costs)))
    if not failed:
        return None
    last, first = failed[0], failed[-1]
    return {
        "text": printable(last["error"]),
        "since": _moment(first["started_at"]),
        "whole": not last["batches"],
    }


def _cost(costs: Sequence[Mapping[str, Any]]) -> Record | None:
    """What the newest run that checked something took, and the seconds of the runs before."""
    worked = [c for c in costs if c["batches"]]
    if not worked:
        return None
    last = worked[-1]
    names = ("seconds", "scans", "rows", "bytes", "batches")
    phases = ("compile", "discovery", "scan", "decide")
    return {
        **{name: last[name] for name in names},
        "phases": [[p, last[f"{p}_seconds"] or 0] for p in phases],
        "runs": len(costs),
    }


def waiting_lines(facts: ModelFacts) -> Iterator[Record]:
    """The batches of a model that wait for a review, those on which the same failed together."""
    alike = by_key(
        (frozenset(r.check_id for r in facts.waiting[batch]), batch)
        for batch in sorted(facts.waiting, key=batch_order)
    )
    explained = causes_of(facts.groups)
    for batches in alike.values():
        found = sorted(facts.waiting[batches[-1]], key=lambda r: r.segment or "")
        found.sort(key=lambda r: r.id in explained)
        by_check = by_key((r.check_id, r) for r in found)
        yield {
            "model": printable(facts.name),
            "batches": [printable(b) for b in batches],
            # What a check found in the batch as a whole, else in the first of its segments.
            "failed": [[printable(c), headline(v[0], v)] for c, v in by_check.items()],
        }


def open_findings(page: Page) -> int:
    """How many findings of the report are not resolved."""
    return sum(f["state"] != RESOLVED for m in page.models for f in finding_lines(m))


def finding_lines(facts: ModelFacts) -> list[Record]:
    """The findings of a model that are not resolved, or about one of its batches in the report."""
    names = [str(row["batch"]) for row in facts.batches]
    shown = set(names)
    by_check = by_key((r.check_id, r) for r in facts.results)
    found = by_key(((r.check_id, r.batch), r) for r in facts.results if r.status in FINDINGS)
    causes = causes_of(facts.groups)
    dimensions = {row["check_id"]: row for row in facts.checks}
    lines = []
    for row in facts.shown_findings:
        seen = [b for b in row["batches"] if b in shown]
        # Of a batch with segments, the verdict on all rows comes first.
        verdicts = found.get((row["check_id"], seen[-1]), ()) if seen else ()
        newest = verdicts[0] if verdicts else None
        dimension = dimensions.get(row["check_id"], {})
        cause = None if newest is None else causes.get(newest.id)
        lines.append(
            {
                "id": printable(row["finding_id"]),
                "check": printable(row["check_id"]),
                "model": printable(facts.name),
                "column": printable(row["column_name"] or ""),
                "label": check_label(row["check_name"], row["column_name"]),
                "severity": row["severity"],
                "status": row["status"],
                "state": row["state"],
                "state_text": state_text(row),
                "message": _message(row, verdicts),
                "batches": [printable(b) for b in row["batches"]],
                "opened": _moment(row["opened_at"]),
                "resolved": printable(row["resolved_batch"] or "") or _moment(row["resolved_at"]),
                "author": printable(row["author"] or ""),
                "reason": printable(row["reason"] or ""),
                "assigned": printable(row.get("assigned_to") or ""),
                "impact": printable(row.get("impact") or ""),
                "owner": printable(facts.dimension.get("owner") or ""),
                "tags": sorted(
                    {
                        *map(printable, facts.dimension.get("tags") or ()),
                        *map(printable, dimension.get("tags") or ()),
                    }
                ),
                "score": newest.score if newest and finite(newest.score) is not None else None,
                "cause": None if cause is None else [printable(cause.check_id), label_of(cause)],
                "spark": None
                if newest is None
                else spark_of(newest, by_check[row["check_id"]], names, facts.values),
            }
        )
    return lines


def _message(row: Mapping[str, Any], verdicts: Sequence[Result]) -> str:
    """What was seen, what was expected unless the check's name says it, and in which segments.

    `verdicts` are those on its newest batch, if that is in the report.
    """
    if not verdicts:
        return printable(row["message"] or "")
    newest = verdicts[0]
    text = observation(newest, LONG).removesuffix(f", expected {printable(row['check_name'])}")
    return text + printable(in_segments(newest.segment, (r.segment for r in verdicts)))


def causes_of(groups: Iterable[BatchFinding]) -> dict[str, Result]:
    """The verdicts of other checks that explain findings, by the findings' ids."""
    return {
        f.result.id: f.cause
        for group in groups
        for f in group.findings
        if f.cause is not None and f.cause.check_id != f.result.check_id
    }


def _moment(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


def letter_of(statuses: Iterable[Status]) -> str:
    """The worst status; a monitor that still waits for history does not hide what others say."""
    distinct = set(statuses)
    return LETTERS[worst_status(distinct - {Status.SKIPPED} or distinct)] if distinct else "."


def profile_record(profile: ProfileTable) -> Record:
    """A profile as a table."""
    return {
        "relation": profile.relation,
        "size": profile.size,
        "made": profile.made_at,
        "columns": [
            [
                *(c.name, c.kind, c.filled, c.distinct, c.low, c.mean, c.high, c.frequent),
                [round(s, 4) for s in c.shares],
            ]
            for c in profile.columns
        ],
    }
