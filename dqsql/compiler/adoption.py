"""Compiles models with adopted tests of dbt; a test that does not compile is left to dbt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dqsql.compiler.auto import features_of
from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import compile_model
from dqsql.model.plan import Plan
from dqsql.model.project import DBT_TEST, Annotation, CheckModel, LeftTest, Project


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


def _test(annotation: Annotation) -> str | None:
    test_id = annotation.settings.options.get(DBT_TEST)
    return None if test_id is None else str(test_id)


def _left(model: CheckModel, project: Project, catalog: Catalog) -> dict[str | None, LeftTest]:
    """The adopted tests that do not compile, by unique id: each is tried alone."""
    left_tests: dict[str | None, LeftTest] = {}
    for annotation in model.annotations:
        unique_id = _test(annotation)
        if unique_id is None or unique_id in left_tests:
            continue
        trial_model = replace(model, annotations=(annotation,))
        errors = compile_model(trial_model, project, catalog).rejected
        if errors:
            name = annotation.settings.name or unique_id
            left_tests[unique_id] = LeftTest(unique_id, name, errors[0].message)
    return left_tests
