"""Predicates: an expanded expression cut at the metrics that it compares.

What macros were expanded to carries marks: the name of a metric, by which it is stored and shown,
and that of a check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.arguments import plain
from dqsql.compiler.comparisons import COMPARISONS
from dqsql.compiler.misuse import is_numeric, locate
from dqsql.compiler.references import AS_WRITTEN
from dqsql.compiler.trees import filtered_by, has_aggregate, map_aggregates, map_children
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.metric_traits import ValueRange

RangeOf = Callable[[str], ValueRange | None]
"""The range of a metric, by its name."""

# Marks of what macros were expanded to: a Label, the name of a check.
METRIC, CHECK = "metric", "check"
_CONNECTORS = (exp.And, exp.Or, exp.Not, exp.Paren)
_SPLIT = (
    *_CONNECTORS,
    *COMPARISONS,
    *(exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Like, exp.RegexpLike),
)


@dataclass(frozen=True)
class Label:
    """The name of a metric macro's expansion, kept on its AST node."""

    name: str
    column: str | None
    parameters: str
    text: str

    def __deepcopy__(self, memo: dict[int, object]) -> Label:
        """Itself: copies of a tree, of which there are many, copy what is kept on its nodes."""
        return self


@dataclass(frozen=True)
class MetricUse(Label):
    """A metric as it occurs in a check: how to name it, and its SQL over the model's rows."""

    sql: exp.Expr


@dataclass(frozen=True)
class Predicate:
    """A boolean expression whose operands `m[i]` stand for `metrics[i]`."""

    ast: exp.Expr
    metrics: tuple[MetricUse, ...]


def placeholder(index: int) -> exp.Column:
    """The stand-in for metric number `index` in a `Predicate`."""
    return exp.Column(this=exp.to_identifier(f"metric#{index}", quoted=True))


def split(ast: exp.Expr, home: str | None, span: Span) -> Predicate:
    """Cut an expanded expression into a predicate and the metrics that it compares.

    The operands of comparisons become the metrics: a metric macro's expansion under its own name,
    any other expression of aggregates under its SQL text.
    """
    metrics: list[MetricUse] = []

    def operand(node: exp.Expr) -> exp.Expr:
        use = _metric_use(node, home)
        known = [i for i, m in enumerate(metrics) if m.text == use.text]
        if not known:
            metrics.append(use)
        return placeholder(known[0] if known else len(metrics) - 1)

    def visit(node: exp.Expr) -> exp.Expr:
        is_metric = METRIC in node.meta
        if isinstance(node, _SPLIT) and not is_metric:
            return map_children(node, visit)
        return operand(node) if is_metric or has_aggregate(node) else node

    predicate = visit(ast)
    if not metrics:
        raise CompileError(
            f"the check {to_sql(ast)} does not compare a metric",
            span=span,
            hint="use a metric or an aggregate, or @satisfies(..) for a condition on every row",
        )
    for name in predicate.find_all(exp.Column):
        if not name.name.startswith("metric#"):
            raise CompileError(
                f"{to_sql(name)} is outside an aggregate",
                span=locate(span, name.name),
                hint="use an aggregate of it, or @satisfies(..) for a condition on every row",
            )
    return Predicate(predicate, tuple(metrics))


def require_conditions(node: exp.Expr, range_of: RangeOf, span: Span) -> None:
    """Refuse a number where a condition must stand: `@expect(sum(x))`. Raises CompileError."""
    label: Label | None = node.meta.get(METRIC)
    if isinstance(node, _CONNECTORS) and label is None:
        for child in node.iter_expressions():
            require_conditions(child, range_of, span)
        return
    is_number = label is not None and range_of(label.name) is not None
    if is_number or (is_numeric(node) and has_aggregate(node)):
        text = _display(node)
        raise CompileError(
            f"{text} is a number, not a condition",
            span=span,
            hint=f"compare it, for example: @expect({text} > 0)",
        )


def metric_name(node: exp.Expr) -> str | None:
    """The name of the metric macro that a node is the expansion of."""
    label: Label | None = node.meta.get(METRIC)
    return label.name if label is not None else None


def _metric_use(node: exp.Expr, home: str | None) -> MetricUse:
    label: Label | None = node.meta.get(METRIC)
    if label is not None:
        return MetricUse(label.name, label.column, label.parameters, label.text, node)
    labels = [n.meta[METRIC] for n in node.find_all(exp.Paren) if METRIC in n.meta]
    text = _display(node)
    about = {label.column for label in labels}
    return MetricUse(text, about.pop() if len(about) == 1 else home, "", text, node)


def _display(node: exp.Expr) -> str:
    """The expression as a user would write it: metric macros and relations by their names."""

    def rename(part: exp.Expr) -> exp.Expr:
        label: Label | None = part.meta.get(METRIC)
        if label is not None:
            return exp.Var(this=label.text)
        if AS_WRITTEN in part.meta:
            part = part.meta[AS_WRITTEN]
        if isinstance(part, exp.Column):
            return exp.Var(this=plain(part))
        return map_children(part, rename)

    return to_sql(rename(node))


def restrict(ast: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """Restrict every aggregate of the expression to the rows that meet the condition."""
    restricted = map_aggregates(ast, lambda aggregate: filtered_by(aggregate, condition))
    text = to_sql(condition)
    for node in restricted.find_all(exp.Paren):
        label: Label | None = node.meta.get(METRIC)
        if label is not None:
            suffix = f"where {text}"
            node.meta[METRIC] = replace(
                label,
                parameters=f"{label.parameters} {suffix}".strip(),
                text=f"{label.text} {suffix}",
            )
    return restricted
