"""What every detector is given, and what it must do."""

from __future__ import annotations

import datetime as dt
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dqsql.compiler.keys import model_view
from dqsql.compiler.scan import BatchFilter
from dqsql.engine.history import batches_where
from dqsql.engine.value_samples import sample_values
from dqsql.errors import DqsqlError
from dqsql.model.monitors import DEFAULT_RATES, Rates
from dqsql.model.plan import Metric, Monitor, Plan
from dqsql.model.project import Project, Scope, Severity
from dqsql.model.results import BatchRecord, MetricValue, Result, Status
from dqsql.model.wording import still_learning
from dqsql.monitors.history import History, MetricKey, key_of
from dqsql.monitors.programs import ProgramBook

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.row_scores import OddRows
    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class Workplace:
    """Where the monitors of one model find what no metric says: tables, rows, columns.

    Attributes:
        spark: the session.
        store: the tables of the warehouse.
        project: the project.
        plan: the model's plan.
        ledger: the batches of before the run, by name.
        types: the Spark types of the model's columns.
        batch_type: that of `batch_by`.
        label: the batch of a model without batches.
        failures_limit: how many failing rows are kept, of each check and batch; None for all.
    """

    spark: SparkSession
    store: Store
    project: Project
    plan: Plan
    ledger: Mapping[str, BatchRecord]
    types: Mapping[str, str]
    batch_type: str
    label: str = ""
    failures_limit: int | None = 100

    def matching(self, batches: Collection[str], where: str) -> Collection[str]:
        """The batches that meet a SQL condition. Raises EngineError."""
        return batches_where(self.spark, batches, where)

    def sample(
        self,
        columns: Sequence[str],
        batches: Sequence[str],
        where: str | None,
        not_matching: Mapping[str, str] | None = None,
        limit: int = 1_000,
    ) -> dict[str, list[str]]:
        """At most `limit` values of each column of some batches. Raises EngineError."""
        model = self.plan.model
        batch_filter = BatchFilter(tuple(batches), self.batch_type, self.types)
        samples = sample_values(
            self.spark,
            model.name,
            model_view(model),
            columns,
            batch_filter.condition(model, where),
            limit=limit,
            not_matching=not_matching,
        )
        return {name: sample.spread(limit) for name, sample in samples.items()}


