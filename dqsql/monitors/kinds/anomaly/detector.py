"""`@anomaly` decides: the call taken apart, and the verdicts on batches and their segments."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlglot import exp

from dqsql.compiler.arguments import split_arguments
from dqsql.decisions.anomaly import AnomalyDecision, AnomalyInput, evaluate_many, strategy
from dqsql.decisions.anomaly_settings import AnomalySettings, anomaly_settings
from dqsql.decisions.stationarity import RECURS
from dqsql.decisions.strategies import LearnedStrategy, Strategy
from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import AnnotationError, DecisionError
from dqsql.model.batches import batch_order, wall_time_of
from dqsql.model.by_key import by_key
from dqsql.model.plan import Metric, Monitor
from dqsql.model.project import Severity
from dqsql.model.results import Result, Status
from dqsql.model.settings import Reader, as_bool, as_given, as_rate, as_text
from dqsql.monitors.context import (
    Detector,
    MonitorContext,
    decided_status,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.history import History, MetricKey, key_of
from dqsql.monitors.recompute import shown_key
from dqsql.monitors.settings import literal_value, read_settings

NAME = "anomaly"
_DEFAULT = "auto"
_OWN = frozenset({"fpr", "exclude_where", "segments"})
SETTINGS: Mapping[str, Reader] = {
    "fpr": as_rate,
    "direction": as_given,
    "min_history": as_given,
    "window": as_given,
    "ignore_small_changes": as_given,
    "min_change": as_given,
    "exclude_where": as_text,
    "segments": as_bool,
}


@dataclass(frozen=True)
class AnomalyCall:
    """One `@anomaly` taken apart.

    `divided`: its rate is the share of the project's budget that a batch has, with its segments.
    """

    strategy: Strategy
    settings: AnomalySettings
    exclude_where: str | None = None
    segments: bool = False
    divided: bool = False

    def strategy_of(self, decisions: int) -> Strategy:
        """The strategy for a batch on which so many are made: itself, and each segment.

        By linearity of expectation the rate that the batch has is then kept.
        """
        chosen = self.strategy
        if not (self.divided and isinstance(chosen, LearnedStrategy) and chosen.fpr is not None):
            return chosen
        return replace(chosen, fpr=chosen.fpr / decisions)

    @property
    def reach(self) -> int | None:
        """How many of the newest accepted batches it looks at; None for all."""
        if self.settings.window is not None:
            return self.settings.window
        # So many values may lie further back than the strategy itself would look.
        return self.strategy.reach if self.settings.min_history is None else None


def anomaly_call(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, budget: float | None = None
) -> AnomalyCall:
    """The strategy and the settings of a monitor.

    `budget` is the false-positive rate that the project's budget leaves it, if there is one.
    Raises AnnotationError.
    """
    given = read_settings(monitor, SETTINGS, defaults, positional=True)
    try:
        written = chosen = _strategy(monitor)
        rate = given.get("fpr", budget)
        if rate is not None and isinstance(chosen, LearnedStrategy):
            chosen = chosen.with_rate(rate)
        if monitor.settings.fpr is not None and chosen is written:
            raise DecisionError(
                f"{written.name} has bounds of its own, which fpr does not change",
                hint="leave fpr out, or the bounds",
            )
        settings = anomaly_settings(**{k: v for k, v in given.items() if k not in _OWN})
        least, window = chosen.min_history, settings.window
        if settings.min_history is None and window is not None and window < least:
            raise DecisionError(
                f"a window of {window} batches is less than the {least} that {chosen.name} needs",
                hint=f"write {{window: {least}}}, or {{window: {window}, min_history: {window}}}",
            )
    except DecisionError as error:
        raise AnnotationError(error.message, span=monitor.span, hint=error.hint) from error
    divided = "fpr" not in given and chosen is not written
    segments = given.get("segments", False)
    return AnomalyCall(chosen, settings, given.get("exclude_where"), segments, divided)


def _strategy(monitor: Monitor) -> Strategy:
    """The strategy that stands behind the metric."""
    extra = monitor.positional[1:]
    if len(extra) > 1:
        raise DecisionError(
            f"@anomaly takes a metric and a strategy, not also {extra[1]}",
            hint="for example @anomaly(row_count, holt_winters(period => 7))",
        )
    ast = parse_expression(extra[0] if extra else _DEFAULT)
    if isinstance(ast, exp.Column):
        return strategy(ast.name)
    if not isinstance(ast, exp.Anonymous):
        raise DecisionError(
            f"{to_sql(ast)} is not a strategy", hint="for example day_of_week or threshold(0, 10)"
        )
    positional, named = split_arguments(ast.expressions)
    values = {name: _value(value) for name, value in named.items()}
    return strategy(str(ast.this), *map(_value, positional), **values)


def _value(ast: exp.Expr) -> Any:
    return literal_value(to_sql(ast))


@dataclass(frozen=True)
class _Question:
    """A decision to be made: by which strategy, on what."""

    monitor: Monitor
    call: AnomalyCall
    chosen: Strategy
    metric: Metric
    key: MetricKey
    past: list[str]
    left_out: list[str]
    given: AnomalyInput


@dataclass
class AnomalyDetector(Detector):
    """Decides on all `@anomaly` of one model."""

    context: MonitorContext
    calls: dict[str, AnomalyCall] = field(default_factory=dict)

    def __post_init__(self) -> None:
        defaults = self.context.defaults(NAME)
        for monitor in self.monitors:
            self.calls[monitor.id] = anomaly_call(monitor, defaults, self.context.budget(monitor))

    @property
    def monitors(self) -> list[Monitor]:
        """All `@anomaly` of the model."""
        return self.context.plan.monitors_of(NAME)

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch, for whole batches and where asked for each segment."""
        asked: list[_Question | Result] = []
        for monitor in self.monitors:
            on = self.decided_on(self.calls[monitor.id], batch)
            asked += [self._asked_of(monitor, batch, segment, len(on)) for segment in on]
        alike = by_key(
            ((one.chosen, one.call.settings), (place, one))
            for place, one in enumerate(asked)
            if isinstance(one, _Question)
        )
        verdicts: dict[int, Result] = {i: r for i, r in enumerate(asked) if isinstance(r, Result)}
        for (chosen, settings), questions in alike.items():
            decisions = evaluate_many(chosen, [one.given for _, one in questions], settings)
            for (place, one), decision in zip(questions, decisions, strict=True):
                verdicts[place] = self._verdict(one, batch, decision)
        return [verdicts[i] for i in range(len(asked))]

    def decided_on(self, call: AnomalyCall, batch: str) -> list[str | None]:
        """What is decided on: None for the whole batch, and where asked for its segments."""
        return [None, *(self.context.history.segments(batch) if call.segments else ())]

    def _asked_of(
        self, monitor: Monitor, batch: str, segment: str | None, decisions: int
    ) -> _Question | Result:
        """What is to be decided, one of so many; the verdict, where nothing can be."""
        call = self.calls[monitor.id]
        metric = self.context.metric(monitor, "metric")
        error = self.context.excluded.error(call.exclude_where) or self.context.first_error(monitor)
        broken = error.message if error else ""
        if metric is not None and not broken:
            key = key_of(metric, segment)
            broken = self._no_number(metric, key, batch)
        if metric is None or broken:
            text = f"{monitor.span}: {monitor.expression}{broken and f': {broken}'}"
            return result_of(monitor, batch, Status.ERROR, text, segment)
        past, left_out = self.past(call, key, batch)
        chosen = call.strategy_of(decisions)
        given = self.input(call, key, batch, past, left_out)
        return _Question(monitor, call, chosen, metric, key, past, left_out, given)

    def _no_number(self, metric: Metric, key: MetricKey, batch: str) -> str:
        """Why the metric cannot be compared, if it is a text or a time; else nothing."""
        history = self.context.history
        if not math.isnan(history.value(key, batch)) or history.text(key, batch) is None:
            return ""
        return f"{metric.text} is a text or a time, and only numbers are compared"

    def _verdict(self, asked: _Question, batch: str, decision: AnomalyDecision) -> Result:
        monitor, call, metric = asked.monitor, asked.call, asked.metric
        past, left_out, key = asked.past, asked.left_out, asked.key
        status = decided_status(decision.status, Severity(decision.severity or monitor.severity))
        text = f"{metric.text}: {decision.explanation}"
        result = result_of(monitor, batch, status, text, key.segment)
        return with_details(
            with_numbers(result, decision.value, decision.lower, decision.upper, decision.score),
            metric=metric.text,
            strategy=asked.chosen.to_dict(),
            settings=asdict(call.settings),
            decision=decision.to_dict(),
            series=shown_key(key),
            history=[past[0], past[-1], len(past)] if past else None,
            left_out=left_out,
            excluded=[b for b in past if b in self.context.excluded.batches(call.exclude_where)],
        )

    def past(self, call: AnomalyCall, key: MetricKey, batch: str) -> tuple[list[str], list[str]]:
        """The accepted batches that the metric was measured on, and the checked ones between.

        Oldest first; the latter up to the batch itself where they keep a place.
        """
        history = self.context.history
        past = history.measured_of(key, history.before(batch, call.reach))
        until = batch if call.strategy.keeps_places else None
        return past, history.left_out(past, until)

    def input(
        self,
        call: AnomalyCall,
        key: MetricKey,
        batch: str,
        past: Sequence[str],
        left_out: Sequence[str],
    ) -> AnomalyInput:
        """What is decided by; `past` and `left_out` are what `past` gives."""
        excluded = self.context.excluded.batches(call.exclude_where)
        return input_of(call.strategy, self.context.history, key, past, left_out, batch, excluded)


def input_of(
    chosen: Strategy,
    history: History,
    key: MetricKey,
    past: Sequence[str],
    left_out: Sequence[str],
    batch: str,
    excluded: Collection[str],
) -> AnomalyInput:
    """What a strategy decides by on a batch.

    `past` are the accepted batches that the metric was measured on, oldest first, `left_out` the
    other batches after the first of them. Such a batch is a gap to a strategy that counts batches:
    without its place, every later batch would be held against another day of the week.
    """
    seen = sorted((*past, *left_out), key=batch_order) if chosen.keeps_places else list(past)
    gaps = set(left_out)
    times = [wall_time_of(b) for b in (*seen, batch)]
    timed = all(t is not None for t in times)
    value = history.value(key, batch)
    return AnomalyInput(
        values=history.series(key, seen),
        times=[t for t in times[:-1] if t is not None] if timed else None,
        value=None if math.isnan(value) else value,
        time=times[-1] if timed else None,
        is_nan=history.is_nan(key, batch) and sum(history.is_nan(key, b) for b in past) < RECURS,
        absent=[b in gaps for b in seen],
        exclude=[b in excluded for b in seen],
        excluded=batch in excluded,
    )
