"""What the report shows, as compact data: its pages are drawn of it in the browser, on demand.

Verdicts of a check are one letter a batch, values one number a batch. The part of each model is
packed by itself, so that opening the file reads only the overview.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dqsql.model.metric_traits import metric_words
from dqsql.model.results import STATUS_ORDER, BatchFinding, Result, Status, worst_status
from dqsql.report.findings import check_label, observation
from dqsql.report.profile import ProfileTable
from dqsql.report.text import printable, shorten

# Values by batch of a metric's key: column, metric, parameters, scope.
SeriesKey = tuple[str, str, str, str]
MetricValues = Mapping[SeriesKey, Mapping[str, float | None]]
Record = dict[str, Any]

# The letter of a status in a strip; a batch without a verdict is a dot.
LETTERS = {
    Status.PASS: "p",
    Status.WARN: "w",
    Status.FAIL: "f",
    Status.NO_DATA: "n",
    Status.ERROR: "e",
    Status.SKIPPED: "s",
}
_BAD = (Status.FAIL, Status.WARN, Status.ERROR, Status.NO_DATA)
_MAX_ROWS = 10
# Differences of the largest numbers there are would be infinite.
_LARGEST = 1e300
_MAX_SQL = 20_000
_MAX_MESSAGES = 30
# Segments of a check that are drawn on their own: those in which most was found.
_MAX_SEGMENTS = 5


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is stored of one model.

    `batches` are rows of dq_batches, oldest first; `results` and `groups` are of these batches;
    `reviews` are the newest by batch; `dimension` is its row of dq_models, `checks`, `columns` and
    `findings` its rows of dq_checks, dq_columns and dq_findings, `failures` those of dq_failures,
    `costs` those of dq_model_runs, oldest first. `sql` is its SELECT; `profile` the one that was
    kept, if any.
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
    sql: str = ""
    profile: ProfileTable | None = None


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
        "profiles": [_profile(p) for p in page.profiles],
    }


def model_record(facts: ModelFacts) -> Record:
    """What the pages of one model need."""
    batches = [str(row["batch"]) for row in facts.batches]
    by_check: dict[str, list[Result]] = {}
    for result in facts.results:
        by_check.setdefault(result.check_id, []).append(result)
    dimensions = {row["check_id"]: row for row in facts.checks}
    learned = {row["check_id"]: _learned(row) for row in facts.programs}
    causes = {
        f.result.id: check_label(f.cause.check_name, f.cause.column)
        for g in facts.groups
        for f in g.findings
        if f.cause is not None
    }
    checks = [
        _check(
            verdicts,
            dimensions.get(check_id, {}),
            batches,
            facts.values,
            causes,
            learned.get(check_id),
        )
        for check_id, verdicts in by_check.items()
    ]
    rows: dict[str, list[list[str]]] = {}
    for failure in facts.failures:
        kept = rows.setdefault(failure["check_id"], [])
        if len(kept) < _MAX_ROWS:
            kept.append([printable(str(failure["batch"])), printable(str(failure["row"]))])
    return {
        "batches": [printable(b) for b in batches],
        "rows": [row.get("rows") for row in facts.batches],
        "reviews": {
            printable(b): printable(f"{r['verdict']} by {r['author'] or '?'}: {r['reason']}")
            for b, r in facts.reviews.items()
        },
        "checks": sorted(checks, key=lambda c: (c["rank"], c["column"], c["label"])),
        "columns": [
            [printable(c["column_name"]), c["data_type"], c["checks"]]
            for c in sorted(facts.columns, key=lambda c: c["position"] or 0)
        ],
        "failures": rows,
        "sql": shorten(facts.sql.strip(), _MAX_SQL),
        "profile": None if facts.profile is None else _profile(facts.profile),
    }


def _summary(facts: ModelFacts) -> Record:
    dimension = facts.dimension
    by_batch: dict[str, list[Status]] = {}
    passed: dict[str, list[int]] = {}
    for result in facts.results:
        batch = result.batch or ""
        by_batch.setdefault(batch, []).append(result.status)
        if result.status in (Status.PASS, *_BAD):
            count = passed.setdefault(batch, [0, 0])
            count[0] += result.status is Status.PASS
            count[1] += 1
    names = [str(row["batch"]) for row in facts.batches]
    return {
        "name": printable(facts.name),
        "path": printable(dimension.get("path") or ""),
        "owner": printable(dimension.get("owner") or ""),
        "description": printable(dimension.get("description") or ""),
        "tags": [printable(t) for t in dimension.get("tags") or ()],
        "batchBy": printable(dimension.get("batch_by") or ""),
        "batches": [printable(n) for n in names],
        "strip": "".join(_letter(by_batch.get(n, ())) for n in names),
        "ledger": "".join(str(row["status"])[0] for row in facts.batches),
        "passed": [passed.get(n, [0, 0]) for n in names],
        "checks": len({r.check_id for r in facts.results}),
        "columns": len(facts.columns),
        "covered": sum(bool(c["checks"]) for c in facts.columns),
        "cost": _cost(facts.costs),
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


def finding_lines(facts: ModelFacts) -> list[Record]:
    """The findings of a model that are about one of its batches in the report."""
    shown = {str(row["batch"]) for row in facts.batches}
    verdicts = {(r.check_id, r.batch): r for r in facts.results if r.status in _BAD}
    dimensions = {row["check_id"]: row for row in facts.checks}
    lines = []
    for row in facts.findings:
        seen = [b for b in row["batches"] if b in shown]
        if not seen:
            continue
        newest = verdicts.get((row["check_id"], seen[-1]))
        dimension = dimensions.get(row["check_id"], {})
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
                "message": observation(newest) if newest else printable(row["message"] or ""),
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
                "score": newest.score if newest and _finite(newest.score) is not None else None,
            }
        )
    return lines


def _moment(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


def _check(
    verdicts: Sequence[Result],
    dimension: Mapping[str, Any],
    batches: Sequence[str],
    values: MetricValues,
    causes: Mapping[str, str],
    learned: Record | None,
) -> Record:
    first = verdicts[0]
    statuses: dict[str, list[Status]] = {}
    for result in verdicts:
        statuses.setdefault(result.batch or "", []).append(result.status)
    letters = [_letter(statuses.get(b, ())) for b in batches]
    bad = [r for r in verdicts if r.status in _BAD]
    newest = [r for r in bad][-_MAX_MESSAGES:]
    return {
        "id": printable(first.check_id),
        "label": check_label(first.check_name, first.column),
        "name": printable(first.check_name),
        "column": printable(first.column or ""),
        "detector": first.detector,
        "severity": first.severity.value,
        "rank": _rank(statuses.get(batches[-1], ()) if batches else (), bool(bad)),
        "strip": "".join(letters),
        "expression": printable(
            str(dimension.get("expression") or first.details.get("expression") or first.check_name)
        ),
        "where": printable(dimension.get("where") or ""),
        "description": printable(dimension.get("description") or ""),
        "tags": [printable(t) for t in dimension.get("tags") or ()],
        "place": printable(f"{dimension['file']}:{dimension['line']}")
        if dimension.get("file")
        else "",
        "series": _series_of(verdicts, batches, values),
        "messages": [
            [
                printable(r.batch or ""),
                printable(r.segment or ""),
                LETTERS[r.status],
                observation(r),
                causes.get(r.id, ""),
                _basis(r),
            ]
            for r in reversed(newest)
        ],
        "learned": learned,
    }


def _letter(statuses: Iterable[Status]) -> str:
    """The worst status; a monitor that still waits for history does not hide what others say."""
    found = set(statuses)
    return LETTERS[worst_status(found - {Status.SKIPPED} or found)] if found else "."


def _rank(now: Iterable[Status], ever: bool) -> int:
    """What is wrong now before what was wrong once."""
    worst = worst_status(now)
    return STATUS_ORDER.index(worst) if worst in _BAD else 5 if ever else 9


def _basis(result: Result) -> str:
    """What history a learned verdict rests on, in words."""
    history = result.details.get("history")
    if not isinstance(history, Mapping):
        return ""
    count, start, end = (history.get(k) for k in ("batches", "first", "last"))
    return printable(f"learned from {count} batches, {start} to {end}") if count else ""


def _learned(row: Mapping[str, Any]) -> Record:
    fpr = row.get("fpr")
    rate = "" if fpr is None else f", false-positive rate {fpr:.2g}"
    return {
        "bounds": [printable(part) for part in str(row["description"] or "").split("; ")],
        "basis": printable(
            f"{row['batches']} batches, {row['learned_from']} to {row['learned_to']}{rate}"
        ),
    }


def _profile(profile: ProfileTable) -> Record:
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


# --- series ------------------------------------------------------------------------------------


def wanted_series(results: Iterable[Result]) -> frozenset[SeriesKey]:
    """The metrics whose values the charts of some verdicts need."""
    return frozenset(_series(c) for r in results for c in r.details.get("clauses", ()))


def _series_of(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[Record]:
    """What can be drawn of a check: of a program each metric that it bounds, else what it saw."""
    if any(r.details.get("clauses") for r in verdicts):
        return _clause_series(verdicts, batches, values)
    by_segment: dict[str | None, list[Result]] = {}
    for result in verdicts:
        by_segment.setdefault(result.segment, []).append(result)
    segments = sorted(
        by_segment,
        key=lambda s: (s is not None, -sum(r.status in _BAD for r in by_segment[s]), s or ""),
    )
    found = [_plain_series(by_segment[s], batches) for s in segments[: _MAX_SEGMENTS + 1]]
    return [s for s in found if s is not None]


def _plain_series(verdicts: Sequence[Result], batches: Sequence[str]) -> Record | None:
    by_batch = {r.batch: r for r in verdicts}
    first = verdicts[0]
    title = str(first.details.get("metric") or check_label(first.check_name, first.column))
    if first.segment is not None:
        title += f", {first.segment}"
    points = [by_batch.get(b) for b in batches]
    return _record(
        title,
        [None if r is None else r.observed for r in points],
        [None if r is None else r.lower for r in points],
        [None if r is None else r.upper for r in points],
        "".join("1" if r is not None and r.status in _BAD else "0" for r in points),
    )


def _clause_series(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[Record]:
    """A series for each metric that a program had bounds on; between them, its stored values."""
    found: dict[SeriesKey, dict[str, Mapping[str, Any]]] = {}
    for result in verdicts:
        for clause in result.details.get("clauses", ()):
            # The worst clause of a metric comes first.
            found.setdefault(_series(clause), {}).setdefault(result.batch or "", clause)
    made = []
    for key, by_batch in found.items():
        stored = values.get(key, {})
        clauses = [by_batch.get(b) for b in batches]
        record = _record(
            # A clause may be about all rows: its series has no column then.
            check_label(metric_words(next(iter(by_batch.values()))["metric"]), key[0] or None),
            [
                stored.get(b) if c is None else c["observed"]
                for b, c in zip(batches, clauses, strict=True)
            ],
            [None if c is None else c["lower"] for c in clauses],
            [None if c is None else c["upper"] for c in clauses],
            "".join("1" if c is not None and c["status"] != "pass" else "0" for c in clauses),
        )
        if record is not None:
            made.append(record)
    return sorted(made, key=lambda s: -s["bad"].count("1"))


def _record(
    title: str,
    values: Sequence[float | None],
    lower: Sequence[float | None],
    upper: Sequence[float | None],
    bad: str,
) -> Record | None:
    seen = [_finite(v) for v in values]
    if all(v is None for v in seen):
        return None
    return {
        "title": printable(title),
        "values": seen,
        "lower": _shared(lower, seen),
        "upper": _shared(upper, seen),
        "bad": bad,
    }


def _shared(
    bounds: Sequence[float | None], seen: Sequence[float | None]
) -> list[float | None] | float | None:
    """One number where all batches that have a value have the same bound, or none has any."""
    cleaned = [_finite(b) for b in bounds]
    known = {b for b, value in zip(cleaned, seen, strict=True) if value is not None}
    return next(iter(known)) if len(known) == 1 else cleaned


def _finite(value: Any) -> float | None:
    """A number with as many digits as a picture shows; None for what is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{min(max(value, -_LARGEST), _LARGEST):.9g}")


def _series(clause: Mapping[str, Any]) -> SeriesKey:
    """The series of stored values of the metric that a bound is on."""
    column, metric, parameters, scope = clause["series"]
    return (column, metric, parameters, scope)
