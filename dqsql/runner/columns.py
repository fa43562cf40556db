"""Plans by the columns that Spark tells, of models whose text does not name them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dqsql.compiler.auto import lacks_columns
from dqsql.model.plan import Plan
from dqsql.runner.auto import is_open, with_columns, with_columns_of_spark
from dqsql.runner.compilation import CompileResult, recompiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.lazy_session import LazySession


def with_learned_columns(compiled: CompileResult, session: LazySession) -> CompileResult:
    """Ask Spark for the columns of what is watched automatically, where nothing names them."""
    names = {p.model.name for p in compiled.plans if lacks_columns(p.model)}
    if not names:
        return compiled
    project = with_columns_of_spark(compiled.project, names, session())
    return recompiled(compiled, project, names)


def by_columns_of_now(compiled: CompileResult, plan: Plan, spark: SparkSession) -> Plan:
    """The plan of a registered model, by the columns that it has now.

    It was compiled by those of the run before. Raises DqsqlError: Spark cannot tell them.
    """
    from dqsql.compiler.keys import model_view
    from dqsql.engine.relations import column_types

    model = plan.model
    if not is_open(model):
        return plan
    columns = tuple(column_types(spark, model_view(model), model.name))
    if columns == model.columns:
        return plan
    now = with_columns(model, columns)
    models = tuple(now if m.name == model.name else m for m in compiled.project.models)
    project = replace(compiled.project, models=models)
    plans = recompiled(compiled, project, [model.name]).plans
    return next(p for p in plans if p.model.name == model.name)
