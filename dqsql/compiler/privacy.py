"""Columns whose values are shown and stored nowhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError
from dqsql.model.plan import FrequencyTable, Metric, StateColumn
from dqsql.model.project import Annotation, CheckModel, CheckSettings
from dqsql.model.types import is_number

# What monitors compare batches by: hashes in place of texts, and quantiles of numbers.
_PROFILES = frozenset({"value_profile", "pattern_profile", "quantile_profile"})


def is_private(table: FrequencyTable, private: Collection[str]) -> bool:
    """Whether values of a frequency table are of one of the `private` columns (in lower case)."""
    return _reads(table.columns, private)


def withheld(
    metrics: Iterable[Metric],
    states: Iterable[StateColumn],
    types: Mapping[str, str],
    private: Collection[str],
) -> frozenset[str]:
    """The aliases of metrics whose texts may hold values of `private` columns (in lower case).

    Those of extremes and histograms, not those that are made of numbers of rows. `types` gives the
    Spark types of the states.
    """
    telling = {
        s.name
        for s in states
        if _reads(s.over_rows, private) and not _is_told_as_number(types.get(s.name, ""))
    }
    return frozenset(
        m.alias for m in metrics if m.name not in _PROFILES and not telling.isdisjoint(m.states)
    )


def _is_told_as_number(spark_type: str) -> bool:
    return is_number(spark_type) or spark_type == "boolean"


def _reads(expressions: Iterable[exp.Expr], private: Collection[str]) -> bool:
    names = {
        part.name.lower()
        for expression in expressions
        for reference in expression.find_all(exp.Column)
        for part in reference.parts
    }
    return not names.isdisjoint(private)


def pii_columns(model: CheckModel) -> frozenset[str]:
    """The columns that must never be stored, in lower case."""
    marked = [c for a in model.annotations if a.settings.pii for c in _about(a)]
    return frozenset(name.lower() for name in (*model.config.pii, *marked))


def hides_values(model: CheckModel, column: str | None, settings: CheckSettings) -> bool:
    """Whether what is learned of a column's values is private: by these settings, or anywhere."""
    return settings.pii or (column is not None and column.lower() in pii_columns(model))


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
