"""Makes metric values and outcomes of checks of the rows that Spark has computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dqsql.compiler.comparisons import is_met
from dqsql.compiler.privacy import pii_columns, withheld
from dqsql.engine.feasible import Feasible
from dqsql.engine.values import WITHHELD, as_number_or_text, stable
from dqsql.model.plan import PROFILES, Check, Metric, Plan, SecondThreshold
from dqsql.model.results import CheckOutcome, MetricValue

_LARGEST = 1e12


@dataclass(frozen=True)
class Measurement:
    """The metric values and check outcomes of some batches.

    By batch, `rows` are the rows of the data, and `states` those in which its state is kept.
    """

    values: tuple[MetricValue, ...]
    outcomes: tuple[CheckOutcome, ...]
    rows: Mapping[str, int]
    states: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Measurement) -> Measurement:
        """Both; the numbers of rows are those of this one."""
        return Measurement(
            (*self.values, *other.values), (*self.outcomes, *other.outcomes), self.rows, self.states
        )


def measurement_of(plan: Plan, part: Feasible, rows: list[dict[str, Any]]) -> Measurement:
    """What rows say, one a batch and segment: by the aliases of the metrics and checks of `part`.

    Values of metrics about private columns are withheld.
    """
    rows = sorted(rows, key=lambda r: (r["batch"], r["segment"] is not None, r["segment"] or ""))
    values: list[MetricValue] = []
    outcomes: list[CheckOutcome] = []
    whole = {s.name for s in part.states if s.whole_only}
    hidden = withheld(part.metrics, part.states, pii_columns(plan.model))
    for row in rows:
        metrics = [m for m in part.metrics if row["segment"] is None or not whole & {*m.states}]
        by_alias = {m.alias: _value(plan, m, row, m.alias in hidden) for m in metrics}
        values.extend(by_alias.values())
        outcomes.extend(
            CheckOutcome(
                check,
                row["batch"],
                row["segment"],
                _holds(check, check, row),
                tuple(by_alias[a] for a in check.metrics),
                True if check.warning is None else _holds(check, check.warning, row),
            )
            for check in part.checks
            if all(a in by_alias for a in check.metrics)
        )
    sizes = {r["batch"]: r["rows"] for r in rows if r["segment"] is None}
    states = Counter(r["batch"] for r in rows)
    return Measurement(tuple(values), tuple(outcomes), sizes, states)


def _holds(check: Check, part: Check | SecondThreshold, row: Mapping[str, Any]) -> bool | None:
    """What Spark says of a predicate; of plain comparisons, by numbers as they are stored.

    The digits that are not hang on the order of rows: of ten times 0.1 the sum is 1, or just less.
    """
    verdict: bool | None = row[part.alias]
    values = {alias: row[alias] for alias in check.metrics}
    are_numbers = all(
        isinstance(v, float | int | Decimal) and not isinstance(v, bool) for v in values.values()
    )
    # Whole numbers and decimals are exact, and NaN is larger than any number to Spark alone.
    floats = [v for v in values.values() if isinstance(v, float)]
    unstable = any(stable(v) != v for v in floats)
    # Of the largest, what is rounded off is whole.
    able = are_numbers and all(abs(v) < _LARGEST for v in floats)
    if verdict is None or not able or not unstable:
        return verdict
    again = is_met(part.predicate, values, stable)
    return verdict if again is None else again


def _value(plan: Plan, metric: Metric, row: Mapping[str, Any], withheld: bool) -> MetricValue:
    value, text = as_number_or_text(row[metric.alias])
    if withheld:
        is_told = value is not None or text is not None
        value, text = None, WITHHELD if is_told and metric.name not in PROFILES else None
    return MetricValue(
        model=plan.model.name,
        batch=row["batch"],
        segment=row["segment"],
        column=metric.column,
        metric=metric.name,
        parameters=metric.parameters,
        scope=metric.scope.value,
        value=value,
        value_text=text,
        sample_size=row["rows"],
    )
