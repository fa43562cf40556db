"""What the report draws of checks: values by batch, and what was allowed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dqsql.model.by_key import by_key
from dqsql.model.metric_traits import metric_words
from dqsql.model.plain_names import names_in_lower_case
from dqsql.model.results import CONSTRAINT, FINDINGS, Result
from dqsql.report.findings import check_label
from dqsql.report.text import printable

# Values by batch of a metric's key: column, metric, parameters, scope.
SeriesKey = tuple[str, str, str, str]
MetricValues = Mapping[SeriesKey, Mapping[str, float | None]]
Record = dict[str, Any]

# Differences of the largest numbers there are would be infinite.
_LARGEST = 1e300
# Segments of a check that are drawn on their own: those in which most was found.
_MAX_SEGMENTS = 5
# Batches in the small picture beside a finding, and what of a series it has fewer digits of.
_SPARK = 30
_NUMBERS = ("values", "lower", "upper")


def wanted_series(results: Iterable[Result]) -> frozenset[SeriesKey]:
    """The metrics whose values the charts of some verdicts need."""
    return frozenset(_series(c) for r in results for c in r.details.get("clauses", ()))


def series_key(column: str | None, metric: str, parameters: str | None, scope: str) -> SeriesKey:
    """The key of a metric's values, in whatever letter case its columns are written."""
    metric, parameters = names_in_lower_case(metric), names_in_lower_case(parameters or "")
    return ((column or "").lower(), metric, parameters, scope)


def series_of(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[Record]:
    """What can be drawn of a check: of a program each metric that it bounds, else what it saw."""
    if any(r.details.get("clauses") for r in verdicts):
        return _clause_series(verdicts, batches, values)
    by_segment = by_key((r.segment, r) for r in verdicts)
    segments = sorted(
        by_segment,
        key=lambda s: (s is not None, -sum(r.status in FINDINGS for r in by_segment[s]), s or ""),
    )
    records = [_plain_series(by_segment[s], batches) for s in segments[: _MAX_SEGMENTS + 1]]
    return [s for s in records if s is not None]


def undrawn_segments(verdicts: Sequence[Result]) -> int:
    """Of how many segments `series_of` draws nothing, for there are too many."""
    segments = {r.segment for r in verdicts}
    return max(0, len(segments) - 1 - _MAX_SEGMENTS)


def spark_of(
    finding: Result, verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> Record | None:
    """What a finding saw, in its batch and those before it; None where that is no number.

    `verdicts` are all of its check; `batches` those of the report, oldest first.
    """
    end = batches.index(finding.batch or "") + 1
    shown = batches[max(0, end - _SPARK) : end]
    alike = [r for r in verdicts if r.segment == finding.segment]
    series = series_of(alike, shown, values)
    # Of a program, a metric whose bound was broken by this batch.
    best = next((s for s in series if s["bad"].endswith("1")), series[0] if series else None)
    if best is None or best["values"][-1] is None:
        return None
    return {**best, **{k: _rough(best[k]) for k in _NUMBERS}}


def _rough(numbers: Sequence[float | None] | float | None) -> Any:
    """Numbers with as many digits as a picture of the size of a word shows."""
    if isinstance(numbers, Sequence):
        return [_rough(n) for n in numbers]
    return None if numbers is None else float(f"{numbers:.4g}")


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
        [None if r is None else _inner(max, r.lower, r.warn_lower) for r in points],
        [None if r is None else _inner(min, r.upper, r.warn_upper) for r in points],
        "".join("1" if r is not None and r.status in FINDINGS else "0" for r in points),
        metric=_metric_of(first),
        strict=_is_strict(first),
    )


def _inner(
    choose: Callable[[Iterable[float]], float], hard: float | None, mild: float | None
) -> float | None:
    """Of a bound that fails and one that warns the one that is broken first."""
    known = [b for b in (hard, mild) if b is not None]
    return choose(known) if known else None


def _is_strict(result: Result) -> bool:
    """Whether the bound itself is not allowed: the last comparison of the check is `<` or `>`."""
    if (
        result.detector != CONSTRAINT
        or result.warn_lower is not None
        or result.warn_upper is not None
    ):
        return False
    written = str(result.details.get("expression") or result.check_name)
    # Without comments, literals and quoted names.
    text = re.sub(r"/\*.*?\*/|--.*|'[^']*'|`[^`]*`", "", written).strip().removeprefix("@")
    text = re.sub(r"^expect\s*\((.*)\)$", r"\1", text)
    # What stands in parentheses compares rows, and bounds nothing.
    while (outer := re.sub(r"\([^()]*\)", "", text)) != text:
        text = outer
    return re.findall(r"->|[<>=!]+|\bnot\b", text) in (["<"], [">"])


def _metric_of(result: Result) -> str:
    """The one metric that a check compares; empty where it compares several."""
    names = list(result.details.get("metrics") or ())
    return str(names[0]) if len(names) == 1 else ""


def _clause_series(
    verdicts: Sequence[Result], batches: Sequence[str], values: MetricValues
) -> list[Record]:
    """A series for each metric that a program had bounds on; between them, its stored values."""
    by_series: dict[SeriesKey, dict[str, Mapping[str, Any]]] = {}
    for result in verdicts:
        for clause in result.details.get("clauses", ()):
            # The worst clause of a metric comes first.
            by_series.setdefault(_series(clause), {}).setdefault(result.batch or "", clause)
    made = []
    for key, by_batch in by_series.items():
        stored = values.get(key, {})
        clauses = [by_batch.get(b) for b in batches]
        clause = next(reversed(by_batch.values()))
        record = _record(
            # A clause may be about all rows: its series has no column then.
            check_label(metric_words(clause["metric"]), clause["series"][0] or None),
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
    metric: str = "",
    strict: bool = False,
) -> Record | None:
    seen = [finite(v) for v in values]
    if all(v is None for v in seen):
        return None
    return {
        "title": printable(title),
        "metric": printable(metric),
        "values": seen,
        "lower": _shared(lower, seen),
        "upper": _shared(upper, seen),
        "bad": bad,
        **({"strict": True} if strict else {}),
    }


def _shared(
    bounds: Sequence[float | None], seen: Sequence[float | None]
) -> list[float | None] | float | None:
    """One number where all batches that have a value have the same bound, or none has any."""
    cleaned = [finite(b) for b in bounds]
    known = {b for b, value in zip(cleaned, seen, strict=True) if value is not None}
    return next(iter(known)) if len(known) == 1 else cleaned


def finite(value: Any) -> float | None:
    """A number with as many digits as a picture shows; None for what is none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(f"{min(max(value, -_LARGEST), _LARGEST):.9g}")


def _series(clause: Mapping[str, Any]) -> SeriesKey:
    """The series of stored values of the metric that a bound is on."""
    return series_key(*clause["series"])
