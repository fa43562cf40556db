"""Columns of models that `monitors: auto` watches and whose text does not name them.

Spark knows them. They are kept in `target/columns.json`, so that `dqsql ls` and others list what is
watched without Spark; each run brings the file up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dqsql.compiler.auto import SETTING, features_of, lacks_columns
from dqsql.errors import DqsqlError, Span
from dqsql.json_text import read_json
from dqsql.model.monitors import COLUMN_TYPES
from dqsql.model.project import CheckModel, Project, Projection
from dqsql.report.artefacts import write_atomically

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "columns.json"
# What is watched without anybody's asking may not cry wolf more often.
_BUDGET, AUTO_BUDGET = "false_alarm_budget", "1 per week"


def with_auto_monitors(project: Project) -> Project:
    """The project with `monitors` of the project in its models, and the columns of the last run.

    The columns are those of models whose text does not name them.
    """
    wanted = project.settings.get(SETTING)
    if wanted is not None:
        project = replace(project, models=tuple(_wanting(m, wanted) for m in project.models))
    project = with_alarm_budget(project)
    if not any(map(lacks_columns, project.models)):
        return project
    known = _stored(project)
    models = (with_columns(m, known.get(m.name)) for m in project.models)
    return replace(project, models=tuple(models))


def with_alarm_budget(project: Project) -> Project:
    """The project with a budget of false alarms, if it watches models automatically."""
    if _BUDGET in project.settings or not any(map(features_of, project.models)):
        return project
    return replace(project, settings={**project.settings, _BUDGET: AUTO_BUDGET})


def with_columns_of_spark(project: Project, names: Iterable[str], spark: SparkSession) -> Project:
    """The project with the columns of some models as Spark tells them.

    Models that Spark cannot read stay as they are: that is told when they are checked.
    """
    from dqsql.compiler.keys import model_view
    from dqsql.engine.relations import column_types, register_model

    types: dict[str, Mapping[str, str]] = {}
    wanted = set(names)
    for model in project.models:
        if model.name not in wanted or not lacks_columns(model):
            continue
        try:
            register_model(spark, project, model)
            types[model.name] = column_types(spark, model_view(model), model.name)
        except DqsqlError:
            continue
    models = (with_columns(m, types.get(m.name)) for m in project.models)
    return replace(project, models=tuple(models))


def keep_columns(project: Project, seen: Mapping[str, Mapping[str, str]]) -> None:
    """Remember the columns, with types, by model, of models whose text does not name them."""
    open_ones = {m.name for m in project.models if is_open(m)}
    known = _stored(project)
    now = {**known, **{m: dict(c) for m, c in seen.items() if m in open_ones and c}}
    if now != known:
        project.target_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(project.target_dir / _FILE, json.dumps(now, indent=1))


def with_columns(model: CheckModel, columns: Mapping[str, str] | None) -> CheckModel:
    """A model with the columns that Spark knows, with types, where its text does not name them."""
    if columns is None or not is_open(model):
        return model
    place = Span(model.path)
    extra = {**model.config.extra, COLUMN_TYPES: dict(columns)}
    config = replace(model.config, extra=extra)
    named = tuple(Projection(name, place) for name in columns)
    return replace(model, config=config, projections=named)


def is_open(model: CheckModel) -> bool:
    """Whether a model is watched by columns that its text does not name."""
    return lacks_columns(model) or COLUMN_TYPES in model.config.extra


def _stored(project: Project) -> dict[str, dict[str, str]]:
    file = project.target_dir / _FILE
    if not file.is_file():
        return {}
    try:
        columns: dict[str, dict[str, str]] = read_json(file, {...: {...: str}})
    except (OSError, ValueError):
        # It is only a memory: the next run writes it anew.
        return {}
    return columns


def _wanting(model: CheckModel, wanted: object) -> CheckModel:
    extra = {SETTING: wanted, **model.config.extra}
    return replace(model, config=replace(model.config, extra=extra))