@dataclass
class MonitorContext:
    """One model's monitors at work.

    `plan` has the metrics of this run's column types; `failed` are the aliases of metrics that
    Spark could not compute, each with its error. `rates` are the false-positive rates of monitors
    that name none. `derived` collects values that detectors compute, `failures` odd rows, `odd`
    what finds all odd rows of a batch.
    `settings` are those of the project, by kind of monitor. `accepted_by_review` are batches that
    a person accepted. `store_failures` says whether rows are kept where a monitor does not say.
    `end` is where the batches end that the run looks for, if it was given one. `matching` says
    which batches meet a SQL condition; `excluded` are those that `exclude_where` leaves out.
    """

    plan: Plan
    history: History
    programs: ProgramBook
    now: dt.datetime
    run_id: str
    rates: Rates = DEFAULT_RATES
    failed: Mapping[str, DqsqlError] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    derived: list[MetricValue] = field(default_factory=list)
    failures: list[Mapping[str, Any]] = field(default_factory=list)
    odd: list[OddRows] = field(default_factory=list)
    store_failures: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    accepted_by_review: frozenset[str] = frozenset()
    end: str | None = None
    matching: Matching = lambda batches, where: ()
    excluded: Exclusions = field(init=False, repr=False)
    _by_alias: dict[str, Metric] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._by_alias = {m.alias: m for m in self.plan.metrics}
        self.excluded = Exclusions(self.matching, self.history.known)

    def metric(self, monitor: Monitor, name: str) -> Metric | None:
        """The metric that a monitor knows by a name, or None where it could not be computed."""
        for watched in monitor.watched:
            if watched.name == name and watched.alias not in self.failed:
                return self._by_alias[watched.alias]
        return None

    def keys(self, monitor: Monitor) -> dict[str, MetricKey]:
        """The series of a monitor's metrics that could be computed, by its own names for them."""
        metrics = {w.name: self.metric(monitor, w.name) for w in monitor.watched}
        return {name: key_of(m) for name, m in metrics.items() if m is not None}

    def fpr(self, monitor: Monitor) -> float:
        """The false-positive rate of a monitor that names none."""
        return self.rates.of(monitor.column)

    def budget(self, monitor: Monitor) -> float | None:
        """The rate that the project's budget of false alarms leaves a monitor, if there is one."""
        return self.fpr(monitor) if self.settings.get("false_alarm_budget") else None

    def columns(self, monitor: Monitor, batch: str) -> dict[str, str] | None:
        """The columns of the model and their types, for a monitor that watches `schema()`.

        None where they are not known.
        """
        metric = self.metric(monitor, "schema")
        text = None if metric is None else self.history.text(key_of(metric), batch)
        return None if text is None else json.loads(text)

    def usual(self, monitor: Monitor, batch: str, window: int) -> Sequence[str]:
        """The accepted batches before one that a monitor with a window learns from."""
        return self.history.usual(monitor.id, self.history.before(batch, window), window)

    def keep_row(self, monitor: Monitor, batch: str, row: str, **about: Any) -> None:
        """Collect a row of a batch, as JSON, for dq_failures, with what else is told of it."""
        self.failures.append(
            {
                "check_id": monitor.id,
                "model": monitor.model,
                "batch": batch,
                "segment": None,
                "row": row,
                **about,
            }
        )

    def defaults(self, kind: str) -> dict[str, Any]:
        """The settings for all monitors of a kind: of the project, and over them of the model."""
        return defaults_of(kind, self.settings, self.plan)

    def first_error(self, monitor: Monitor) -> DqsqlError | None:
        """Why a metric of the monitor could not be computed, if so."""
        return next((self.failed[a] for a in monitor.metrics if a in self.failed), None)

    def unmeasured(self, monitor: Monitor, what: str = "no metric could be computed") -> str:
        """What could not be had for a monitor, and Spark's reason where there is one."""
        error = self.first_error(monitor)
        reason = f": {error.message}" if error else ""
        return f"{monitor.span}: {what}{reason}"


