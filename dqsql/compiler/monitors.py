"""What each monitor watches: the metrics that a plan computes for it.

Some monitors watch other metrics of numbers than of texts. Types are known only when the model's
view is there, so a plan holds the metrics of all families, and `for_types` takes out those that do
not fit before anything is scanned.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.keys import batch_columns
from dqsql.compiler.privacy import hides_values
from dqsql.compiler.trees import filtered_by
from dqsql.dialect import call, column, parse_expression, quoted, to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Buffer, Family, Metric, Monitor, Plan, StateColumn, Watched
from dqsql.model.project import Annotation, CheckModel, CheckSettings
from dqsql.model.types import FLOATS, is_number, type_of

# Metrics of Tables 3 and 4 of "Auto-Validate by History" (KDD 2023), by the paper's names, and
# quartiles, shares of letters' cases and of rows without a proper value beside them; what their
# two-distribution metrics are computed from is in the profiles.
_AVH_NUMERIC = {
    "min": "min({c})",
    "max": "max({c})",
    "mean": "mean({c})",
    "median": "median({c})",
    "p25": "quantile({c}, 0.25)",
    "p75": "quantile({c}, 0.75)",
    "sum": "sum({c})",
    "range": "range({c})",
    "row_count": "row_count()",
    "unique_ratio": "unique_ratio({c})",
    "complete_ratio": "complete_ratio({c})",
    "nan_ratio": "nan_ratio({c})",
    "infinite_ratio": "infinite_ratio({c})",
    "count": "count({c})",
    "stddev": "stddev({c})",
    "quantile_profile": "quantile_profile({c})",
}
_AVH_TEXT = {
    "str_len": "str_len({c})",
    "char_len": "char_len({c})",
    "digit_len": "digit_len({c})",
    "punc_len": "punc_len({c})",
    "upper_ratio": "upper_ratio({c})",
    "lower_ratio": "lower_ratio({c})",
    "row_count": "row_count()",
    "unique_ratio": "unique_ratio({c})",
    "complete_ratio": "complete_ratio({c})",
    "empty_ratio": "empty_ratio({c})",
    "dist_val_count": "dist_val_count({c})",
    "value_profile": "value_profile({c}, {hashed})",
    "pattern_profile": "pattern_profile({c})",
}

# No other number is NaN or infinite.
_FLOAT_ONLY = frozenset({"nan_ratio", "infinite_ratio"})

# The features of "Automating Data Quality Validation for Dynamic Data Ingestion" (EDBT 2021).
_NOVELTY_ANY = ("completeness({c})", "approx_count_distinct({c})")
# The paper's divisor is the batch size. Among rows with a value it says nothing of those without,
# of which the completeness tells: metrics of which one moves at a time are told apart better.
_NOVELTY_FREQUENT = ("most_frequent_ratio({c})",)
_NOVELTY_PAPER = ("most_frequent_share({c})",)
_NOVELTY_NUMERIC = ("min({c})", "max({c})", "mean({c})", "stddev({c})")
_NOVELTY_TEXT = ("index_of_peculiarity({c})",)
_NOVELTY_BY_TEXT = ("index_of_peculiarity({c}, 'text')",)

Watching = Mapping[Family, Mapping[str, str]]
_WATCHED: Mapping[str, Watching] = {
    "schema": {Family.ANY: {"schema": "schema()"}},
    "avh": {Family.NUMERIC: _AVH_NUMERIC, Family.TEXT: _AVH_TEXT},
    "pattern": {Family.ANY: {"count": "count({c})"}},
}
# Monitors that are about one column.
COLUMN_MONITORS = frozenset({"avh", "pattern"})


@dataclass(frozen=True)
class WatchedMetric:
    """A metric that a monitor needs, as the text of an annotation.

    `about` is the column in whose context it stands, which also decides on the family to take.
    """

    family: Family
    name: str
    expression: str
    about: str | None = None
    in_context: bool = False


def watched_metrics(
    kind: str,
    arguments: Sequence[str],
    annotation: Annotation,
    model: CheckModel,
    options: Mapping[str, object],
) -> list[WatchedMetric]:
    """The metrics that the monitor of an annotation needs.

    `arguments` are those of its call by position, `options` what was set by name.

    Raises CompileError: a monitor about a column stands where there is none, or the metric or the
    names of the columns are missing.
    """
    if kind == "anomaly":
        return [_anomaly_metric(arguments, annotation)]
    if kind == "novelty":
        return _novelty_metrics(annotation, model, options)
    if kind in COLUMN_MONITORS and annotation.column is None:
        raise CompileError(
            f"@{kind} is about a column",
            span=annotation.span,
            hint=f"write it on the line of a column, or config({kind} = true) for all of them",
        )
    about = quoted(annotation.column) if annotation.column else ""
    hidden = hides_values(model, annotation.column, annotation.settings)
    names = {"c": about, "hashed": "true" if hidden else "false"}
    return [
        WatchedMetric(family, name, text.format_map(names), annotation.column)
        for family, metrics in _WATCHED[kind].items()
        for name, text in metrics.items()
    ]


def _anomaly_metric(arguments: Sequence[str], annotation: Annotation) -> WatchedMetric:
    if not arguments:
        raise CompileError(
            "@anomaly needs a metric",
            span=annotation.span,
            hint="for example @anomaly(row_count, holt_winters(period => 7))",
        )
    return WatchedMetric(Family.ANY, "metric", arguments[0], annotation.column, in_context=True)


def _novelty_metrics(
    annotation: Annotation, model: CheckModel, options: Mapping[str, object]
) -> list[WatchedMetric]:
    if annotation.column is not None:
        raise CompileError(
            "@novelty is about the whole model",
            span=annotation.span,
            hint="write it after the FROM clause, or before the SELECT",
        )
    if model.columns is None:
        raise CompileError(
            "@novelty needs the names of the columns",
            span=annotation.span,
            hint="list the columns in the SELECT instead of *",
        )
    by_text = options.get("peculiarity") == "text"
    paper = str(options.get("mode")).lower() == "paper"
    by_family = {
        Family.ANY: (*_NOVELTY_ANY, *(_NOVELTY_PAPER if paper else _NOVELTY_FREQUENT)),
        Family.NUMERIC: _NOVELTY_NUMERIC,
        Family.TEXT: _NOVELTY_BY_TEXT if by_text else _NOVELTY_TEXT,
    }
    key = key_columns(model)
    return [
        WatchedMetric(family, text, text.format(c=quoted(name)), name)
        for name in model.columns
        if name.lower() not in key
        for family, texts in by_family.items()
        for text in texts
    ]


def key_columns(model: CheckModel) -> frozenset[str]:
    """The columns that name batches and segments, in lower case."""
    return frozenset(c.lower() for c in (*model.config.segment_by, *batch_columns(model)))


def configured_annotations(model: CheckModel) -> list[Annotation]:
    """The annotations that `config(avh = true)` stands for: one for every column.

    Left out are columns that have the annotation already, and those that name batches and segments.
    Raises CompileError: the columns are not known from the text.
    """
    found: list[Annotation] = []
    for kind in sorted(COLUMN_MONITORS):
        if not model.config.extra.get(kind):
            continue
        place = Span(model.path)
        if model.columns is None:
            raise CompileError(
                f"config({kind} = ..) needs the names of the columns",
                span=place,
                hint="list the columns in the SELECT instead of *",
            )
        taken = {
            a.column.lower()
            for a in model.annotations
            if a.column and a.expression.strip().lower().startswith(kind)
        }
        taken |= key_columns(model)
        found += [
            Annotation(kind, CheckSettings(), replace(place, text=f"config({kind} = ..)"), c)
            for c in model.columns
            if c.lower() not in taken
        ]
    return found


def family_of(spark_type: str) -> Family:
    """Whether a column of a Spark type is watched as numbers or as texts."""
    return Family.NUMERIC if is_number(spark_type) else Family.TEXT


def for_types(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan without the metrics that monitors watch of columns of another type only.

    `types` gives the Spark types of the model's columns.
    """
    if not any(w.family is not Family.ANY for m in plan.monitors for w in m.watched):
        return plan
    monitors = tuple(_for_type(m, types) for m in plan.monitors)
    before = {alias for m in plan.monitors for alias in m.metrics}
    needed = {alias for m in monitors for alias in m.metrics}
    needed |= {alias for c in plan.checks for alias in c.metrics}
    metrics = tuple(m for m in plan.metrics if m.alias in needed or m.alias not in before)
    return replace(plan, monitors=monitors, metrics=metrics, states=_states(plan, metrics))


