"""What the report shows, made of stored verdicts, the ledger and metric values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dqsql.model.results import BatchFinding, BatchStatus, Result, Status
from dqsql.model.wording import plural
from dqsql.report.charts import Chart, ChartPoint, chart
from dqsql.report.findings import check_label, describe_batch, headline, observation
from dqsql.report.profile import ProfileTable
from dqsql.report.text import printable

MAX_CHARTS = 60
MAX_FOUND = 50
MAX_LINES = 30

# Values by batch of a metric's key: column, metric, parameters, scope.
SeriesKey = tuple[str, str, str, str]
MetricValues = Mapping[SeriesKey, Mapping[str, float | None]]

_BAD = (Status.FAIL, Status.WARN)


@dataclass(frozen=True, slots=True)
class Cell:
    """One batch in a model's strip: `kind` is its colour, `anchor` what it leads to, if any."""

    batch: str
    kind: str
    title: str
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One finding of a batch; `follows` is whether another one explains it."""

    id: str
    status: str
    text: str
    follows: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one batch; `review` is what a person said of it."""

    anchor: str
    batch: str
    status: str
    severity: str
    summary: str
    lines: tuple[Line, ...]
    left_out: int
    review: str | None


@dataclass(frozen=True, slots=True)
class Learned:
    """A program or pattern in force, its bounds in words."""

    about: str
    bounds: tuple[str, ...]
    basis: str


@dataclass(frozen=True, slots=True)
class ModelPage:
    """One check model."""

    name: str
    anchor: str
    path: str | None
    owner: str | None
    description: str | None
    tags: tuple[str, ...]
    cells: tuple[Cell, ...]
    counts: Mapping[str, int]
    found: tuple[Found, ...]
    found_left_out: int
    charts: tuple[Chart, ...]
    charts_left_out: int
    learned: tuple[Learned, ...]
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
    models: tuple[ModelPage, ...]
    profiles: tuple[ProfileTable, ...] = ()

    @property
    def waiting(self) -> int:
        """Batches with findings of severity error that nobody reviewed."""
        return sum(m.counts.get("flagged", 0) for m in self.models)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is stored of one model.

    `batches` are rows of dq_batches, oldest first; `results` and `groups` are of these batches;
    `reviews` are the newest by batch; `dimension` is its row of dq_models; `profile` is the one
    that was kept, if any.
    """

    name: str
    batches: Sequence[Mapping[str, Any]]
    results: Sequence[Result]
    groups: Sequence[BatchFinding]
    values: MetricValues
    programs: Sequence[Mapping[str, Any]]
    reviews: Mapping[str, Mapping[str, Any]]
    dimension: Mapping[str, Any]
    profile: ProfileTable | None = None


def model_page(facts: ModelFacts, number: int) -> ModelPage:
    """The part of the report about one model; `number` tells its anchors from others'."""
    anchors = {g.batch: f"m{number}b{i}" for i, g in enumerate(facts.groups)}
    shown = list(reversed(facts.groups))[:MAX_FOUND]
    kept = {g.batch for g in shown}
    cells = [
        _cell(row, facts, anchors.get(row["batch"]) if row["batch"] in kept else None)
        for row in facts.batches
    ]
    charts = _charts(facts)
    statuses = {row["batch"]: str(row["status"]) for row in facts.batches}
    dimension = facts.dimension
    return ModelPage(
        name=printable(facts.name),
        anchor=f"m{number}",
        path=dimension.get("path"),
        owner=dimension.get("owner"),
        description=dimension.get("description"),
        tags=tuple(dimension.get("tags") or ()),
        cells=tuple(cells),
        counts={s.value: sum(v == s.value for v in statuses.values()) for s in BatchStatus},
        found=tuple(
            _found(g, anchors[g.batch], statuses.get(g.batch, ""), facts.reviews) for g in shown
        ),
        found_left_out=len(facts.groups) - len(shown),
        charts=tuple(charts[:MAX_CHARTS]),
        charts_left_out=max(len(charts) - MAX_CHARTS, 0),
        learned=tuple(map(_learned, facts.programs)),
        profile=facts.profile,
    )


def _cell(row: Mapping[str, Any], facts: ModelFacts, anchor: str | None) -> Cell:
    batch, status = str(row["batch"]), str(row["status"])
    group = next((g for g in facts.groups if g.batch == batch), None)
    kind = status
    if status == BatchStatus.ACCEPTED and group is not None:
        kind = "warned"
    findings = f", {len(group.findings)} found" if group else ""
    rows = f", {plural(row['rows'], 'row')}" if row.get("rows") is not None else ""
    return Cell(printable(batch), kind, printable(f"{batch}: {status}{findings}{rows}"), anchor)


