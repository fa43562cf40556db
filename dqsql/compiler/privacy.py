"""Columns whose values are stored nowhere."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError
from dqsql.model.plan import FrequencyTable
from dqsql.model.project import Annotation, CheckModel


def is_private(table: FrequencyTable, private: Collection[str]) -> bool:
    """Whether values of a frequency table are of one of the `private` columns (in lower case)."""
    names = {p.name.lower() for c in table.columns for r in c.find_all(exp.Column) for p in r.parts}
    return not names.isdisjoint(private)


def pii_columns(model: CheckModel) -> frozenset[str]:
    """The columns that must never be stored, in lower case."""
    marked = [c for a in model.annotations if a.settings.pii for c in _about(a)]
    return frozenset(name.lower() for name in (*model.config.pii, *marked))


def _about(annotation: Annotation) -> Collection[str]:
    """The columns that an annotation is about; every name in it where that is not said."""
    if annotation.column is not None:
        return [annotation.column]
    try:
        ast = parse_expression(annotation.expression, annotation.span)
    except DqsqlError:
        return annotation.candidates
    names = {part.name for c in ast.find_all(exp.Column) for part in c.parts}
    return [*annotation.candidates, *names]
