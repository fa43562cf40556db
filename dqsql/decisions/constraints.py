"""Verdicts on constraints: a predicate over metric values that somebody wrote down.

Spark evaluates the predicate; this module says what that means and why, in words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from dqsql.decisions.cadence import MISSES_NEXT, misses_next
from dqsql.errors import DqsqlError, IncomparableError, QueryError
from dqsql.model.batches import batch_order
from dqsql.model.metric_traits import NUMBERS_ONLY, TOO_LARGE_SUM
from dqsql.model.plan import Bounds, Check, Metric, Plan
from dqsql.model.project import CONTRACT_TAG, DBT_TEST, DBT_TEST_NAME, NoData, Scope, Severity
from dqsql.model.results import CONSTRAINT, CheckOutcome, MetricValue, Result, Status
from dqsql.model.types import is_text, type_of
from dqsql.model.wording import all_digits, number_text

_MAX_SHOWN = 200  # characters
_WHOLE = 2.0**53
_UNITS = {"freshness": " hours"}
# A demand that a metric has a value, or none: nothing that NaN could meet by being large.
_ONLY_PRESENCE = re.compile(r"\bis(?: not)? null$", re.IGNORECASE)
_LITERAL = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
_COMPARES = re.compile(r"[<>=]|\bbetween\b", re.IGNORECASE)
LEFT_TO_DBT = "left to dbt: "
# The verdict where there was nothing to measure.
NOTHING_MEASURED = {
    NoData.ERROR: Status.FAIL,
    NoData.WARN: Status.NO_DATA,
    NoData.IGNORE: Status.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class Observation:
    """A metric as a person reads it: its text, its value, and the rows that it was taken from.

    Where the metric counts rows that ought not to be, `counts` says what they have.
    `text_column` is the column that it is about, where that holds texts. `only` says which rows
    were looked at, where these are others than those of the batch.
    """

    text: str
    name: str
    value: float | None
    value_text: str | None = None
    rows: int | None = None
    counts: str | None = None
    text_column: str | None = None
    only: str = ""

    @property
    def is_null(self) -> bool:
        """Whether there was nothing to measure."""
        return self.value is None and self.value_text is None

    @property
    def shown(self) -> str:
        """The value for people; of a long text, its beginning."""
        if self.value is not None:
            return number_text(self.value)
        text = "null" if self.value_text is None else self.value_text
        rest = len(text) - _MAX_SHOWN
        return text if rest <= 0 else f"{text[:_MAX_SHOWN]}... ({rest:,} more characters)"

    @property
    def digits(self) -> str:
        """A number with all of its digits."""
        if self.value is None or self.value_text is not None:
            return self.value_text or "null"
        return all_digits(self.value)


def constraint_results(
    plan: Plan,
    outcomes: Collection[CheckOutcome],
    checked: Iterable[str],
    about_now: Collection[str],
    types: Mapping[str, str],
) -> Iterator[Result]:
    """The verdicts on the constraints of a plan, from what Spark said of its checks.

    `checked` are the batches that are known to have rows, `about_now` the metrics that compare a
    batch with the start of the run, `types` the Spark types of columns.
    """
    metrics = {m.alias: m for m in plan.metrics}
    known = {*checked} or {o.batch for o in outcomes}
    newest = max(known, key=batch_order, default=None)
    for outcome in outcomes:
        read = set(outcome.check.metrics)
        # How old a batch is says something of the newest one only, and of those of a time to come.
        is_older = newest is not None and batch_order(outcome.batch) < batch_order(newest)
        if is_older and not read.isdisjoint(about_now):
            continue
        if outcome.segment is not None and not outcome.check.judges_segments:
            continue
        result = constraint_result(outcome, metrics, types)
        ages = [None if v is None else v.value for v in outcome.observed]
        is_old = bool(ages) and all(age is not None and age >= 0 for age in ages)
        if result.is_finding and is_old and read.issubset(about_now):
            # Its rows are none the worse for it, unless they are of a time to come.
            result = replace(result, details={**result.details, MISSES_NEXT: True})
        yield result


def sound_batches(
    results: Iterable[Result], batches: Sequence[str], *, holds: bool = False
) -> frozenset[str]:
    """The batches of which no check failed: `results` are those of checks of scope `delta`."""
    bad = (r for r in results if r.status is Status.FAIL and not misses_next(r, holds=holds))
    failed = {r.batch for r in bad}
    return frozenset(b for b in batches if b not in failed)


def unevaluated(
    plan: Plan, errors: Mapping[str, DqsqlError], batches: Collection[str], types: Mapping[str, str]
) -> Iterator[Result]:
    """The verdicts on checks that Spark refuses, by their ids, and on those that do not compile.

    `types` are the Spark types of columns.
    """
    by_id = {c.id: c for c in plan.checks}
    refused = ((by_id[check], error) for check, error in errors.items())
    broken = [*((c, _about_texts(c, error, types)) for c, error in refused), *plan.refused]
    has_contract = any(c.name == CONTRACT_TAG for c in plan.declared)
    return (
        replace(error_result(check, error, batch), **(_gone(check, types) if has_contract else {}))
        for check, error in broken
        for batch in batches
    )


def _gone(check: Check, types: Mapping[str, str]) -> dict[str, Any]:
    """What is otherwise of a contract's check on a column that is gone: the contract tells that."""
    column = check.column
    if column is None or type_of(column, types) or CONTRACT_TAG not in check.settings.tags:
        return {}
    return {"status": Status.SKIPPED, "message": f"{column} is missing, see {CONTRACT_TAG}"}


