"""Tables that have no check file, watched as check models of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from dqsql.compiler.adoption import is_checked
from dqsql.compiler.auto import SETTING
from dqsql.dialect import quoted
from dqsql.engine.ledger import gone_models
from dqsql.errors import Span, UsageError
from dqsql.model.monitors import AUTO
from dqsql.model.project import CheckModel, ModelConfig, Project, Projection
from dqsql.model.results import BatchRecord
from dqsql.model.tables import MODELS
from dqsql.monitors.auto import with_alarm_budget
from dqsql.monitors.lake import Lake
from dqsql.runner.compilation import CompileResult, compile_project, recompiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


def compile_tables(
    project_dir: str | PathLike[str],
    names: Sequence[str],
    spark: SparkSession,
    *,
    batch_by: str | None = None,
    **where: Any,
) -> CompileResult:
    """Compile a check model for each table, with automatic monitors and nothing else.

    They are called `schema__table`. Where a table is partitioned by a date, its days are the
    batches, unless `batch_by` gives an expression. `sales.*` names all tables of a schema. Raises
    DqsqlError: the project is wrong, or there is no such table.
    """
    compiled = compile_project(project_dir, **where)
    project = compiled.project
    # What is wrong with a broken view is told when it is checked, beside the other tables.
    broken: list[str] = []
    frames = Lake(project, spark, 1, unreadable=broken).frames(names)
    columns: dict[str, Sequence[str]] = {n: f.columns for n, f in frames.items()}
    columns |= dict.fromkeys(broken, ())
    if not columns:
        raise UsageError(f"no table is called {', '.join(names)}", hint="name a schema: 'sales.*'")
    files = {s.full_name for s in project.sources if s.path is not None}
    for name in columns:
        if name in files or "/" in name:
            raise UsageError(
                f"{name} is of files, and --auto is about tables of the catalog",
                hint="a model with config(monitors = 'auto') watches a source",
            )
    taken = {m.name.lower() for m in project.models}
    models = [
        _model(name, own, batch_by or _day_of(spark, name))
        for name, own in columns.items()
        if _model_name(name).lower() not in taken
    ]
    whole = with_alarm_budget(replace(project, models=(*project.models, *models)))
    empty = replace(compiled, project=whole, plans=(), queries={}, errors=())
    return recompiled(empty, whole, [m.name for m in models])


def with_watched_tables(project: Project, store: Store) -> Project:
    """The project with a check model for each table that earlier runs watched without a file.

    In dq_models the path of such a model is the name of its table.
    """
    taken = {m.name.lower() for m in project.models}
    watched = {
        row["model"]: _model(row["path"], (), row["batch_by"])
        for row in store.rows(MODELS)
        if row["valid_to"] is None and row["model"] == _model_name(row["path"] or "")
    }
    added = (m for name, m in sorted(watched.items()) if name.lower() not in taken)
    return replace(project, models=(*project.models, *added))


def _model(name: str, columns: Iterable[str], batch_by: str | None) -> CheckModel:
    relation = quoted(*name.split("."))
    place = Span(name)
    return CheckModel(
        name=_model_name(name),
        path=name,
        raw_sql="",
        sql=f"select * from {relation}",
        config=ModelConfig(batch_by=batch_by, extra={SETTING: AUTO}),
        projections=tuple(Projection(c, place) for c in columns),
        annotations=(),
        line_map=(1,),
        relation=relation,
    )


def _model_name(name: str) -> str:
    return "__".join(re.sub(r"\W+", "_", part) for part in name.split("."))


def _day_of(spark: SparkSession, name: str) -> str | None:
    """The column of dates that a table is partitioned by, if it is by one."""
    from dqsql.engine.failures import SPARK_FAILURES

    try:
        columns = spark.catalog.listColumns(quoted(*name.split(".")))
    except SPARK_FAILURES:
        # Some catalogs do not tell.
        return None
    days = [c.name for c in columns if c.isPartition and c.dataType == "date"]
    return quoted(days[0]) if len(days) == 1 else None


def gone_names(
    project: Project, store: Store, ledgers: Mapping[str, Mapping[str, BatchRecord]]
) -> list[str]:
    """The models that a project had, and has no more, or without any check."""
    checked = (m for m in project.models if is_checked(m) or m.name in project.broken)
    existing = {m.name for m in checked if m.config.enabled}
    gone = gone_models(store, ledgers, existing, project.name)
    if not gone:
        return []
    # Tables are watched without a file.
    watched = {m.name for m in with_watched_tables(project, store).models}
    watched.difference_update(m.name for m in project.models)
    return [name for name in gone if name not in watched]
