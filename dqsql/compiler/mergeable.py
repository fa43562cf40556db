"""Which metrics can be cumulative: those whose states, or frequency tables, merge."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import StateColumn

_INSTEAD = {
    "count": "count_distinct merges (so does approx_count_distinct, which costs less)",
    "median": "quantile(0.5) merges",
    "percentile": "quantile merges",
    "percentile_cont": "quantile merges",
    "percentile_disc": "quantile merges",
}


def require_mergeable(metric: str, states: Iterable[StateColumn], span: Span) -> None:
    """Refuse a cumulative metric with a state that does not merge. Raises CompileError."""
    for state in states:
        if state.mergeable or state.frequency is not None:
            # Frequency tables are stored and added up: see `dqsql.compiler.counts`.
            continue
        node = state.scan.this if isinstance(state.scan, exp.Filter) else state.scan
        node = node.this if isinstance(node, exp.WithinGroup) else node
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        instead = _INSTEAD.get(name, "")
        advice = "leave out scope: cumulative to check each batch by itself"
        raise CompileError(
            f"{metric} cannot be cumulative: the values of {to_sql(state.scan)} for single batches"
            " cannot be merged",
            span=span,
            hint=f"{instead}; or {advice}" if instead else advice,
        )
