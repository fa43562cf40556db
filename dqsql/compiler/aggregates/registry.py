"""All aggregates that decompose: the only place that imports the files about them.

An aggregate that no file declares does not decompose: its value is kept per batch, never merged.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from sqlglot import exp

from dqsql.compiler import aggregates
from dqsql.compiler.aggregates import base
from dqsql.compiler.trees import called, filtered_by
from dqsql.dialect import call
from dqsql.model.functions import AGGREGATES, SCALARS
from dqsql.model.plan import Buffer

_BY_NAME: dict[str, base.Aggregate] = {}


def register(aggregate: base.Aggregate) -> None:
    """Make an aggregate known under all its names."""
    _BY_NAME.update(dict.fromkeys(aggregate.names, aggregate))
    AGGREGATES.update(aggregate.names)
    SCALARS.update(aggregate.words)


for _module in iter_modules(aggregates.__path__, f"{aggregates.__name__}."):
    if _module.name != __name__:
        for _declared in getattr(import_module(_module.name), "AGGREGATES", ()):
            register(_declared)


def names(*, own: bool) -> frozenset[str]:
    """The names of the aggregates that decompose: of dqsql's own, or of Spark's."""
    return frozenset(name for name, rule in _BY_NAME.items() if rule.own is own)


def find(name: str) -> base.Aggregate | None:
    """The aggregate of that name, in lower case; None for one that does not decompose."""
    return _BY_NAME.get(name)


def find_own(node: exp.Expr) -> base.Aggregate | None:
    """The aggregate of dqsql's own that a node calls; None for any other node."""
    aggregate = find(called(node))
    return aggregate if aggregate is not None and aggregate.own else None


def lower(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    """Split an aggregate into state, merge and finish; keep it whole where that cannot be done.

    `relations` are the other relations that the checks of the model read, by their SQL text.
    """
    rule, lowering = find(aggregate.name), None
    plain = not aggregate.distinct and aggregate.within_group is None
    if rule is not None and (
        rule.own or plain or (rule.distinct and aggregate.within_group is None)
    ):
        lowering = rule.lower(aggregate, relations)
    return lowering or _whole(aggregate)


def _whole(aggregate: base.AggregateCall) -> base.Lowering:
    """The aggregate as one value that does not merge."""
    args: list[exp.Expr] = [a.copy() for a in aggregate.args]
    if aggregate.distinct:
        args = [exp.Distinct(expressions=args)]
    node: exp.Expr = call(aggregate.name, *args)
    if aggregate.within_group is not None:
        node = exp.WithinGroup(this=node, expression=aggregate.within_group.copy())
    buffer = Buffer.DISTINCT if aggregate.distinct else Buffer.OBJECT
    suffix = f"{aggregate.name}_distinct" if aggregate.distinct else aggregate.name
    component = base.Component(suffix, filtered_by(node, aggregate.where), None, buffer)
    return base.Lowering((component,), base.first_state)


def with_scores(finishes: base.Finishes, relation: exp.Expr) -> tuple[base.Finishes, exp.Expr]:
    """Finishes and the relation that they read, with what aggregates compute by own queries."""
    for rule in dict.fromkeys(_BY_NAME.values()):
        if rule.scores is not None:
            finishes, relation = rule.scores(finishes, relation)
    return finishes, relation
