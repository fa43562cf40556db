"""The findings of each batch of a model as one: root symptoms first, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dqsql.decisions.grouping import VALUES, Symptom, group_findings
from dqsql.decisions.program import COMPLETE
from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.monitors import monitor_specs
from dqsql.model.project import Severity
from dqsql.model.results import BatchFinding, ModelResult, RankedFinding, Result, Status

_SYMPTOMS = (Status.FAIL, Status.WARN, Status.NO_DATA)
# What a share of values above its bounds is called, beside the metrics.
_FULLNESS = "fullness"
_WORD = re.compile(r"[^\W\d]\w*")


def grouped(results: Iterable[Result]) -> tuple[BatchFinding, ...]:
    """The findings of one model put together by batch, oldest batch first.

    Checks that could not be evaluated are left out: they say nothing of the data.
    """
    by_batch = by_key((r.batch or "", r) for r in results)
    findings = (_of_batch(by_batch[b]) for b in sorted(by_batch, key=batch_order))
    return tuple(g for g in findings if g is not None)


def joined_results(first: ModelResult, then: ModelResult) -> ModelResult:
    """The result of a model whose batches were checked in two parts."""
    results = (*first.results, *then.results)
    both = {*first.returned, *then.returned}
    return replace(
        then,
        batches=(*first.batches, *then.batches),
        results=results,
        groups=grouped(results),
        metrics=first.metrics + then.metrics,
        scans=first.scans + then.scans,
        rows=first.rows + then.rows,
        empty=(*first.empty, *then.empty),
        notes=tuple(dict.fromkeys((*first.notes, *then.notes))),
        returned={c: first.returned.get(c, 0) + then.returned.get(c, 0) for c in both},
    )


def _of_batch(results: Iterable[Result]) -> BatchFinding | None:
    every = list(results)
    by_id = {r.id: r for r in every if r.status in _SYMPTOMS}
    first = every[0]
    symptoms = [symptom_of(r) for r in by_id.values()]
    # Of segments without rows only their number is judged.
    check_ids = {by_id[str(s.key)].check_id for s in symptoms if s.metric != "row_count"}
    decided = (r for r in every if r.segment is not None and r.status is not Status.SKIPPED)
    segments = {r.segment for r in decided if not check_ids or r.check_id in check_ids}
    findings = tuple(
        RankedFinding(by_id[str(s.key)], None if cause is None else by_id[str(cause.key)])
        for s, cause in group_findings(symptoms, len(segments) or None)
    )
    if not findings:
        return None
    failed = any(r.status is Status.FAIL for r in by_id.values())
    roots = {f.result.segment for f in findings if f.cause is None}
    return BatchFinding(
        first.model,
        first.batch or "",
        Severity.ERROR if failed else Severity.WARN,
        findings,
        () if None in roots else tuple(sorted(map(str, roots))),
    )


def symptom_of(result: Result) -> Symptom:
    """As much of a finding as ranking needs."""
    metric = _metric(result)
    symptom = Symptom(
        check=result.check_name,
        metric=metric,
        column=result.column or _column(result),
        segment=result.segment,
        severity="error" if result.status is Status.FAIL else "warn",
        score=_score(result),
        p_value=_p_value(result.details),
        key=result.id,
        cause=_cause(result) if metric == result.detector else None,
    )
    if metric != "row_count":
        return symptom
    # The number of rows is one of the batch, whatever column's monitor has seen it; what looks at
    # the batch itself says it best.
    return replace(symptom, column=None, score=None if result.column else symptom.score)


def _score(result: Result) -> float | None:
    """How far beyond its bounds it is; of a constraint, in units of the bound."""
    if result.score is not None or result.observed is None:
        return result.score
    for bound, sign in ((result.lower, -1), (result.upper, 1)):
        if bound is not None and (result.observed - bound) * sign > 0:
            return 1 + abs(result.observed - bound) / (abs(bound) or 1.0)
    return None


def _metric(result: Result) -> str:
    """The name of the metric that the finding is about, or of the check where that says more."""
    details = result.details
    broken = [
        _FULLNESS if _is_fuller(c) else str(c["metric"])
        for c in details.get("clauses", ())
        if c.get("status") != "pass" and c.get("metric")
    ]
    if broken:
        # A program is broken in many places at once: what comes first in the chain of causes.
        return min(broken, key=lambda name: Symptom(name, name).stage)
    if _cause(result) is not None:
        return result.detector
    check = _name(str(details.get("expression") or result.check_name))
    if result.detector == "constraint" and Symptom(check, check).stage != VALUES:
        return check
    metrics = details.get("metrics")
    text = next(iter(metrics), "") if isinstance(metrics, Mapping) else details.get("metric")
    return _name(str(text or "")) or check


def _is_fuller(clause: Mapping[str, Any]) -> bool:
    """Whether more values are there than usual, which is no lack of them."""
    if clause["metric"] != COMPLETE or clause.get("observed") is None:
        return False
    return clause.get("upper") is not None and clause["observed"] > clause["upper"]


def _cause(result: Result) -> str | None:
    """The place of a kind of monitor in the chain of causes; None where its metric says it."""
    spec = monitor_specs().get(result.detector)
    return None if spec is None else spec.symptom


def _name(text: str) -> str:
    match = _WORD.search(text)
    return match.group().lower() if match else ""


def _column(result: Result) -> str | None:
    """The column that a monitor of the model watches, if it is one metric of one column."""
    series = result.details.get("series")
    is_monitor = result.detector in monitor_specs()
    return str(series[0]) or None if is_monitor and _cause(result) is None and series else None


def _p_value(details: Mapping[str, Any]) -> float | None:
    decision = details.get("decision")
    value = (decision if isinstance(decision, Mapping) else details).get("p_value")
    return float(value) if isinstance(value, int | float) else None
