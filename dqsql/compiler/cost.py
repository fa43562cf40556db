"""What statements cost, as far as their shape says: shuffles, and the budget of scans.

A shuffle is an exchange of rows between tasks. One is counted for each aggregation (Spark brings
the rows of a group together; without GROUP BY, all of them), one more for an aggregate over
distinct values, and one for each join, `exists` and window. Equal subqueries are run once and count
once. What a check model's own SELECT shuffles, and what Spark saves or adds when it sees the data,
is not in the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dqsql.compiler.trees import has_aggregate
from dqsql.errors import CompileError, Span
from dqsql.model.plan import Plan, Query


def shuffles(query: exp.Expr) -> int:
    """The number of shuffles of a statement."""
    # Expressions are equal where their trees are.
    counted: dict[exp.Select, int] = {}
    for select in query.find_all(exp.Select):
        if select not in counted:
            counted[select] = _own_shuffles(select)
    return sum(counted.values())


def _own_shuffles(select: exp.Select) -> int:
    number = len(select.args.get("joins") or ())
    projections = select.expressions
    number += sum(1 for p in projections for _ in p.find_all(exp.Exists))
    windows = [w for p in projections for w in p.find_all(exp.Window)]
    number += 1 if windows else 0
    if select.args.get("distinct"):
        number += 1
    aggregated = select.args.get("group") is not None or any(
        has_aggregate(p) for p in projections if not p.find(exp.Window, exp.Query)
    )
    distinct = any(p.find(exp.Distinct) for p in projections)
    return number + (1 + int(distinct) if aggregated else 0)


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
                    hint="leave out what needs a scan of its own, or raise scan_budget",
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
