"""Compiles models with adopted tests of dbt; a test that does not compile is left to dbt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dqsql.compiler.auto import features_of
from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import compile_model
from dqsql.model.plan import Plan
from dqsql.model.project import DBT_TEST, Annotation, CheckModel, LeftTest, Project, Target
from dqsql.model.results import Result, Status
from dqsql.runner.verdicts import LEFT_TO_DBT

_TIME_ZONE = "spark.sql.session.timeZone"
_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")


@dataclass(frozen=True)
class CompiledModel:
    """A plan, and the tests that are left to dbt since they cannot be part of it."""

    plan: Plan
    left: tuple[LeftTest, ...] = ()


def is_checked(model: CheckModel) -> bool:
    """Whether a run has anything to do with a model: of dbt's, most have no checks."""
    wanted = model.relation is None or model.annotations or features_of(model)
    return model.config.enabled and bool(wanted)


def compile_adopted(model: CheckModel, project: Project, catalog: Catalog) -> CompiledModel:
    """Compile a model. What is wrong with the user's own annotations lands in the plan."""
    plan = compile_model(model, project, catalog)
    if not plan.rejected or not any(_test(a) for a in model.annotations):
        return CompiledModel(plan)
    left = _left(model, project, catalog)
    kept = tuple(a for a in model.annotations if _test(a) not in left)
    rest = compile_model(replace(model, annotations=kept), project, catalog)
    return CompiledModel(rest, tuple(left.values()))


def project_warnings(project: Project) -> tuple[str, ...]:
    """What a person should know after a run: stale files, tests that are left to dbt."""
    warnings = (*project.warnings, *_time_zone(project.target))
    of_dbt = [m for m in project.models if m.relation is not None]
    if of_dbt and not any(m.annotations for m in of_dbt):
        return (
            *warnings,
            "no model has an annotation; `--dbt-tests` adopts the generic tests of the project",
        )
    left = sum(not t.unique_id.startswith("source.") for t in project.left_tests)
    if not left:
        return warnings
    tests = "1 test of dbt is" if left == 1 else f"{left} tests of dbt are"
    return (
        *warnings,
        f"{tests} left to `dbt test`; `dqsql ls --dbt-tests --resource-type left_test` says which"
        " and why",
    )


def _time_zone(target: Target) -> tuple[str, ...]:
    """A time zone that the target asks for in vain: batches must not move with the session."""
    zone = target.spark_conf.get(_TIME_ZONE, "UTC")
    if zone.upper() in _UTC:
        return ()
    return (
        f"{_TIME_ZONE} is {zone} for the target {target.name!r}, and dqsql works in UTC;"
        f" from_utc_timestamp(the_column, '{zone}') in a SELECT gives the times of that zone",
    )


def left_while_running(results: Iterable[Result]) -> tuple[str, ...]:
    """Sentences about the adopted tests that only the data's types showed to be dbt's."""
    found = {
        r.check_name: r.message.removeprefix(LEFT_TO_DBT)
        for r in results
        if r.status is Status.SKIPPED and r.message.startswith(LEFT_TO_DBT)
    }
    return tuple(f"{name} is left to `dbt test`: {reason}" for name, reason in found.items())


def _test(annotation: Annotation) -> str | None:
    found = annotation.settings.options.get(DBT_TEST)
    return None if found is None else str(found)


def _left(model: CheckModel, project: Project, catalog: Catalog) -> dict[str | None, LeftTest]:
    """The adopted tests that do not compile, by unique id: each is tried alone."""
    found: dict[str | None, LeftTest] = {}
    for annotation in model.annotations:
        unique_id = _test(annotation)
        if unique_id is None or unique_id in found:
            continue
        alone = replace(model, annotations=(annotation,))
        errors = compile_model(alone, project, catalog).rejected
        if errors:
            name = annotation.settings.name or unique_id
            found[unique_id] = LeftTest(unique_id, name, errors[0].message)
    return found
