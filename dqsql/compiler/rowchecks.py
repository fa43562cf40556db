"""Checks that are about rows: which rows fail them.

A check is about rows where its predicate demands much of a share (`completeness`, `compliance`:
`count_if(condition) / count(*)`), little of a count (`count_if(condition) = 0`), or no duplicates.
What a share is, is told by the metric's states and not by its name, so that macros of users work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.comparisons import bounds_of
from dqsql.compiler.keys import not_null
from dqsql.compiler.trees import (
    called,
    conjuncts,
    counts_rows,
    function_name,
    only_argument,
    where_met,
    without_nullif,
)
from dqsql.dialect import call, formula
from dqsql.model.plan import Bounds, Check, FrequencyTable, Metric, Plan, StateColumn


@dataclass(frozen=True)
class FailingRows:
    """The rows that fail a check.

    They meet `condition`, or have a value (or tuple) of one of `unique` that occurs more than once
    in the batch, or one of the several values (the last column of a table of `dependent`) that
    their determinant (the other columns) has in the batch. `strict` is the part of the condition
    that the check allows no row to meet: such rows fail it whatever the others are like.
    """

    check: Check
    condition: exp.Expr | None
    unique: tuple[FrequencyTable, ...] = ()
    strict: exp.Expr | None = None
    dependent: tuple[FrequencyTable, ...] = ()


def failing_rows(plan: Plan, check: Check) -> FailingRows | None:
    """Which rows fail a check, None for a check that is not about rows."""
    states = {s.name: s for s in plan.states}
    conditions: list[exp.Expr] = []
    strict: list[exp.Expr] = []
    unique: list[FrequencyTable] = []
    dependent: list[FrequencyTable] = []
    for part in conjuncts(check.predicate if check.rows is None else check.rows):
        names = {c.name for c in part.find_all(exp.Column)}
        if len(names) != 1:
            continue
        alias = names.pop()
        bounds = bounds_of(part)
        if bounds is None:
            continue
        metric = plan.known_metric(alias)
        if metric is None:
            # A field of a metric that is a struct, such as the number behind a histogram.
            continue
        much = bounds.lower is not None and bounds.lower > 0
        if much and (share := _share(metric, states)) is not None:
            conditions.append(share)
        elif bounds.upper is not None and (counted := _counted(metric, states)) is not None:
            conditions.append(counted)
        elif bounds.upper == 0 and (table := _duplicates(metric, states)) is not None:
            unique.append(table)
            continue
        elif bounds.upper is not None and (table := _dependency(metric, states)) is not None:
            dependent.append(table)
            continue
        else:
            continue
        if check.rows is None and _allows_none(bounds, much):
            strict.append(conditions[-1])
    if not conditions and not unique and not dependent:
        return None
    return FailingRows(check, _any(conditions), tuple(unique), _any(strict), tuple(dependent))


def _any(conditions: list[exp.Expr]) -> exp.Expr | None:
    return exp.or_(*conditions) if conditions else None


def _allows_none(bounds: Bounds, much: bool) -> bool:
    """Whether no row may fail: all of a share is demanded, or nothing of a count allowed."""
    if much:
        return bounds.lower is not None and bounds.lower >= 1
    return bounds.upper is not None and bounds.upper < 1


# --- what a metric counts ----------------------------------------------------------------------


def _share(metric: Metric, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The rows that are missing in `count(x) / nullif(count(*), 0)`."""
    ratio = metric.finish.unnest()
    if not isinstance(ratio, exp.Div):
        return None
    part = _count(ratio.this, states)
    whole = _count(without_nullif(ratio.expression), states)
    if part is None or whole is None or not counts_rows(whole):
        return None
    met = _met(part)
    outer, inner = _filter(whole), _filter(part)
    if met is None or inner != outer:
        return None
    return where_met(outer, exp.Not(this=exp.Paren(this=call("coalesce", met, exp.false()))))


def _counted(metric: Metric, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The rows that `count_if(condition)` counts, also where it is null without rows."""
    finish = metric.finish.unnest()
    if (
        isinstance(finish, exp.Case)
        and len(finish.args["ifs"]) == 1
        and not finish.args.get("default")
    ):
        finish = finish.args["ifs"][0].args["true"]
    aggregate = _count(finish, states)
    if aggregate is None or function_name(aggregate) != "count_if":
        return None
    met, outer = _met(aggregate), _filter(aggregate)
    return None if met is None else where_met(outer, met)


def _duplicates(metric: Metric, states: Mapping[str, StateColumn]) -> FrequencyTable | None:
    """The table of `frequency(sum(n - 1), ..)`, the number of rows too many, or of values.

    What `+ case .. end` adds is left aside: rows without any value, which are in no table.
    """
    finish = metric.finish.unnest()
    if isinstance(finish, exp.Add) and _is_zero_or_one(finish.expression.unnest()):
        finish = finish.this
    state = _state(finish, states)
    if state is None or state.frequency is None:
        return None
    counted = [_plain(formula(text)) for text in ("sum(n - 1)", "count_if(n > 1)")]
    return state.frequency if _plain(state.scan) in counted else None


def _dependency(metric: Metric, states: Mapping[str, StateColumn]) -> FrequencyTable | None:
    """The larger table of a difference of numbers of tuples: `(a, b)` less `(a)`."""
    finish = metric.finish.unnest()
    if not isinstance(finish, exp.Sub):
        return None
    tables = []
    for side in (finish.this, finish.expression):
        names = {c.name for c in side.find_all(exp.Column)}
        mine = [states[n] for n in names if n in states]
        if len(mine) != 1 or _plain(mine[0].scan) != "count(*)" or mine[0].frequency is None:
            return None
        tables.append(mine[0].frequency)
    pairs, keys = tables
    same = pairs.columns[:-1] == keys.columns and pairs.where == keys.where
    return pairs if same else None


def _is_zero_or_one(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Case) or node.args.get("default") is None:
        return False
    values = [branch.args["true"] for branch in node.args["ifs"]] + [node.args["default"]]
    return all(v.is_number and v.to_py() in (0, 1) for v in values)


def _plain(node: exp.Expr) -> str:
    return node.sql().replace('"', "").replace("`", "").lower()


def _state(node: exp.Expr, states: Mapping[str, StateColumn]) -> StateColumn | None:
    node = node.unnest()
    if called(node) == "coalesce":
        node = node.expressions[0].unnest()
    return states.get(node.name) if isinstance(node, exp.Column) else None


def _count(node: exp.Expr, states: Mapping[str, StateColumn]) -> exp.Expr | None:
    """The aggregate over the model's rows behind an operand."""
    state = _state(node, states)
    # What is taken over anything else has nothing to say about this relation's rows.
    return state.scan if state is not None and state.source is None else None


def _filter(aggregate: exp.Expr) -> exp.Expr | None:
    where: exp.Expr | None = (
        aggregate.expression.this if isinstance(aggregate, exp.Filter) else None
    )
    return where


def _met(aggregate: exp.Expr) -> exp.Expr | None:
    """The condition under which a row is counted, a FILTER aside."""
    counted = only_argument(aggregate)
    if counted is None or isinstance(counted, exp.Star | exp.Distinct):
        return None
    if function_name(aggregate) == "count_if":
        return exp.Paren(this=counted.copy())
    return not_null(counted.copy()) if function_name(aggregate) == "count" else None
