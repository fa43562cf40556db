"""Makes a plan's states ready for one run: facts filled in, other relations read and compared.

A state that needs a relation that Spark does not have, or a key that does not fit, is set apart
with its error; the others are scanned. Sums of decimals get totals in their own type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.aggregates.facts import facts, with_facts
from dqsql.compiler.aggregates.plain import without_needless_casts
from dqsql.compiler.aggregates.sketches import with_hashed_maps
from dqsql.compiler.keys import check_batch_by, model_view
from dqsql.compiler.lookups import Lookup, lookups_of, with_lookups
from dqsql.compiler.trees import function_name, nodes
from dqsql.dialect import formula, to_sql, unquoted
from dqsql.engine.failures import translated
from dqsql.engine.relations import expression_types
from dqsql.engine.selects import fetched
from dqsql.errors import DqsqlError, EngineError, IncomparableError, QueryError
from dqsql.model.metric_traits import NUMBERS_ONLY
from dqsql.model.plan import Metric, Plan, Relation, StateColumn
from dqsql.model.project import Scope
from dqsql.model.types import FLOATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBER = re.compile(r"\d+")
_ALIKE = "give both models the same kind of batch_by"
_SHORT_TEXTS = ("char(", "varchar(")
_SUMS = ("sum", "try_sum")
# With more digits a sum has 38, whatever is added to it.
_NARROW = re.compile(r"decimal\((?!38,)\d+,\d+\)")


@dataclass(frozen=True)
class Prepared:
    """The states that can be scanned, and those that cannot, each with its error."""

    states: tuple[StateColumn, ...]
    broken: tuple[tuple[StateColumn, EngineError], ...]


def prepare(
    plan: Plan,
    spark: SparkSession,
    now: dt.datetime,
    columns: Mapping[str, str],
    missing: Collection[str] = (),
    batches: Sequence[str] = (),
) -> Prepared:
    """Make the states of a plan ready; the model's view must be registered.

    `now` is the start of the run, `columns` gives the Spark types of the model's columns. Those
    which are `missing` are there because of older data alone. `batches` are those of the run.
    """
    work = _Preparation(plan, spark, batches)
    states: list[StateColumn] = []
    broken: list[tuple[StateColumn, EngineError]] = []
    gone = {name.lower() for name in missing}
    known = facts(now, {c: kind for c, kind in columns.items() if c.lower() not in gone})
    types = {name.lower(): kind for name, kind in columns.items()}
    maps = {name for name, kind in types.items() if kind.startswith("map<")}
    dates = _of_dates(plan, types)
    for state in plan.states:
        try:
            if state.name in dates:
                raise dates[state.name]
            fitted = with_hashed_maps(with_facts(work.fitted(state), known), maps)
            states.append(without_needless_casts(fitted, types))
        except EngineError as error:
            broken.append((state, error))
    return Prepared(_with_narrow_totals(states, plan, spark, types), tuple(broken))


def _of_dates(plan: Plan, types: Mapping[str, str]) -> dict[str, EngineError]:
    """The states of metrics that take numbers alone, and are asked of a date."""
    dates = {name for name, kind in types.items() if kind == "date"}
    casts = {s.name: date for s in plan.states if dates and (date := _date_as_number(s, dates))}
    refused: dict[str, EngineError] = {}
    for metric in plan.metrics:
        date = next((casts[s] for s in metric.states if s in casts), None)
        # The range of dates is an interval.
        if metric.name in NUMBERS_ONLY - {"range"} and _is_of(metric, dates):
            date = metric.column
        if date is not None:
            refused[metric.alias] = QueryError(
                f"{metric.text} takes numbers, and {date} is a date",
                hint="days_to_median and days_to_min count the days from the batch to it",
            )
    # Other metrics may share the count of values, which is right: one state that lacks is enough.
    sound = {s for m in plan.metrics if m.alias not in refused for s in m.states}
    errors: dict[str, EngineError] = {}
    for metric in plan.metrics:
        if metric.alias in refused:
            own = [s for s in metric.states if s not in sound]
            errors |= dict.fromkeys(own or metric.states, refused[metric.alias])
    return errors


def _is_of(metric: Metric, columns: Collection[str]) -> bool:
    """Whether it is of one of the columns, and not of an expression beside it."""
    name = (metric.column or "").lower()
    argument = metric.text.partition("(")[2].replace("`", "").lower()
    return name in columns and argument.startswith((f"{name})", f"{name},"))


def _date_as_number(state: StateColumn, dates: Collection[str]) -> str | None:
    """A date that the state takes for a number, which is null to Spark."""
    for cast in nodes(state.scan, exp.Cast):
        value = cast.this
        if isinstance(value, exp.Column) and value.name.lower() in dates and cast.is_type("double"):
            return value.name
    return None


@dataclass
class _Preparation:
    plan: Plan
    spark: SparkSession
    batches: Sequence[str] = ()
    _fitted: dict[Lookup, Lookup | EngineError] = field(default_factory=dict)
    _with_batches: dict[Relation, Relation] = field(default_factory=dict)

    @property
    def view(self) -> str:
        return model_view(self.plan.model)

    def fitted(self, state: StateColumn) -> StateColumn:
        """The state with lookups whose two sides have comparable types."""
        relation = state.relation
        if relation is not None:
            if relation not in self._with_batches:
                self._with_batches[relation] = self._of_batches(relation)
            state = replace(state, source=self._with_batches[relation])
        changed: dict[Lookup, Lookup] = {}
        for lookup in lookups_of(state):
            if lookup not in self._fitted:
                try:
                    self._fitted[lookup] = self._fit(lookup)
                except EngineError as error:
                    self._fitted[lookup] = error
            outcome = self._fitted[lookup]
            if isinstance(outcome, EngineError):
                raise outcome
            if outcome != lookup:
                changed[lookup] = outcome
        return with_lookups(state, changed)

    def _fit(self, lookup: Lookup) -> Lookup:
        relation = next(r for r in self.plan.relations if r.sql == lookup.relation)
        name = relation.name
        keys = expression_types(self.spark, lookup.relation, lookup.keys, name)
        columns = expression_types(
            self.spark, self.view, lookup.columns, f"check model {self.plan.model.name}"
        )
        pairs = [
            _comparable(c, column_type, k, key_type, name)
            for c, column_type, k, key_type in zip(
                lookup.columns, columns, lookup.keys, keys, strict=True
            )
        ]
        names = {unquoted(k).lower() for k in lookup.keys}
        return Lookup(
            lookup.relation,
            tuple(c for c, _ in pairs),
            tuple(k for _, k in pairs),
            unique=any(unique <= names for unique in relation.unique_keys),
        )

    def _of_batches(self, relation: Relation) -> Relation:
        """The relation with batches that are of the type of the model's. Raises QueryError."""
        own = None if relation.batch is None else check_batch_by(self.plan.model)
        batches = [] if relation.batch is None else [to_sql(relation.batch)]
        theirs = expression_types(self.spark, relation.sql, batches, relation.name)
        if own is None or relation.batch is None:
            return relation
        name = self.plan.model.name
        ours = expression_types(self.spark, self.view, [to_sql(own)], f"check model {name}")
        batch = relation.batch
        if ours != theirs:
            days = {*ours, *theirs} == {"date", "string"}
            if not days or (theirs == ["string"] and not self._are_days(relation.sql, batch)):
                raise QueryError(
                    f"the batches of {name} are of type {ours[0]}, those of {relation.name} of type"
                    f" {theirs[0]}: their numbers of rows cannot be compared by batch; {_ALIKE}"
                )
            # A folder's day=2026-01-31 is a text, and the day in a file of the same table a date.
            batch = formula(f"try_cast({{0}} as {ours[0]})", batch)
        if ours == ["string"]:
            self._refuse_unlike_names(own, relation, batch)
        return replace(relation, batch=batch)

    def _are_days(self, table: str, batch: exp.Expr) -> bool:
        """Whether all texts of batches are days: of '2024-01', Spark makes the first of January."""
        text = to_sql(batch)
        others = f"not (({text}) <=> cast(try_cast(({text}) as date) as string))"
        return self._first(f"select '' from {table} where {others}") is None

    def _refuse_unlike_names(self, own: exp.Expr, relation: Relation, their: exp.Expr) -> None:
        """Refuse names that look otherwise, as 20260131 beside 2026-01-31, and never meet."""
        sides = ((relation.sql, to_sql(their)), (self.view, to_sql(own)))
        others = [f"select {b} as batch from {t} where {b} is not null" for t, b in sides]
        theirs = self._first(others[0])
        looks = {_look(batch) for batch in self.batches}
        if theirs is None or not looks or _look(theirs) in looks:
            return
        both = f"select batch from ({others[0]}) left semi join ({others[1]}) using (batch)"
        if self._first(both) is None:
            raise QueryError(
                f"the batches of {self.plan.model.name} have names like {self.batches[-1]!r}, those"
                f" of {relation.name} like {theirs!r}, and no batch is in both: they cannot be"
                f" compared by batch; {_ALIKE}"
            )

    def _first(self, query: str) -> str | None:
        """The value of the first row, if there is one."""
        with translated(f"the batches that {self.plan.model.name} is compared by cannot be read"):
            rows = fetched(self.spark.sql(f"{query} limit 1"))
        return rows.column(0)[0].as_py() if rows.num_rows else None


