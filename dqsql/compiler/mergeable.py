"""Which metrics can be cumulative: those whose states, or frequency tables, merge."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dqsql.compiler.privacy import is_private, withheld
from dqsql.compiler.trees import function_name
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Entries, Metric, StateColumn

_INSTEAD = {
    "median": "quantile(0.5) merges",
    "percentile": "quantile merges",
    "percentile_cont": "quantile merges",
    "percentile_disc": "quantile merges",
}


def require_mergeable(
    text: str,
    metric: Metric,
    states: Sequence[StateColumn],
    span: Span,
    private: Collection[str] = (),
) -> None:
    """Refuse a cumulative metric with a state that does not merge. Raises CompileError.

    `text` is the metric as a user wrote it, `states` are its own. `private` are columns whose
    values must not be stored, in lower case.
    """
    tables = (s.frequency for s in states if s.frequency is not None)
    cut_up = any(t.entries is not Entries.VALUES and is_private(t, private) for t in tables)
    if cut_up or withheld([metric], states, private):
        raise CompileError(
            f"{text} cannot be cumulative: private values would have to be stored",
            span=span,
            hint="leave out scope: cumulative to check each batch by itself",
        )
    for state in states:
        table = state.frequency
        if state.mergeable or table is not None:
            # Frequency tables are stored and added up: see `dqsql.compiler.counts`.
            continue
        instead = _INSTEAD.get(function_name(state.scan), "")
        advice = "leave out scope: cumulative to check each batch by itself"
        raise CompileError(
            f"{text} cannot be cumulative: the values of {to_sql(state.scan)} for single batches"
            " cannot be merged",
            span=span,
            hint=f"{instead}; or {advice}" if instead else advice,
        )