def _about_texts(check: Check, error: DqsqlError, types: Mapping[str, str]) -> DqsqlError:
    """The error; a sum of texts is none because they are texts, however large it is."""
    column = check.column
    if column is None or TOO_LARGE_SUM not in error.message or not is_text(type_of(column, types)):
        return error
    return QueryError(f"there is no sum: {_no_numbers(column)}", span=error.span)


def constraint_result(
    outcome: CheckOutcome, metrics: Mapping[str, Metric], types: Mapping[str, str]
) -> Result:
    """The verdict on one constraint; `metrics` are those of the plan by alias."""
    check, second = outcome.check, outcome.check.warning
    observations = [
        _observation(value, metrics[alias], types)
        for value, alias in zip(outcome.observed, check.metrics, strict=True)
    ]
    verdict = decide(
        outcome.holds,
        observations,
        expression=check.expression,
        bounds=check.bounds,
        severity=check.severity,
        no_data=check.no_data,
        spotless=outcome.spotless,
        demand=check.demand,
        warning=second.demand if second else None,
    )
    single = outcome.observed[0] if len(outcome.observed) == 1 else None
    return Result(
        check_id=check.id,
        model=check.model,
        batch=outcome.batch,
        segment=outcome.segment,
        column=check.column,
        check_name=check.name,
        detector=CONSTRAINT,
        status=verdict.status,
        # `no_data: error` fails whatever the severity of the check is.
        severity=Severity.ERROR if verdict.status is Status.FAIL else check.severity,
        message=_message_of_dbt(check, verdict.status, single) or verdict.message,
        observed=single.value if single else None,
        observed_text=single.value_text if single else None,
        lower=check.bounds.lower if check.bounds else None,
        upper=check.bounds.upper if check.bounds else None,
        warn_lower=second.bounds.lower if second and second.bounds else None,
        warn_upper=second.bounds.upper if second and second.bounds else None,
        details={
            "expression": check.expression,
            **_thresholds(check),
            "metrics": {
                o.text: o.value if o.value is not None else o.value_text for o in observations
            },
        },
    )


