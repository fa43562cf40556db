"""What a check may know that is not in the rows: when the run started, and the model's columns.

`fact('name')` is an aggregate of dqsql's own. Its value is known when the scan is built; it is
stored as state, so that a metric can be made from stored states again with the same result.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.trees import calls_of, nodes
from dqsql.dialect import call, formula, literal
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Plan, StateColumn

FACT = "fact"
_RUN_STARTED = "run_started"
_SCHEMA = "schema"
_COLUMN_COUNT = "column_count"
_NOW = re.compile(
    r"\b(current_(date|time|timestamp)|localtimestamp|(now|curdate|unix_timestamp|rand|randn|uuid)\s*\()",
    re.IGNORECASE,
)
# Facts of the relation; the same for all segments.
ABOUT_THE_RELATION = frozenset({_SCHEMA, _COLUMN_COUNT})
_FACTS = frozenset({_RUN_STARTED}) | ABOUT_THE_RELATION


def facts(now: dt.datetime, columns: Mapping[str, str]) -> dict[str, exp.Expr]:
    """The facts of a run that started at `now`, about a model with these columns and types."""
    started = (now - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    return {
        _RUN_STARTED: call("timestamp_micros", literal(started)),
        _SCHEMA: exp.Literal.string(json.dumps(dict(columns), ensure_ascii=False)),
        _COLUMN_COUNT: literal(len(columns)),
    }


def is_about_now(state: StateColumn) -> bool:
    """Whether the state says when the run started, so that it grows old."""
    return any(c.expressions[0].this == _RUN_STARTED for c in _calls(state.scan))


def is_of_rows(state: StateColumn, columns: Collection[str]) -> bool:
    """Whether the state is about the rows of a batch alone: no fact, and no other relation.

    `columns` are those of the model.
    """
    own = {c.lower() for c in columns}
    read = (c.parts[0].name.lower() for scan in state.over_rows for c in nodes(scan, exp.Column))
    is_plain = state.source is None or state.frequency is not None
    return is_plain and not _calls(state.scan) and own.issuperset(read)


def asks_for_now(sql: str) -> bool:
    """Whether a SELECT may give other values tomorrow, of the same rows."""
    return _NOW.search(sql) is not None


def metrics_about_now(plan: Plan) -> frozenset[str]:
    """The metrics that compare a batch with the start of the run."""
    states = {s.name for s in plan.states if is_about_now(s)}
    return frozenset(m.alias for m in plan.metrics if states.intersection(m.states))


def checks_about_now(plan: Plan) -> frozenset[str]:
    """The ids of the checks of such metrics: of how old a batch is."""
    about_now = metrics_about_now(plan)
    return frozenset(c.id for c in plan.checks if not about_now.isdisjoint(c.metrics))


def with_facts(state: StateColumn, known: Mapping[str, exp.Expr]) -> StateColumn:
    """The state with the facts in it filled in."""
    if not _calls(state.scan):
        return state
    scan = state.scan.copy()
    for node in _calls(scan):
        node.replace(known[node.expressions[0].this].copy())
    return replace(state, scan=scan)


def _calls(scan: exp.Expr) -> list[exp.Anonymous]:
    return list(calls_of(scan, (FACT,)))


def _fact(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    name = str(aggregate.args[0].this) if aggregate.args else ""
    if name not in _FACTS:
        raise UnsupportedExpressionError(f"{FACT} takes one of {', '.join(sorted(_FACTS))}")
    # Known without any row, and not worth a buffer of its own.
    scan = formula("case when count(*) >= 0 then {0} end", call(FACT, aggregate.args[0]))
    component = base.Component(
        name, scan, base.merge_with("max"), whole_only=name in ABOUT_THE_RELATION
    )
    return base.Lowering((component,), base.first_state)


AGGREGATES = (base.Aggregate((FACT,), _fact, own=True, subject=lambda aggregate: "model"),)
