"""Which metrics can be cumulative: those whose states, or frequency tables, merge."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dqsql.compiler.privacy import is_private
from dqsql.compiler.trees import function_name
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Entries, StateColumn

_INSTEAD = {
    "median": "quantile(0.5) merges",
    "percentile": "quantile merges",
    "percentile_cont": "quantile merges",
    "percentile_disc": "quantile merges",
}


def require_mergeable(
    metric: str, states: Iterable[StateColumn], span: Span, private: Collection[str] = ()
) -> None:
    """Refuse a cumulative metric with a state that does not merge. Raises CompileError.

    `private` are columns whose values must not be stored, in lower case.
    """
    for state in states:
        table = state.frequency
        if table is not None and table.entries is not Entries.VALUES and is_private(table, private):
            raise CompileError(
                f"{metric} cannot be cumulative: private values would have to be stored",
                span=span,
                hint="leave out scope: cumulative to check each batch by itself",
            )
        if state.mergeable or table is not None:
            # Frequency tables are stored and added up: see `dqsql.compiler.counts`.
            continue
        instead = _INSTEAD.get(function_name(state.scan), "")
        advice = "leave out scope: cumulative to check each batch by itself"
        raise CompileError(
            f"{metric} cannot be cumulative: the values of {to_sql(state.scan)} for single batches"
            " cannot be merged",
            span=span,
            hint=f"{instead}; or {advice}" if instead else advice,
        )