def _found(
    group: BatchFinding, anchor: str, status: str, reviews: Mapping[str, Mapping[str, Any]]
) -> Found:
    lines = [
        Line(
            f.result.id,
            f.result.status.value,
            headline(f.result)
            + (f" [{printable(f.result.segment)}]" if f.result.segment is not None else ""),
            f.cause is not None,
        )
        for f in group.findings[:MAX_LINES]
    ]
    review = reviews.get(group.batch)
    told = None
    if review is not None:
        told = printable(f"{review['verdict']} by {review['author'] or '?'}: {review['reason']}")
    return Found(
        anchor=anchor,
        batch=printable(group.batch),
        status=status,
        severity=group.severity.value,
        summary=describe_batch(group),
        lines=tuple(lines),
        left_out=max(len(group.findings) - MAX_LINES, 0),
        review=told,
    )


def _learned(row: Mapping[str, Any]) -> Learned:
    fpr = row.get("fpr")
    basis = f"{plural(row['batches'], 'batch')}, {row['learned_from']} to {row['learned_to']}"
    rate = "" if fpr is None else f", false-positive rate {fpr:.2g}"
    return Learned(
        printable(f"{row['column_name'] or 'model'} @{row['detector']}"),
        tuple(printable(part) for part in str(row["description"] or "").split("; ")),
        printable(basis + rate),
    )


# --- charts ------------------------------------------------------------------------------------


def wanted_series(results: Iterable[Result]) -> frozenset[SeriesKey]:
    """The metrics whose values the charts of some verdicts need."""
    return frozenset(_series(c) for r in results for c in r.details.get("clauses", ()))


def _charts(facts: ModelFacts) -> list[Chart]:
    """Charts of what monitors watch, and of constraints that were not kept; the worst first."""
    batches = [str(row["batch"]) for row in facts.batches]
    by_check: dict[tuple[str, str | None], list[Result]] = {}
    for result in facts.results:
        by_check.setdefault((result.check_id, result.segment), []).append(result)
    made: list[tuple[int, Chart]] = []
    for verdicts in by_check.values():
        first = verdicts[0]
        bad = sum(r.status in _BAD for r in verdicts)
        if not bad and (first.detector == "constraint" or first.segment is not None):
            continue
        for title, points in _series_of(verdicts, batches, facts.values):
            if first.detector == "constraint" and not any(p.banded for p in points):
                continue
            drawn = chart(title, _about(first), points)
            if drawn is not None:
                made.append((sum(p.anomalous for p in points), drawn))
    made.sort(key=lambda pair: -pair[0])
    return [drawn for _, drawn in made]


def _about(result: Result) -> str:
    text = str(result.details.get("expression") or result.check_name)
    kind = "check" if result.detector == "constraint" else "monitor"
    return f"{kind} {text}" + ("" if result.segment is None else f", segment {result.segment}")


def _series_of(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[tuple[str, list[ChartPoint]]]:
    if any(r.details.get("clauses") for r in verdicts):
        return _clause_series(verdicts, batches, values)
    by_batch = {r.batch: r for r in verdicts}
    first = verdicts[0]
    title = check_label(first.check_name, first.column)
    metric = first.details.get("metric")
    return [(str(metric or title), [_point(b, by_batch.get(b)) for b in batches])]


def _point(batch: str, result: Result | None) -> ChartPoint:
    if result is None:
        return ChartPoint(batch, None)
    bad = result.status in _BAD
    return ChartPoint(
        batch,
        result.observed,
        result.lower,
        result.upper,
        bad,
        observation(result) if bad else "",
    )


def _clause_series(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[tuple[str, list[ChartPoint]]]:
    """A series for each metric that a program had bounds on; between them, its stored values."""
    found: dict[SeriesKey, dict[str, Mapping[str, Any]]] = {}
    for result in verdicts:
        for clause in result.details.get("clauses", ()):
            # The worst clause of a metric comes first.
            found.setdefault(_series(clause), {}).setdefault(result.batch or "", clause)
    column = verdicts[0].column
    return [
        (
            check_label(key[1], column),
            [_clause_point(b, clauses.get(b), values.get(key, {}).get(b)) for b in batches],
        )
        for key, clauses in found.items()
    ]


def _clause_point(batch: str, clause: Mapping[str, Any] | None, value: float | None) -> ChartPoint:
    if clause is None:
        return ChartPoint(batch, value)
    bad = clause["status"] != "pass"
    observed = clause["observed"]
    text = f"{clause['metric']} is outside what was learned" if bad else ""
    return ChartPoint(batch, observed, clause["lower"], clause["upper"], bad, text)


def _series(clause: Mapping[str, Any]) -> SeriesKey:
    """The series of stored values of the metric that a bound is on."""
    given = clause.get("series")
    if not given:
        # Of a version that did not store it.
        return ("", str(clause.get("metric")), "", "delta")
    column, metric, parameters, scope = given
    return (column, metric, parameters, scope)
