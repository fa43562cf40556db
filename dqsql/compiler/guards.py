"""What is computed of a row only where the row meets a condition.

An aggregate's FILTER is no guard: Spark computes expressions that occur more than once (`count_if`
doubles its argument) ahead of it, for every row. `count_if(int(s) > 0) FILTER (WHERE s rlike '..')`
fails in ANSI mode on the very texts that are left out. Branches of a CASE are computed when taken.
"""

from __future__ import annotations

from sqlglot import exp


def where_met(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """The value where the condition is met, else null."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def guarded(scan: exp.Expr) -> exp.Expr:
    """An expression over aggregates whose filtered ones compute nothing of the rows left out."""
    if scan.find(exp.Filter) is None:
        return scan
    scan = scan.copy()
    for node in list(scan.find_all(exp.Filter)):
        _guard(node.this, node.expression.this)
    return scan


def _guard(aggregate: exp.Expr, condition: exp.Expr) -> None:
    if isinstance(aggregate, exp.Anonymous):
        arguments = [_argument(a, condition) for a in aggregate.expressions]
        aggregate.set("expressions", arguments)
        return
    # WITHIN GROUP (ORDER BY value), IGNORE NULLS.
    for ordered in aggregate.find_all(exp.Ordered):
        ordered.set("this", _argument(ordered.this, condition))
    _guard(aggregate.this, condition)


def _argument(argument: exp.Expr, condition: exp.Expr) -> exp.Expr:
    if isinstance(argument, exp.Distinct):
        argument.set("expressions", [_argument(a, condition) for a in argument.expressions])
        return argument
    # Sizes of sketches and the like must stay literals.
    return where_met(condition, argument.copy()) if argument.find(exp.Column) else argument
