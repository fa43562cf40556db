"""Which check models can be scanned together: those that read the same rows of one relation.

Their SELECTs only name columns, or compute them from single rows, behind the same filter. So one
SELECT with the columns of all has the rows of each. A SELECT that does more (joins, aggregates,
subqueries, windows, functions that are not known to give one value for each row) is read by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.segments import has_only, is_of_a_row
from dqsql.dialect import check_fidelity, parse_statement, to_sql, tokenize
from dqsql.errors import UnsupportedExpressionError
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel

# Statements of more are slow to plan, and their rows of states wide.
_MOST_STATES = 400
# Functions of SQL's own grammar; others are words with arguments.
_GRAMMAR = (exp.Cast, exp.Case, exp.If, exp.Connector, exp.Anonymous)


@dataclass(frozen=True)
class SharedRows:
    """Models that read the same rows, and a model that selects the columns of all of them."""

    plans: tuple[Plan, ...]
    reader: CheckModel


@dataclass(frozen=True)
class _Selection:
    """The rows and columns that a SELECT takes from a relation.

    `rows` is equal for the same rows. `columns` are the output columns by their names in lower
    case; None stands for those of the relation, as they are.
    """

    rows: tuple[object, ...]
    query: exp.Select
    columns: Mapping[str, exp.Expr] | None

    @property
    def is_named(self) -> bool:
        """Whether all columns are the relation's, under their own names."""
        columns = self.columns or {}
        return all(
            isinstance(c, exp.Column) and has_only(c, "this") and c.name.lower() == name
            for name, c in columns.items()
        )

    def with_columns_of(self, other: _Selection) -> _Selection | None:
        """The selection of the columns of both; None where a name means two things."""
        if self.columns is None or other.columns is None:
            widest = self if self.columns is None else other
            return widest if self.is_named and other.is_named else None
        both = {**self.columns, **other.columns}
        same = all(both[name].unalias() == c.unalias() for name, c in self.columns.items())
        return replace(self, columns=both) if same else None


def shared_rows(plans: Iterable[Plan]) -> list[SharedRows]:
    """The groups of two or more plans that can be scanned together, in their order."""
    plans = list(plans)
    # A SELECT takes milliseconds to parse, and most models are alone with what they read.
    readers = Counter(_read(plan.model) for plan in plans)
    groups: list[tuple[_Selection, list[Plan]]] = []
    for plan in plans:
        own_selection = _selection(plan.model) if readers[_read(plan.model)] > 1 else None
        if own_selection is None:
            continue
        for place, (selection, members) in enumerate(groups):
            both = (
                selection.with_columns_of(own_selection)
                if selection.rows == own_selection.rows
                else None
            )
            states = sum(len(member.states) for member in (*members, plan))
            if both is not None and states <= _MOST_STATES:
                groups[place] = both, [*members, plan]
                break
        else:
            groups.append((own_selection, [plan]))
    return [SharedRows(tuple(m), _reader(s, m)) for s, m in groups if len(m) > 1]


def _read(model: CheckModel) -> tuple[object, ...]:
    """What a model reads, as far as that is known of its text: equal for models of one group."""
    return (model.depends_on, model.config.batch_by)


def _reader(selection: _Selection, plans: list[Plan]) -> CheckModel:
    """The model that selects the columns of all; of the relation's, by the text of one of them."""
    first = plans[0].model
    name = f"{first.name}: shared"
    if selection.columns is None:
        widest = (p.model for p in plans if _selection(p.model) == selection)
        return replace(next(widest), name=name)
    query = selection.query.copy()
    query.set("expressions", [c.copy() for c in selection.columns.values()])
    return replace(first, name=name, sql=to_sql(query), relation=None)


def _selection(model: CheckModel) -> _Selection | None:
    """What a model takes of a relation; None where its SELECT does more than that."""
    query, config = parse_statement(model.sql), model.config
    if not isinstance(query, exp.Select) or not has_only(query, "expressions", "from_", "where"):
        return None
    source, where = query.args.get("from_"), query.args.get("where")
    table = None if source is None else source.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return None
    alias = table.args.get("alias")
    plain = has_only(table, "this", "db", "catalog", "alias") and not (alias and alias.columns)
    parts = query.expressions if where is None else [*query.expressions, where]
    if config.segment_by or not plain or not all(map(_is_computed, parts)):
        return None
    try:
        check_fidelity(model.sql, tokenize(model.sql), query)
    except UnsupportedExpressionError:
        return None
    rows = (
        tuple(part.name for part in table.parts),
        table.alias,
        "" if where is None else to_sql(where),
        config.batch_by,
        pii_columns(model),
    )
    projections = query.expressions
    if len(projections) == 1 and isinstance(projections[0], exp.Star):
        return _Selection(rows, query, None) if has_only(projections[0]) else None
    columns = {p.alias_or_name.lower(): p for p in projections}
    named = len(columns) == len(projections) and "" not in columns
    return _Selection(rows, query, columns) if named and not query.is_star else None


def _is_computed(part: exp.Expr) -> bool:
    """Whether an expression gives one value for each row, and the same whenever it is computed."""
    is_complex = part.find(exp.Query, exp.Window, exp.Lambda) is not None
    functions = part.find_all(exp.Func)
    return not is_complex and is_of_a_row(part) and all(isinstance(f, _GRAMMAR) for f in functions)