def _thresholds(check: Check) -> dict[str, Any]:
    """What fails and what warns, for a check with two thresholds or one of its own."""
    if check.demand is None:
        return {}
    thresholds = (
        {"fails": check.demand} if check.severity is Severity.ERROR else {"warns": check.demand}
    )
    if check.warning is not None:
        thresholds["warns"] = check.warning.demand
    return {"thresholds": {k: v.removeprefix("expected ") for k, v in thresholds.items()}}


def _message_of_dbt(check: Check, status: Status, counted: MetricValue | None) -> str | None:
    """For a test of dbt what it counts: its SQL is not what the user wrote."""
    test = check.settings.options.get(DBT_TEST_NAME)
    if test is None or status not in (Status.FAIL, Status.WARN, Status.PASS):
        return None
    if counted is None or counted.value is None:
        return None
    rows = "row" if counted.value == 1 else "rows"
    return f"{number_text(counted.value)} failing {rows} by dbt's test {test}"


def _observation(value: MetricValue, metric: Metric, types: Mapping[str, str]) -> Observation:
    of_texts = metric.column is not None and is_text(type_of(metric.column, types))
    return Observation(
        metric.text,
        value.metric,
        value.value,
        value.value_text,
        value.sample_size,
        metric.counts,
        metric.column if of_texts else None,
        _only(metric),
    )


def _only(metric: Metric) -> str:
    where = "" if metric.where is None else f" where {metric.where}"
    return f"{where} so far" if metric.scope is Scope.CUMULATIVE else where


def error_result(check: Check, error: DqsqlError, batch: str) -> Result:
    """The verdict on a check that Spark could not evaluate.

    A test of dbt whose SQL Spark runs by casts that dqsql does not make is not in error: it is left
    to dbt, with the reason.
    """
    left = isinstance(error, IncomparableError) and DBT_TEST in check.settings.options
    return Result(
        check_id=check.id,
        model=check.model,
        batch=batch,
        segment=None,
        column=check.column,
        check_name=check.name,
        detector=CONSTRAINT,
        status=Status.SKIPPED if left else Status.ERROR,
        severity=check.severity,
        message=f"{LEFT_TO_DBT}{error.message}"
        if left
        else f"{check.span}: {check.expression}: {error.message}",
        details={"expression": check.expression, "hint": error.hint},
    )


@dataclass(frozen=True, slots=True)
class ConstraintVerdict:
    """Status and message of one check on one batch and segment."""

    status: Status
    message: str


def decide(
    holds: bool | None,
    observations: Sequence[Observation],
    *,
    expression: str,
    bounds: Bounds | None,
    severity: Severity,
    no_data: NoData,
    spotless: bool | None = True,
    demand: str | None = None,
    warning: str | None = None,
) -> ConstraintVerdict:
    """The verdict for a predicate's outcome.

    A predicate that is null because a metric is null is `NO_DATA`, never a silent pass; `no_data`
    says whether that is an error, a warning, or to be ignored (skipped). `spotless` is the outcome
    of a second predicate, which only warns; `demand` and `warning` say what the two want, where
    that is not the expression.
    """
    expression = _demand(expression)
    shown_observations = _without_differences(observations)
    values = [o.value for o in shown_observations if o.value is not None]
    # Two numbers that must be equal are told by digits in which they differ.
    apart = abs(values[0] - values[1]) if len(values) == 2 and bounds is None else None
    numbers = [_rounded_text(o, bounds, apart) for o in shown_observations]
    if apart is not None and len(set(numbers)) < len({o.digits for o in shown_observations}):
        numbers = [o.digits for o in shown_observations]
    seen = "; ".join(
        _seen(o, expression, text) for o, text in zip(shown_observations, numbers, strict=True)
    )
    if holds is None or (holds and spotless is None):
        return _no_data(shown_observations, seen, expression, no_data, bounds)
    whole = len(observations) == 1 and _is_whole_compliance(observations[0], bounds)
    if whole:
        seen = _rows_meeting(observations[0], expression)
    elif len(observations) == 1 and bounds is not None and bounds.lower == bounds.upper == 0:
        counted = _rows_counted(observations[0])
        whole, seen = counted is not None, counted or seen
    compared = () if _ONLY_PRESENCE.search(expression) else shown_observations
    nan = [o.text for o in compared if o.value is not None and math.isnan(o.value)]
    if holds and spotless and not nan:
        return ConstraintVerdict(Status.PASS, seen)
    mild = severity is not Severity.ERROR or (holds and not nan)
    status = Status.WARN if mild else Status.FAIL
    if nan:
        # Spark calls NaN larger than every number, which would let it pass lower bounds.
        return ConstraintVerdict(status, f"{seen}: NaN meets no bound, expected {expression}")
    if demand is not None:
        broken = warning if holds else demand
        return ConstraintVerdict(status, f"{seen}, which {'warns' if mild else 'fails'}: {broken}")
    expected = _expected(expression, bounds, observations)
    return ConstraintVerdict(status, seen if whole else f"{seen}, expected {expected}")