def defaults_of(kind: str, project: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The settings for all monitors of a kind: of the project, and over them of the model.

    `true` and the like set nothing.
    """
    given = project.get(kind), plan.model.config.extra.get(kind)
    return {name: v for each in given if isinstance(each, Mapping) for name, v in each.items()}


class Detector(Protocol):
    """Decides on one kind of monitor of one model."""

    def prepare(self, batches: Sequence[str]) -> None:
        """Get what can be had for all batches of the run at once.

        `batches` are those that no constraint keeps from being learned from, oldest first.
        """
        # Most have all they need.
        return None

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch, from accepted batches before it. Oldest batch first."""


@dataclass
class MonitorByMonitor(Detector):
    """A detector that decides on each of its monitors by itself, mostly from the history alone."""

    kind: ClassVar[str]
    place: Workplace
    context: MonitorContext

    @property
    def monitors(self) -> list[Monitor]:
        """The monitors of the kind."""
        return self.context.plan.monitors_of(self.kind)

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        return [self.verdict(monitor, batch) for monitor in self.monitors]

    @abstractmethod
    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""


def result_of(
    monitor: Monitor, batch: str, status: Status, message: str, segment: str | None = None
) -> Result:
    """A verdict without numbers."""
    return Result(
        check_id=monitor.id,
        model=monitor.model,
        batch=batch,
        segment=segment,
        column=monitor.column,
        check_name=monitor.name,
        detector=monitor.kind,
        status=status,
        severity=monitor.severity,
        message=message,
        details={"expression": monitor.expression},
    )


def learning(
    monitor: Monitor, batch: str, have: int, need: int, unmeasured: int, time: dt.time | None = None
) -> Result:
    """The verdict of a monitor whose history is too short, of batches of a `time` of day if so."""
    text = still_learning(have, need)
    text += "" if time is None else f" of {time:%H:%M}"
    if unmeasured:
        text += f" ({unmeasured} earlier ones were checked before this monitor was added, or while"
        text += " the column had another type: --full-refresh measures them)"
    return result_of(monitor, batch, Status.SKIPPED, text)


def failed_status(severity: Severity) -> Status:
    """What a broken bound makes of a verdict."""
    return Status.FAIL if severity is Severity.ERROR else Status.WARN


def decided_status(decided: str, severity: Severity) -> Status:
    """What the word of a decision, `ok` or `anomalous`, makes of a verdict."""
    if decided == "anomalous":
        return failed_status(severity)
    return {"ok": Status.PASS, "no_value": Status.NO_DATA}.get(decided, Status.SKIPPED)


def finite(value: float | None) -> float | None:
    """A number for tables and JSON: None for what is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def derived_value(
    monitor: Monitor,
    batch: str,
    metric: str,
    parameters: str,
    value: float,
    sample_size: int | None,
    column: str | None = None,
    segment: str | None = None,
) -> MetricValue:
    """A value of a batch that a detector computed, null where it is not finite."""
    return MetricValue(
        model=monitor.model,
        batch=batch,
        segment=segment,
        column=column,
        metric=metric,
        parameters=parameters,
        scope=Scope.DELTA.value,
        value=finite(value),
        value_text=None,
        sample_size=sample_size,
    )


def with_numbers(
    result: Result,
    observed: float | None,
    lower: float | None = None,
    upper: float | None = None,
    score: float | None = None,
) -> Result:
    """The verdict with what was seen and what was allowed, as far as these are finite."""
    observed, lower, upper, score = map(finite, (observed, lower, upper, score))
    return replace(result, observed=observed, lower=lower, upper=upper, score=score)


def with_details(result: Result, **details: Any) -> Result:
    """The verdict with more details."""
    return replace(result, details={**result.details, **details})


# Which of some batches meet a SQL condition. Raises DqsqlError.
Matching = Callable[[Collection[str], str], Collection[str]]


@dataclass
class Exclusions:
    """The batches that meet conditions, of those `known`; each condition is asked once."""

    matching: Matching
    known: Collection[str]
    _answers: dict[str, Collection[str] | DqsqlError] = field(default_factory=dict)

    def batches(self, where: str | None) -> Collection[str]:
        """The batches that meet a condition; none for no condition."""
        answer = self._answer(where)
        return () if isinstance(answer, DqsqlError) else answer

    def error(self, where: str | None) -> DqsqlError | None:
        """Why a condition could not be asked, if so."""
        answer = self._answer(where)
        return answer if isinstance(answer, DqsqlError) else None

    def _answer(self, where: str | None) -> Collection[str] | DqsqlError:
        if where is None:
            return ()
        if where not in self._answers:
            try:
                self._answers[where] = frozenset(self.matching(self.known, where))
            except DqsqlError as error:
                self._answers[where] = error
        return self._answers[where]

    def refusal(self, monitor: Monitor, where: str | None) -> str | None:
        """What Spark says against a monitor's condition, in words, if so."""
        error = self.error(where)
        return None if error is None else f"{monitor.span}: {monitor.expression}: {error.message}"

    def verdict(self, monitor: Monitor, batch: str, where: str | None) -> Result | None:
        """The verdict where the condition keeps a monitor from judging a batch, else None."""
        refused = self.refusal(monitor, where)
        if refused is not None:
            return result_of(monitor, batch, Status.ERROR, refused)
        if batch in self.batches(where):
            return result_of(monitor, batch, Status.SKIPPED, "left out by exclude_where")
        return None
