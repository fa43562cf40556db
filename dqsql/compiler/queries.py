"""The other statements of a plan, what they cost, and what `dqsql compile` shows.

Which batches a statement is about, the types of columns and the state relation are parameters, so
that the same plan serves compiling without Spark and running with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from dqsql.compiler.aggregates.registry import with_scores
from dqsql.compiler.counts import (
    counted_states,
    scanned_states,
    stored_query,
    total_counts,
    with_counted,
)
from dqsql.compiler.cumulative import cumulative_states, prefix_query, total_query
from dqsql.compiler.keys import BATCH, SEGMENT, batch_columns, identifier_table, model_view
from dqsql.compiler.output_columns import columns_of
from dqsql.compiler.scan import Scan, scan_groups
from dqsql.compiler.segments import batches_query
from dqsql.compiler.trees import has_aggregate
from dqsql.dialect import aliased, column, to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Check, Metric, Plan, Query, StateColumn
from dqsql.model.project import CheckModel, Scope
from dqsql.model.tables import state_table_name


def shuffles(query: exp.Expr) -> int:
    """The number of shuffles of a statement: exchanges of rows between tasks, as its shape says.

    One for each aggregation, one more for an aggregate over distinct values, and one for each join,
    `exists` and window. Equal subqueries are run once and count once. What a check model's own
    SELECT shuffles, and what Spark saves or adds when it sees the data, is not in the count.
    """
    # Expressions are equal where their trees are.
    counted: dict[exp.Select, int] = {}
    for select in query.find_all(exp.Select):
        if select not in counted:
            counted[select] = _own_shuffles(select)
    return sum(counted.values())


def _own_shuffles(select: exp.Select) -> int:
    projections = select.expressions
    number = len(select.args.get("joins") or ()) + bool(select.args.get("distinct"))
    number += sum(1 for p in projections for _ in p.find_all(exp.Exists))
    number += any(p.find(exp.Window) for p in projections)
    aggregated = select.args.get("group") is not None or any(
        has_aggregate(p) for p in projections if not p.find(exp.Window, exp.Query)
    )
    distinct = any(p.find(exp.Distinct) for p in projections)
    return number + (1 + distinct if aggregated else 0)


def over_budget(
    plans: Sequence[Plan],
    queries: Mapping[str, Sequence[Query]],
    budget: Mapping[str, Mapping[str, int]],
    total: int | None,
) -> list[CompileError]:
    """The models that need more scans than they may, and the project if all need too many.

    `budget` gives the `scan_budget` of each model by its name.
    """
    if total is None and not any("model" in limits for limits in budget.values()):
        return []
    errors: list[CompileError] = []
    needed = {p.model.name: sum(q.scans for q in queries.get(p.model.name, ())) for p in plans}
    for plan in plans:
        model = plan.model
        limit = budget.get(model.name, {}).get("model")
        if limit is not None and needed[model.name] > limit:
            parts = [q for q in queries[model.name] if q.scans]
            listed = ", ".join(f"{q.scans} for {q.purpose.removeprefix('scan: ')}" for q in parts)
            errors.append(
                CompileError(
                    f"{model.name} needs {needed[model.name]} scans ({listed}),"
                    f" more than scan_budget = {limit}",
                    span=Span(model.path),
                    hint="leave out what needs a separate scan, or raise scan_budget",
                )
            )
    if total is not None and sum(needed.values()) > total:
        errors.append(
            CompileError(
                f"the project's models need {sum(needed.values())} scans together,"
                f" more than the total of scan_budget = {total}",
                hint="select fewer models, or raise scan_budget",
            )
        )
    return errors


# The view of a model's history in `target/compiled/`.
_HISTORY = "dqsql__history"
_COUNTS = "dqsql__counts of values"
_BATCH = "the batch"


def reads_once(metrics: Sequence[Metric]) -> bool:
    """Whether `metric_query` reads the relation of state rows once, whatever that is."""
    relation = exp.to_table("states")
    return with_scores(tuple(m.finish for m in metrics), relation)[1] is relation


def metric_query(
    metrics: Sequence[Metric],
    checks: Sequence[Check],
    relation: exp.Expr,
    states: Mapping[str, str] | None = None,
) -> exp.Select:
    """Metric values and verdicts of every state row of `relation`.

    Columns: batch, segment, rows, those of `relation` that are named in `states` (under the names
    that these have there), one per metric, one boolean per check.
    """
    kept = states or {}
    keys = [column(BATCH), column(SEGMENT), column("rows")]
    finishes, relation = with_scores(tuple(m.finish for m in metrics), relation)
    finished = (aliased(finish, m.alias) for m, finish in zip(metrics, finishes, strict=True))
    values = exp.select(*keys, *(aliased(column(s), name) for s, name in kept.items()), *finished)
    values = values.from_(relation, copy=False)
    # Checks read metrics by name, one level up.
    named = (column(m.alias) for m in metrics)
    verdicts = (
        aliased(exp.Paren(this=predicate), alias)
        for check in checks
        for alias, predicate in _predicates(check)
    )
    query = exp.select(*(k.copy() for k in keys), *map(column, kept.values()), *named, *verdicts)
    return query.from_(values.subquery("metric_values", copy=False), copy=False)


def _predicates(check: Check) -> list[tuple[str, exp.Expr]]:
    """The columns of a check's verdict: whether it holds, and whether it does without warning."""
    second = check.warning
    more = [] if second is None else [(second.alias, second.predicate)]
    return [(check.alias, check.predicate), *more]