def _look(batch: str) -> str:
    """What a name looks like: 20260131 is one number, and 2026-01-31 is three."""
    return _NUMBER.sub("9", batch)


def _is_text(spark_type: str) -> bool:
    """Whether values are texts; char and varchar have types of their own if a session says so."""
    return spark_type == "string" or spark_type.startswith(_SHORT_TEXTS)


def _comparable(
    column: str, column_type: str, key: str, key_type: str, relation: str
) -> tuple[str, str]:
    """Both sides so that two different keys are never equal to the same value.

    Spark's implicit casts are not one to one: '1' and '01' are both 1, and a row would be counted
    twice.
    """
    types = (column_type, key_type)
    if column_type == key_type:
        return column, key
    if _is_text(column_type) != _is_text(key_type):
        raise IncomparableError(
            f"{column.strip('`')} is of type {column_type}, and {key.strip('`')} of {relation} of"
            f" type {key_type}: they cannot be compared safely",
            hint="cast one of them, for example in the SELECT of the check model",
        )
    if any(t in FLOATS for t in types):
        return f"cast({column} as double)", f"cast({key} as double)"
    return column, key


def relation_ids(relations: Sequence[Relation]) -> tuple[str, ...]:
    """The check models and sources among the relations, as `CheckModel.depends_on` names them."""
    return tuple(r.unique_id for r in relations if r.unique_id is not None)


