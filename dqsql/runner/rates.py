"""The false-positive rate of monitors that name none, from the project's budget of alarms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dqsql.compiler.plan import compile_model
from dqsql.decisions.budget import batches_per_week, shared_rate
from dqsql.engine.layout import batch_order
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchRecord
from dqsql.runner.adoption import is_checked
from dqsql.runner.compilation import catalog_of
from dqsql.runner.monitors.validation import SETTINGS

BUDGET = "false_alarm_budget"
DEFAULT_FPR = 0.01

Ledgers = Mapping[str, Mapping[str, BatchRecord]]


def project_fpr(project: Project, plans: Iterable[Plan], ledgers: Ledgers) -> float:
    """The rate of a monitor that names none: the project's budget over the number of decisions.

    All monitors of the project count, also those of models that are not selected and those that
    name a rate of their own, so that the rate depends on the project alone.

    Args:
        project: the project, whose setting `false_alarm_budget` is in alarms a week.
        plans: plans that are there already, of some of its models.
        ledgers: the batches that each model had.
    """
    budget = project.settings.get(BUDGET)
    if budget is None:
        return DEFAULT_FPR
    decisions = [
        cadence(ledgers.get(plan.model.name, {}))
        for plan in _all_plans(project, plans)
        for monitor in plan.monitors
        if "fpr" in SETTINGS.get(monitor.kind, {})
    ]
    rate = shared_rate(float(budget), decisions)
    return DEFAULT_FPR if rate is None else rate


def cadence(ledger: Iterable[str]) -> float:
    """How many batches a model gets in a week, from the names of those that it had."""
    return batches_per_week(sorted(ledger, key=batch_order))


def _all_plans(project: Project, plans: Iterable[Plan]) -> Sequence[Plan]:
    known = {plan.model.name: plan for plan in plans}
    catalog = catalog_of(project)
    return [
        known.get(model.name) or compile_model(model, project, catalog)
        for model in project.models
        if is_checked(model)
    ]
