"""The rows that dbt's query of a failing test returns, where these are not the failing rows.

`accepted_values` fails for each row with another value, and dbt reports the values. The scan counts
rows, since to count values takes a pass of its own; that is made here, for tests that fail only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.keys import batch_text, model_table
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import formula, parse_expression
from dqsql.errors import EngineError
from dqsql.model.plan import Check, Plan
from dqsql.model.project import DBT_VALUES, CheckModel
from dqsql.model.results import Result, Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAILING = (Status.FAIL, Status.WARN)


@dataclass(frozen=True)
class Returned:
    """Rows by check, what went wrong, and how often the model was read."""

    rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scans: int = 0


def returned_rows(
    plan: Plan,
    spark: SparkSession,
    results: Sequence[Result],
    filter_of: Callable[[tuple[str, ...]], BatchFilter],
) -> Returned:
    """Count the rows of all failing tests of a model together.

    `filter_of` gives the condition of batches. What cannot be counted is a note, not an error: the
    verdicts stand.
    """
    of_values = {c.id: c for c in plan.checks if DBT_VALUES in c.settings.options}
    failed: dict[str, set[str]] = {}
    for result in results:
        if result.check_id in of_values and result.status in _FAILING and result.batch is not None:
            failed.setdefault(result.check_id, set()).add(result.batch)
    if not failed:
        return Returned()
    from dqsql.engine.discovery import count_values

    batches = filter_of(tuple(sorted(set().union(*failed.values()))))
    query = _query(plan.model, [(of_values[i], found) for i, found in failed.items()], batches)
    try:
        (row,) = count_values(spark, plan.model.name, query)
    except EngineError as error:
        return Returned(notes=(error.message,), scans=1)
    return Returned({i: int(row[f"n{at}"]) for at, i in enumerate(failed)}, scans=1)


def _query(
    model: CheckModel, failed: Sequence[tuple[Check, set[str]]], batches: BatchFilter
) -> exp.Select:
    """One row with the distinct values of each check, over the batches in which it failed."""
    query = exp.Select()
    for at, (check, mine) in enumerate(failed):
        value = parse_expression(str(check.settings.options[DBT_VALUES]))
        if check.settings.where is not None:
            condition = exp.Paren(this=parse_expression(check.settings.where))
            value = formula("case when {0} then {1} end", condition, value)
        text = batch_text(model)
        if text is not None and mine != set(batches.batches):
            names = [exp.Literal.string(b) for b in sorted(mine)]
            mine_only = exp.In(this=text, expressions=names)
            value = formula("case when {0} then {1} end", mine_only, value)
        query = query.select(exp.alias_(formula("count(distinct {0})", value), f"n{at}"))
    query = query.from_(model_table(model))
    restricted = batches.condition(model)
    return query if restricted is None else query.where(restricted)