# --- totals of decimals -------------------------------------------------------------------------
# Spark's sum of decimals has ten digits more than what it sums, and so has a sum of such sums. A
# quotient of what has 38 digits keeps the least number of decimals, six, so that the mean over
# segments or batches would be another one than over the same rows at once.


def _with_narrow_totals(
    states: Sequence[StateColumn], plan: Plan, spark: SparkSession, types: Mapping[str, str]
) -> tuple[StateColumn, ...]:
    """The states of a plan; sums of decimals merge to the type that they have.

    A total that does not fit into it is null, as a sum is that does not fit. `types` are the Spark
    types of the model's columns, by names in lower case.
    """
    merges = plan.model.config.segment_by or any(m.scope is Scope.CUMULATIVE for m in plan.metrics)
    sums = [s for s in states if merges and _adds_decimals(s, types)]
    if not sums:
        return tuple(states)
    texts = [to_sql(s.scan) for s in sums]
    try:
        kinds = expression_types(spark, model_view(plan.model), texts, plan.model.name)
    except DqsqlError:
        # Which of them Spark refuses is told when they are analysed.
        return tuple(states)
    narrow = {s.name: k for s, k in zip(sums, kinds, strict=True) if _NARROW.fullmatch(k)}
    return tuple(_narrowed(s, narrow[s.name]) if s.name in narrow else s for s in states)


def _adds_decimals(state: StateColumn, types: Mapping[str, str]) -> bool:
    if state.source is not None or state.merge is None or function_name(state.scan) not in _SUMS:
        return False
    kinds = [types.get(c.parts[0].name.lower(), "") for c in nodes(state.scan, exp.Column)]
    return "" not in kinds and any("decimal(" in kind for kind in kinds)


def _narrowed(state: StateColumn, kind: str) -> StateColumn:
    assert state.merge is not None
    return replace(state, merge=formula(f"try_cast({{0}} as {kind})", state.merge))
