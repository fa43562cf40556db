"""The other statements of a plan, and what `dqsql compile` shows.

Which batches a statement is about, the types of columns and the state relation are parameters, so
that the same plan serves compiling without Spark and running with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from dqsql.compiler.keys import (
    BATCH,
    SEGMENT,
    batch_text,
    check_batch_by,
    identifier_table,
    view_name,
)
from dqsql.compiler.plan import row_columns
from dqsql.compiler.scan import Scan, scan_groups
from dqsql.dialect import call, column, identifier, to_sql
from dqsql.model.plan import Check, Metric, Plan, Query, StateColumn
from dqsql.model.project import CheckModel


def discovery_query(model: CheckModel) -> exp.Select | None:
    """Batches and their row counts; reads only the columns of `batch_by`."""
    batch = batch_text(model)
    if batch is None:
        return None
    return (
        exp.select(exp.alias_(batch, BATCH, quoted=True))
        .select(exp.alias_(call("count", exp.Star()), "rows", quoted=True))
        .from_(identifier_table(view_name(model)))
        .group_by(batch.copy())
    )


def metric_query(
    metrics: Sequence[Metric], checks: Sequence[Check], relation: exp.Expr
) -> exp.Select:
    """Metric values and verdicts of every state row of `relation`.

    Columns: batch, segment, rows, one per metric, one boolean per check.
    """
    keys = [column(BATCH), column(SEGMENT), column("rows")]
    finished = (exp.alias_(m.finish, m.alias, quoted=True) for m in metrics)
    values = exp.select(*keys, *finished).from_(relation, copy=False)
    # Checks read metrics by name, one level up.
    named = (column(m.alias) for m in metrics)
    verdicts = (exp.alias_(exp.Paren(this=c.predicate), c.alias, quoted=True) for c in checks)
    query = exp.select(*(k.copy() for k in keys), *named, *verdicts)
    return query.from_(values.subquery("metric_values", copy=False), copy=False)


def compiled_queries(plan: Plan) -> tuple[Query, ...]:
    """The statements of a plan as `dqsql compile` shows them, for all batches."""
    model = plan.model
    view = (
        f"create or replace temporary view {to_sql(identifier(view_name(model)))} as\n{model.sql}"
    )
    queries = [Query("the check model's SELECT, verbatim", view, 0)]
    groups = scan_groups(plan.states)
    for group in groups:
        scan = Scan(model, (group,))
        queries.append(
            Query(
                f"scan: {group.purpose}",
                to_sql(scan.query(), pretty=True),
                scan.source_scans,
                columns_read(model, group.states),
            )
        )
    state = identifier_table(f"dq_state__{model.name}")
    metrics = metric_query(plan.metrics, plan.checks, state)
    queries.append(Query("metrics and verdicts", to_sql(metrics, pretty=True), 0))
    return tuple(queries)


def columns_read(model: CheckModel, states: Iterable[StateColumn]) -> tuple[str, ...]:
    """The columns of the model's SELECT that a scan of the given states reads, sorted."""
    names = {c.parts[0].name for s in states for c in _row_columns(s)}
    batch_by = check_batch_by(model)
    if batch_by is not None:
        names |= {c.parts[0].name for c in batch_by.find_all(exp.Column)}
    return tuple(sorted(names | set(model.config.segment_by)))


def _row_columns(state: StateColumn) -> Iterable[exp.Column]:
    """The references to the model's columns in what a state scans."""
    table = state.frequency
    if table is None:
        return row_columns(state.scan)
    parts = [*table.columns, *([table.where] if table.where is not None else [])]
    return (c for part in parts for c in row_columns(part))