def compiled_queries(plan: Plan) -> tuple[Query, ...]:
    """The statements of a plan as `dqsql compile` shows them, for all batches."""
    model = plan.model
    view = f"create or replace temporary view {model_view(model)} as\n{model.sql}"
    queries = [Query("the check model's SELECT, verbatim", view, 0)]
    discovery = batches_query(model)
    if discovery is not None:
        columns = columns_read(model, ())
        text = to_sql(discovery, pretty=True)
        queries.append(Query("which batches there are", text, 1, columns, shuffles(discovery)))
    groups = scan_groups(scanned_states(plan.states, plan.metrics))
    for number, group in enumerate(groups):
        scan = Scan(model, (group,))
        query = scan.query()
        queries.append(
            Query(
                f"scan: {group.kind.title}",
                to_sql(query, pretty=True),
                scan.source_scans,
                columns_read(model, group.states),
                # The groups are joined to one row a batch and segment.
                shuffles(query) + (1 if number else 0),
            )
        )
    state = identifier_table(state_table_name(model.name))
    metrics = _metrics_of(plan, Scope.DELTA, state)
    queries.append(Query("metrics and verdicts", to_sql(metrics, pretty=True), 0))
    return (*queries, *_cumulative_queries(plan))


def _cumulative_queries(plan: Plan) -> list[Query]:
    """What cumulative metrics need besides; nothing where there are none."""
    queries: list[Query] = []
    totalled = cumulative_states(plan.states, plan.metrics)
    counted = counted_states(plan.states, plan.metrics)
    if counted:
        queries.append(_counting(plan, counted))
    if totalled:
        prefixes = prefix_query(totalled, 1, _HISTORY)
        if counted:
            segmented = bool(plan.model.config.segment_by)
            prefixes = with_counted(prefixes, counted, [_BATCH], _COUNTS, segmented=segmented)
        queries.append(Query("states merged up to the batch", to_sql(prefixes, pretty=True), 0))
        metrics = _metrics_of(plan, Scope.CUMULATIVE, identifier_table("dqsql__states"))
        queries.append(Query("cumulative metrics and verdicts", to_sql(metrics, pretty=True), 0))
        total = total_query(totalled, _HISTORY)
        queries.append(Query("running total", to_sql(total, pretty=True), 0))
    if counted:
        total = total_counts(_COUNTS)
        queries.append(Query("running total of values", to_sql(total, pretty=True), 0))
    return queries


def _counting(plan: Plan, counted: Sequence[StateColumn]) -> Query:
    """The statement that counts values for cumulative metrics."""
    groups = scan_groups(counted)
    query = stored_query(Scan(plan.model, groups), [_BATCH])
    columns = columns_read(plan.model, counted)
    purpose = "scan: values counted, to be added up"
    return Query(purpose, to_sql(query, pretty=True), len(groups), columns, shuffles(query))


def _metrics_of(plan: Plan, scope: Scope, relation: exp.Expr) -> exp.Select:
    metrics = [m for m in plan.metrics if m.scope is scope]
    checks = [c for c in plan.checks if c.settings.scope is scope]
    return metric_query(metrics, checks, relation)


def columns_read(model: CheckModel, states: Iterable[StateColumn]) -> tuple[str, ...]:
    """The columns of the model's SELECT that a scan of the given states reads, sorted."""
    names = columns_of(states)
    return tuple(sorted(names.union(batch_columns(model), model.config.segment_by)))