def _without_differences(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Without differences of metrics that are there by themselves, and what these may be."""
    made = ("abs(", "greatest(")
    plain = [o.text for o in observations if not o.text.startswith(made)]
    return [
        o
        for o in observations
        if not (len(plain) > 1 and o.text.startswith(made) and any(p in o.text for p in plain))
    ]


def _demand(expression: str) -> str:
    """The condition inside `expect(..)`."""
    text = expression.strip()
    inside = text[7:-1]
    is_call = text.lower().startswith("expect(") and text.endswith(")")
    depths = accumulate((c == "(") - (c == ")") for c in _LITERAL.sub("", inside))
    return inside.strip() if is_call and min(depths, default=0) >= 0 else text


def _is_whole_compliance(observation: Observation, bounds: Bounds | None) -> bool:
    """Whether every row was to meet a condition, and the number of rows is known."""
    wanted = bounds is not None and bounds.lower == bounds.upper == 1
    return wanted and observation.name == "compliance" and _failing_rows(observation) is not None


def _rows_meeting(observation: Observation, expression: str) -> str:
    value, rows = observation.value or 0.0, observation.rows or 0
    failing = round((1 - value) * rows)
    if failing:
        verb = "does" if failing == 1 else "do"
        return f"{failing:,} of {rows:,} rows {verb} not meet {expression}"
    return f"{'the only row meets' if rows == 1 else f'all {rows:,} rows meet'} {expression}"


def _rows_counted(observation: Observation) -> str | None:
    """For a number of rows that ought to be 0: what is wrong with them."""
    if observation.counts is None or observation.value is None or observation.rows is None:
        return None
    verb = "has" if observation.value == 1 else "have"
    return f"{_some_rows(observation, observation.value)} {verb} {observation.counts}"


def _some_rows(observation: Observation, number: float) -> str:
    """So many of the rows: `2 of 10 rows`, or `1 row where a > 0` of those that are chosen."""
    of = "" if observation.rows is None or observation.only else f" of {observation.rows:,}"
    noun = "row" if number == 1 and not of else "rows"
    return f"{number_text(number)}{of} {noun}{observation.only}"


def _no_data(
    observations: Sequence[Observation],
    seen: str,
    expression: str,
    no_data: NoData,
    bounds: Bounds | None,
) -> ConstraintVerdict:
    missing = [o for o in observations if o.is_null]
    texts = [o.text_column for o in observations if o.text_column is not None]
    rows = next((o.rows for o in observations if o.rows is not None), None)
    if missing and rows == 0:
        why = f"no rows, so {' and '.join(o.text for o in missing)} cannot be measured"
    elif texts and missing and all(o.name in NUMBERS_ONLY for o in missing):
        why = f"{' and '.join(o.text for o in missing)} is null: {_no_numbers(texts[0])}"
    elif missing:
        also = ", or a division by 0" if any(" / " in o.text for o in missing) else ""
        also += (
            ", or more than its type can hold" if any(o.name == "range" for o in missing) else ""
        )
        why = f"{' and '.join(o.text for o in missing)} is null: no values to measure{also}"
    elif texts and bounds is not None:
        why = f"{seen}, a text, which {expression} compares with a number: {_as_numbers(texts[0])}"
    else:
        why = f"{seen}, for which {expression} is null: neither true nor false"
    return ConstraintVerdict(NOTHING_MEASURED[no_data], why)


def _no_numbers(column: str) -> str:
    return f"no value of {column}, a column of texts, is a number; {_as_numbers(column)}"


def _as_numbers(column: str) -> str:
    return f"make numbers of {column} in the SELECT, or check its texts (@min_length, @matches)"


def _seen(observation: Observation, expression: str, number: str) -> str:
    if (about := _rows_seen(observation, expression)) is not None:
        return about
    text = f"{observation.text} is {number}"
    if observation.value is not None:
        text += _UNITS.get(observation.name, "")
    failing = _failing_rows(observation)
    return f"{text} ({failing})" if failing and observation.value != 1 else text


def _rounded_text(observation: Observation, bounds: Bounds | None, apart: float | None) -> str:
    """The value, with all of its digits where fewer look like a limit that it is not.

    Values that are `apart` have digits in which they differ.
    """
    value, text = observation.value, observation.shown
    if value is not None and apart:
        text = number_text(value, apart)
    limits = () if bounds is None or value is None else (bounds.lower, bounds.upper)
    # A limit that is met is not one beyond 2^53, where a number stands for its neighbours, too.
    known = observation.value_text is not None or abs(value or 0.0) < _WHOLE
    alike = any(x is not None and (known or x != value) and number_text(x) == text for x in limits)
    return observation.digits if alike else text


def _rows_seen(observation: Observation, expression: str) -> str | None:
    """For a number of rows that fail, or a share of rows that pass: what they do."""
    value = observation.value
    if value is None:
        return None
    if observation.name == "failing_rows":
        verb = "does" if value == 1 else "do"
        return f"{_some_rows(observation, value)} {verb} not meet {expression}"
    if observation.name == "passing_share":
        return f"{number_text(100 * value)}% of rows{observation.only} meet {expression}"
    return None


def _failing_rows(observation: Observation) -> str | None:
    """For a share below 1, how many rows are missing to 1: the number people act on."""
    value, rows = observation.value, observation.rows
    word = {"completeness": "null", "compliance": "failing"}.get(observation.name)
    if word is None or not rows or value is None or not 0 <= value <= 1:
        return None
    if " where " in observation.text:
        return None
    return f"{round((1 - value) * rows):,} of {rows:,} rows {word}"


def _expected(expression: str, bounds: Bounds | None, observations: Sequence[Observation]) -> str:
    if bounds is None:
        return expression
    low, high = bounds.lower, bounds.upper
    if low is not None and low == high:
        # Whole numbers of 19 digits differ where their nearest floats do not.
        return expression if observations[0].value == low else _limit_text(low, observations)
    if low is not None and high is not None:
        return f"between {_limit_text(low, observations)} and {_limit_text(high, observations)}"
    limit = high if low is None else low
    if limit is None or _COMPARES.search(expression):
        return expression
    # The call of a macro does not say what it compares with, nor whether the limit itself is met.
    met = all(o.value != limit for o in observations)
    words = (
        ("at most" if met else "less than") if low is None else "at least" if met else "more than"
    )
    unit = _UNITS.get(observations[0].name, "") if len(observations) == 1 else ""
    return f"{words} {_limit_text(limit, observations)}{unit}"


def _limit_text(limit: float, observations: Iterable[Observation]) -> str:
    """A limit, with all of its digits where fewer look like a value that it is not."""
    others = (o for o in observations if o.value != limit or o.value_text is not None)
    alike = any(number_text(limit) == number_text(o.value) for o in others if o.value is not None)
    return all_digits(limit) if alike else number_text(limit)
