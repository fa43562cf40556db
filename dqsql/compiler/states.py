"""Decomposition of metrics into state columns, shared between all metrics of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.aggregates.base import AggregateCall, Component
from dqsql.compiler.aggregates.registry import find, lower
from dqsql.compiler.keys import short_hash
from dqsql.compiler.trees import map_aggregates
from dqsql.dialect import column, to_sql
from dqsql.model.plain_names import quoted_in_lower_case
from dqsql.model.plan import Buffer, FrequencyTable, Relation, StateColumn

ROWS = "rows"
_MAX_STEM = 40
# The columns of a state row besides states and segments, in lower case.
ROW_COLUMNS = frozenset({"batch", "segment", "chunk", ROWS})


@dataclass
class StateRegistry:
    """Collects the state columns of a model; equal aggregates are scanned once.

    The state `rows` (the number of rows of the batch and segment) is always there. `relations` are
    the other relations that checks read, by their SQL text. `case_matters` says that columns may
    differ by letter case alone.

    A state column is named by what it holds: a word for readers, and a hash of the aggregate with
    its filter and of what it is taken over. So stored states mean the same whatever checks there
    are, and in whatever order they stand.
    """

    relations: Mapping[str, Relation] = field(default_factory=dict)
    case_matters: bool = False
    _by_identity: dict[str, StateColumn] = field(default_factory=dict)
    _by_name: dict[str, StateColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = exp.Anonymous(this="count", expressions=[exp.Star()])
        merge = exp.Anonymous(this="sum", expressions=[column(ROWS)])
        rows = StateColumn(ROWS, count, merge, Buffer.FIXED, (ROWS,))
        self._by_identity[self._identity(Component(ROWS, count, None))] = rows
        self._by_name[ROWS] = rows

    @property
    def states(self) -> tuple[StateColumn, ...]:
        """All state columns in order of registration."""
        return tuple(self._by_identity.values())

    def named(self, names: Iterable[str]) -> list[StateColumn]:
        """The state columns of some names."""
        return [self._by_name[name] for name in names]

    def finish(self, metric: exp.Expr) -> tuple[exp.Expr, tuple[str, ...]]:
        """Split a metric's expression: its finish over state columns, and the columns it reads."""
        used: list[str] = []
        metric = _canonical(metric)

        def reduce(aggregate: exp.Expr) -> exp.Expr:
            lowering = lower(AggregateCall.of(aggregate), self.relations)
            names = self._register(lowering.components, aggregate)
            used.extend(n for n in names if n not in used)
            return exp.Paren(this=lowering.finish([column(n) for n in names]))

        return map_aggregates(metric, reduce), tuple(used)

    def _register(self, components: tuple[Component, ...], aggregate: exp.Expr) -> tuple[str, ...]:
        stem = _stem(aggregate)
        if self.case_matters:
            components = tuple(map(_by_exact_names, components))
        keys = [self._identity(c) for c in components]
        known = [self._by_identity.get(key) for key in keys]
        names = tuple(
            state.name if state else f"{stem}__{c.suffix}_{short_hash(key)}"
            for state, c, key in zip(known, components, keys, strict=True)
        )
        for key, component, name in zip(keys, components, names, strict=True):
            if key not in self._by_identity:
                merge = component.merge(name, names) if component.merge else None
                self._by_identity[key] = self._by_name[name] = StateColumn(
                    name,
                    component.scan,
                    merge,
                    component.buffer,
                    _group(name, merge, names),
                    component.source,
                    component.whole_only,
                )
        return names

    def _identity(self, component: Component) -> str:
        """What makes two state columns the same: the aggregate, and what it is taken over, as text.

        The letter case of columns makes no difference, unless Spark tells them apart by it.
        """
        source = component.source
        over = () if source is None else (type(source).__name__, *source.identity)
        text = "\n".join([to_sql(component.scan), *map(_text, over)])
        return text if self.case_matters else quoted_in_lower_case(text)


def _canonical(metric: exp.Expr) -> exp.Expr:
    """The expression with every column quoted, so that equal aggregates read equal."""
    metric = metric.copy()
    for reference in metric.find_all(exp.Column):
        for part in reference.parts:
            part.set("quoted", True)
    return metric


def _group(name: str, merge: exp.Expr | None, names: Sequence[str]) -> tuple[str, ...]:
    """The state itself and those of its aggregate that its merge reads.

    Not all: a count that a mean is made of must not fail with the sum: other metrics share it.
    """
    read = {c.name for c in merge.find_all(exp.Column)} if merge is not None else set()
    return tuple(n for n in names if n == name or n in read)


def _by_exact_names(component: Component) -> Component:
    """The component with counts that no other spelling shares."""
    table = component.source
    if not isinstance(table, FrequencyTable):
        return component
    exact = short_hash("\n".join(map(_text, table.over_rows)))
    return replace(component, source=replace(table, about=exact))


def _text(part: object) -> str:
    return to_sql(part) if isinstance(part, exp.Expr) else str(part)


def _stem(aggregate: exp.Expr) -> str:
    """What the state column is about, in letters that every table format accepts."""
    call = AggregateCall.of(aggregate)
    rule = find(call.name)
    text = rule.subject(call) if rule else None
    args = rule.in_state(call.args) if rule else call.args
    if text is None:
        stars = not args or isinstance(args[0], exp.Star)
        text = "row" if stars else "_".join(to_sql(a).replace("`", "") for a in args)
        if call.where is not None:
            text = f"{text}_where_{to_sql(call.where)}"
    slug = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    return slug[:_MAX_STEM].strip("_") or "x"
