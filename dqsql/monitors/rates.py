"""The false-positive rate of monitors that name none, from the project's budget of alarms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dqsql.compiler.adoption import is_checked
from dqsql.compiler.plan import compile_model
from dqsql.errors import ConfigError, DecisionError
from dqsql.loading.config import place_of
from dqsql.model.batches import are_numbers, batch_order, in_zone, time_of
from dqsql.model.monitors import DEFAULT_RATES, Rates, monitor_specs
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchRecord
from dqsql.monitors.catalog import catalog_of

if TYPE_CHECKING:
    from dqsql.decisions.budget import Budget


SETTING = "false_alarm_budget"


def read_budget(project: Project) -> Budget | None:
    """The budget of false alarms of a project, or None where it has none. Raises ConfigError."""
    text = project.settings.get(SETTING)
    if text is None:
        return None
    # Imported here because it starts with numpy, which a project without a budget does not need.
    from dqsql.decisions.budget import parse_budget

    try:
        return parse_budget(str(text))
    except DecisionError as error:
        raise ConfigError(
            error.message, span=place_of(project, SETTING), hint=error.hint
        ) from error


def budget_errors(project: Project) -> tuple[ConfigError, ...]:
    """What is wrong with the budget, if anything."""
    try:
        read_budget(project)
    except ConfigError as error:
        return (error,)
    return ()


# As many of the newest batches say how often new ones come.
_NEWEST = 30
# Days of runs after which these say how often there is one.
_SETTING_UP = 7
_DAY = 24 * 3600.0

Ledgers = Mapping[str, Mapping[str, BatchRecord]]


@dataclass(frozen=True)
class ProjectRates:
    """The rates of monitors that name none: the budget of their model over its decisions.

    All monitors of the project count, also those of models that are not selected and those that
    name a rate of their own, so that the rates depend on the project alone.

    Attributes:
        budget: of false alarms, None where the project has none.
        deciding: by model, how many monitors of columns and of the whole model decide.
        ledgers: the batches that each model had.
        by_run: the models whose batches are runs. Of the first days each counts as one at most:
            who sets up a project runs it again and again.
    """

    budget: Budget | None = None
    deciding: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ledgers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_run: frozenset[str] = frozenset()

    def rates(self, model: str, batches: Collection[str] = ()) -> Rates:
        """Those of a model, with further batches of it: a first run decides as daily ones do."""
        if self.budget is None or not any(self.deciding.get(model, ())):
            return DEFAULT_RATES
        from dqsql.decisions.budget import budget_of_model, rates_of_decisions

        often = {**self._usual, model: self._often(model, batches)}
        every = {name: often[name] * sum(number) for name, number in self.deciding.items()}
        budget = budget_of_model(self.budget, every[model], list(every.values()))
        return Rates(*rates_of_decisions(budget, *(often[model] * n for n in self.deciding[model])))

    @cached_property
    def _usual(self) -> dict[str, float]:
        return {name: self._often(name) for name in self.deciding}

    def _often(self, model: str, batches: Collection[str] = ()) -> float:
        """How many batches a model gets in a day."""
        known = self.ledgers.get(model, ())
        often = cadence({*known, *batches})
        if model in self.by_run and len({int(_day(b) or 0) for b in known}) < _SETTING_UP:
            return min(often, 1.0)
        return often


def project_rates(project: Project, plans: Iterable[Plan], ledgers: Ledgers) -> ProjectRates:
    """The rates of a project.

    `plans` are those that are there already, `ledgers` the batches that each model had. Raises
    ConfigError.
    """
    budget = read_budget(project)
    if budget is None:
        return ProjectRates()
    every = _all_plans(project, plans)
    deciding = {plan.model.name: _deciding(plan) for plan in every}
    known = {name: tuple(ledgers.get(name, ())) for name in deciding}
    by_run = frozenset(p.model.name for p in every if p.model.config.batch_by is None)
    return ProjectRates(budget, deciding, known, by_run)


def cadence(ledger: Iterable[str]) -> float:
    """How many batches a model gets in a day, from the names of those that it had.

    The newest that are dates or timestamps count; a batch a day where there are none.
    """
    from dqsql.decisions.budget import batches_per_day

    names = sorted(ledger, key=batch_order)
    if are_numbers(names[-_NEWEST:]):
        return batches_per_day(())
    days = [d for d in map(_day, names) if d is not None]
    return batches_per_day(days[-_NEWEST:])


def _deciding(plan: Plan) -> tuple[int, int]:
    """How many monitors have a false-positive rate: of the columns, and of the whole model."""
    specs = monitor_specs()
    deciding = [m for m in plan.monitors if "fpr" in specs[m.kind].settings]
    of_model = sum(m.column is None for m in deciding)
    return len(deciding) - of_model, of_model


def _all_plans(project: Project, plans: Iterable[Plan]) -> Sequence[Plan]:
    known = {plan.model.name: plan for plan in plans}
    catalog = catalog_of(project)
    return [
        known.get(model.name) or compile_model(model, project, catalog)
        for model in project.models
        if is_checked(model)
    ]


def _day(batch: str) -> float | None:
    """The time in the name of a batch, in days; None where there is none."""
    moment = time_of(batch)
    return None if moment is None else in_zone(moment).timestamp() / _DAY