def _for_type(monitor: Monitor, types: Mapping[str, str]) -> Monitor:
    kept = tuple(w for w in monitor.watched if _fits(w, type_of(w.about or "", types)))
    return replace(monitor, watched=kept)


def _fits(watched: Watched, spark_type: str) -> bool:
    if watched.name in _FLOAT_ONLY and spark_type not in FLOATS:
        return False
    return watched.family in (Family.ANY, family_of(spark_type))


def _states(plan: Plan, metrics: tuple[Metric, ...]) -> tuple[StateColumn, ...]:
    dropped = {s for m in plan.metrics for s in m.states} - {s for m in metrics for s in m.states}
    # Moments are merged with the help of others of their group.
    kept = {n for s in plan.states if s.name not in dropped for n in s.group}
    return tuple(s for s in plan.states if s.name not in dropped or s.name in kept)


def with_matches(plan: Plan, monitor: Monitor, pattern: str, matching: exp.Expr) -> Plan:
    """The plan with one more count for a monitor: its values that match a pattern.

    `matching` is the aggregate that counts them; the rows are those of the monitor's `where`.
    """
    where = monitor.settings.where
    scan = matching if where is None else filtered_by(matching, parse_expression(where))
    parameters = pattern if where is None else f"{pattern} where {where}"
    slug = re.sub(r"\W+", "_", monitor.column or "", flags=re.ASCII).strip("_").lower()
    name = f"{slug}__matches_{zlib.crc32(to_sql(scan).encode()):08x}".lstrip("_")
    alias = f"{name}__{monitor.id}"
    metric = Metric(
        alias=alias,
        name="pattern_matches",
        column=monitor.column,
        parameters=parameters,
        text=f"pattern_matches({monitor.column}, {pattern!r})",
        finish=column(name),
        states=(name,),
        where=where,
    )
    watched = (*monitor.watched, Watched(Family.ANY, "matches", alias, monitor.column))
    monitors = tuple(
        replace(m, watched=watched) if m.id == monitor.id else m for m in plan.monitors
    )
    states = plan.states
    if name not in {s.name for s in states}:
        merge = call("sum", column(name))
        states = (*states, StateColumn(name, scan, merge, Buffer.FIXED, (name,)))
    return replace(plan, monitors=monitors, metrics=(*plan.metrics, metric), states=states)
