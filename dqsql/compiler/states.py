"""Decomposition of metrics into state columns, shared between all metrics of a model."""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.aggregates.base import AggregateCall, Component
from dqsql.compiler.aggregates.registry import find, lower
from dqsql.compiler.trees import map_aggregates
from dqsql.dialect import column, to_sql
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Buffer, Relation, StateColumn

ROWS = "rows"
_MAX_NAME = 60
# The columns of a state row besides states and segments, in lower case.
ROW_COLUMNS = frozenset({"batch", "segment", "chunk", ROWS})


@dataclass
class StateRegistry:
    """Collects the state columns of a model; equal aggregates are scanned once.

    The state `rows` (the number of rows of the batch and segment) is always there. `relations` are
    the other relations that checks read, by their SQL text; `segments` the columns of segments,
    which stand beside the states.
    """

    relations: Mapping[str, Relation] = field(default_factory=dict)
    segments: Sequence[str] = ()
    _by_scan: dict[Hashable, StateColumn] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        count = exp.Anonymous(this="count", expressions=[exp.Star()])
        merge = exp.Anonymous(this="sum", expressions=[column(ROWS)])
        rows = StateColumn(ROWS, count, merge, Buffer.FIXED, (ROWS,))
        self._by_scan[_identity(Component(ROWS, count, None))] = rows
        self._names |= {*ROW_COLUMNS, *(s.lower() for s in self.segments)}

    @property
    def states(self) -> tuple[StateColumn, ...]:
        """All state columns in order of registration."""
        return tuple(self._by_scan.values())

    def finish(self, metric: exp.Expr) -> tuple[exp.Expr, tuple[str, ...]]:
        """Split a metric's expression: its finish over state columns, and the columns it reads."""
        used: list[str] = []
        metric = _canonical(metric)

        def reduce(aggregate: exp.Expr) -> exp.Expr:
            lowering = lower(_as_call(aggregate), self.relations)
            names = self._register(lowering.components, aggregate)
            used.extend(n for n in names if n not in used)
            return exp.Paren(this=lowering.finish([column(n) for n in names]))

        return map_aggregates(metric, reduce), tuple(used)

    def _register(self, components: tuple[Component, ...], aggregate: exp.Expr) -> tuple[str, ...]:
        stem = _stem(aggregate)
        keys = [_identity(c) for c in components]
        existing = [self._by_scan.get(key) for key in keys]
        names = tuple(
            state.name if state else self._free_name(stem, c.suffix)
            for state, c in zip(existing, components, strict=True)
        )
        for key, state, component, name in zip(keys, existing, components, names, strict=True):
            if state is None:
                merge = component.merge(name, names) if component.merge else None
                self._by_scan[key] = StateColumn(
                    name,
                    component.scan,
                    merge,
                    component.buffer,
                    _group(name, merge, names),
                    component.source,
                    component.whole_only,
                )
        return names

    def _free_name(self, stem: str, suffix: str) -> str:
        """A name that is unique without regard to case, as Spark compares names."""
        base = f"{stem}__{suffix}"
        name, number = base, 2
        while name.lower() in self._names:
            name, number = f"{base}_{number}", number + 1
        self._names.add(name.lower())
        return name


def _group(name: str, merge: exp.Expr | None, names: Sequence[str]) -> tuple[str, ...]:
    """The state itself and those of its aggregate that its merge reads.

    Not all: a count that a mean is made of must not fail with the sum: other metrics share it.
    """
    read = {c.name for c in merge.find_all(exp.Column)} if merge is not None else set()
    return tuple(n for n in names if n == name or n in read)


def _identity(component: Component) -> Hashable:
    """What makes two state columns the same: the aggregate, and what it is taken over.

    Expressions are equal where their trees are.
    """
    source = component.source
    return (component.scan, source.sql if isinstance(source, Relation) else source)


def _canonical(metric: exp.Expr) -> exp.Expr:
    """The expression with every column quoted, so that equal aggregates read equal."""
    metric = metric.copy()
    for reference in metric.find_all(exp.Column):
        for part in reference.parts:
            part.set("quoted", True)
    return metric


def _as_call(node: exp.Expr) -> AggregateCall:
    """Take an aggregate node apart."""
    where = within = None
    if isinstance(node, exp.Filter):
        where, node = node.expression.this, node.this
    if isinstance(node, exp.WithinGroup):
        within, node = node.expression, node.this
    if not isinstance(node, exp.Anonymous):
        raise UnsupportedExpressionError(f"dqsql cannot split the aggregate {to_sql(node)}")
    args = tuple(node.expressions)
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = tuple(args[0].expressions)
    return AggregateCall(str(node.this).lower(), args, distinct, where, within)


def _stem(aggregate: exp.Expr) -> str:
    """What the state column is about, as a name that every table format accepts."""
    call = _as_call(aggregate)
    rule = find(call.name)
    subject = rule.subject(call) if rule else None
    if rule:
        call = replace(call, args=tuple(rule.in_state(call.args)))
    if subject is not None:
        text, exact = subject, True
    elif not call.args or isinstance(call.args[0], exp.Star):
        text, exact = "row", True
    elif len(call.args) == 1 and isinstance(call.args[0], exp.Column):
        text, exact = call.args[0].sql(dialect="spark").replace("`", ""), True
    else:
        text, exact = "_".join(to_sql(a) for a in call.args), False
    if call.where is not None and subject is None:
        text, exact = f"{text}_where_{to_sql(call.where)}", False
    slug = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    if exact and slug == text.lower() and len(slug) <= _MAX_NAME:
        return slug
    digest = f"{zlib.crc32(text.encode()):08x}"
    return f"{slug[:_MAX_NAME]}_{digest}".lstrip("_")
