"""Totals of decimals in the type of the sum that they are totals of.

Spark's sum of decimals has ten digits more than what it sums, and so has a sum of such sums. A
quotient of what has 38 digits keeps the least number of decimals, six, so that the mean over
segments or batches would be another one than over the same rows at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.keys import model_view
from dqsql.compiler.trees import function_name, nodes
from dqsql.dialect import formula, to_sql
from dqsql.engine.relations import expression_types
from dqsql.errors import DqsqlError
from dqsql.model.plan import Plan, StateColumn
from dqsql.model.project import Scope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUMS = ("sum", "try_sum")
# With more digits a sum has 38, whatever is added to it.
_NARROW = re.compile(r"decimal\((?!38,)\d+,\d+\)")


def with_narrow_totals(
    states: Sequence[StateColumn], plan: Plan, spark: SparkSession, types: Mapping[str, str]
) -> tuple[StateColumn, ...]:
    """The states of a plan; sums of decimals merge to the type that they have.

    A total that does not fit into it is null, as a sum is that does not fit. `types` are the Spark
    types of the model's columns.
    """
    merges = plan.model.config.segment_by or any(m.scope is Scope.CUMULATIVE for m in plan.metrics)
    lower = {name.lower(): kind for name, kind in types.items()}
    sums = [s for s in states if merges and _adds_decimals(s, lower)]
    if not sums:
        return tuple(states)
    texts = [to_sql(s.scan) for s in sums]
    try:
        kinds = expression_types(spark, model_view(plan.model), texts, plan.model.name)
    except DqsqlError:
        # Which of them Spark refuses is told when they are analysed.
        return tuple(states)
    narrow = {s.name: k for s, k in zip(sums, kinds, strict=True) if _NARROW.fullmatch(k)}
    return tuple(_narrowed(s, narrow[s.name]) if s.name in narrow else s for s in states)


def _adds_decimals(state: StateColumn, types: Mapping[str, str]) -> bool:
    if state.source is not None or state.merge is None or function_name(state.scan) not in _SUMS:
        return False
    kinds = [types.get(c.parts[0].name.lower(), "") for c in nodes(state.scan, exp.Column)]
    return "" not in kinds and any("decimal(" in kind for kind in kinds)


def _narrowed(state: StateColumn, kind: str) -> StateColumn:
    assert state.merge is not None
    return replace(state, merge=formula(f"try_cast({{0}} as {kind})", state.merge))
