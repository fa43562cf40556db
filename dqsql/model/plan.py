"""What compiling produces: for one check model, the states to scan and what to derive from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlglot import exp

from dqsql.errors import DqsqlError, Span, error_of
from dqsql.model.project import CheckModel, CheckSettings, NoData, Scope, Severity

# Stands in statements for the project's key of private values, which the engine puts in last: what
# is compiled, shown and kept in files does not hold it.
PII_KEY = "{project key}"
# Metrics that are distributions: they are kept in dq_distributions instead of dq_metrics.
PROFILES = ("quantile_profile", "value_profile", "pattern_profile")


class Buffer(StrEnum):
    """How Spark keeps an aggregate's intermediate value: decides what it may share a scan with.

    `FIXED` buffers stay on the code-generated path. One `OBJECT` buffer (a sketch, min/max over
    strings) takes its whole Aggregate node off it, so the two kinds are scanned apart. `ORDERED`
    is min/max, whose buffer is fixed or not depending on the column's type. `DISTINCT` aggregates
    make Spark expand the rows and are scanned by themselves. Of states with a source, which
    are scanned apart in any case, it says nothing.
    """

    FIXED = "fixed"
    ORDERED = "ordered"
    OBJECT = "object"
    DISTINCT = "distinct"


class Entries(StrEnum):
    """What a frequency table counts: values, trigrams of texts, texts by their trigrams, numbers.

    `NUMBERS` are doubles, rounded where there are many: see `dqsql.compiler.aggregates.quantiles`.
    """

    VALUES = "values"
    NUMBERS = "numbers"
    TRIGRAMS = "trigrams"
    TEXTS = "texts"


class StateSource(ABC):
    """What a state is taken over, where that is not the model's rows as they are.

    Equal sources are equal states. Each kind is declared beside the aggregate that needs it, with
    the query that scans it: see `dqsql.compiler.aggregates.base`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def over_rows(self) -> tuple[exp.Expr, ...]:
        """The expressions over the model's rows that the source is made of."""

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """What makes it differ from others of its kind: SQL expressions, words and numbers."""

    @abstractmethod
    def rewritten(self, change: Callable[[exp.Expr], exp.Expr]) -> StateSource:
        """The same of changed expressions over rows."""


@dataclass(frozen=True, slots=True)
class FrequencyTable(StateSource):
    """How often each value (or tuple of values) of `columns` occurs among the rows of a batch.

    Rows in which all columns are null take no part. `where` restricts the rows further. Aggregates
    over the table read the columns `n` (the count) and `value` (the value as text). With other
    `entries` than values there is one column, whose values are cut into trigrams; aggregates read
    `peculiarity` too: see `dqsql.compiler.aggregates.trigrams`. `about` tells tables of columns
    apart that have become others: see `dqsql.compiler.meaning`.
    """

    columns: tuple[exp.Expr, ...]
    where: exp.Expr | None = None
    entries: Entries = Entries.VALUES
    about: str = ""

    @property
    def over_rows(self) -> tuple[exp.Expr, ...]:
        """The columns and the condition."""
        return self.columns if self.where is None else (*self.columns, self.where)

    @property
    def identity(self) -> tuple[object, ...]:
        """What is counted, of which rows."""
        return (self.entries, len(self.columns), *self.over_rows, self.about)

    def rewritten(self, change: Callable[[exp.Expr], exp.Expr]) -> FrequencyTable:
        """The same of changed columns and condition."""
        where = None if self.where is None else change(self.where)
        columns = tuple(change(c) for c in self.columns)
        return FrequencyTable(columns, where, self.entries, self.about)


@dataclass(frozen=True, slots=True)
class Relation(StateSource):
    """Another relation that a check compares the model with.

    `name` is what people call it, `sql` what Spark reads. `unique_id` is that of the check model or
    source that it is, or None for a table that only Spark knows. `batch` is the `batch_by`
    expression of a check model with batches. `unique_keys` are sets of columns, in lower case, that
    its checks want to be unique; whether they are is not known.
    """

    name: str
    sql: str
    unique_id: str | None = None
    batch: exp.Expr | None = None
    unique_keys: tuple[frozenset[str], ...] = ()

    @property
    def over_rows(self) -> tuple[exp.Expr, ...]:
        """None."""
        return ()

    @property
    def identity(self) -> tuple[object, ...]:
        """What Spark reads, and its batches."""
        return (self.sql,) if self.batch is None else (self.sql, self.batch)

    def rewritten(self, change: Callable[[exp.Expr], exp.Expr]) -> Relation:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One column of a model's state table.

    `scan` is an aggregate over the model's rows. `merge` is an aggregate over rows of the state
    table that yields the state of the union, or None when the state does not merge; it may read
    other state columns, which `group` names. With a `source`, `scan` is an aggregate over that
    instead: over a frequency table, over the rows of another relation (those of the same batch
    where it has batches). What is `whole_only` says nothing about segments.
    """

    name: str
    scan: exp.Expr
    merge: exp.Expr | None
    buffer: Buffer
    group: tuple[str, ...] = ()
    source: StateSource | None = None
    whole_only: bool = False

    @property
    def mergeable(self) -> bool:
        """Whether the state of a union of batches can be had from their states."""
        return self.merge is not None

    @property
    def over_rows(self) -> tuple[exp.Expr, ...]:
        """The expressions over the model's rows that the state is made of.

        An aggregate over counts of values, or over another relation, is none.
        """
        return (self.scan,) if self.source is None else self.source.over_rows

    @property
    def frequency(self) -> FrequencyTable | None:
        """The frequency table that the state is taken over, if it is."""
        return self.source if isinstance(self.source, FrequencyTable) else None

    @property
    def relation(self) -> Relation | None:
        """The other relation that the state is taken over, if it is."""
        return self.source if isinstance(self.source, Relation) else None


@dataclass(frozen=True, slots=True)
class Metric:
    """A named value per batch and segment, derived from states by `finish`.

    `alias` names the value's column in the metric query. `column` is the column that the metric
    is about or None; `parameters` are its further arguments as SQL text. `text` is the metric as a
    user would write it. Where the metric counts rows that ought not to be, `counts` says in words
    what they have: "no match for dest in airports.faa".
    """

    alias: str
    name: str
    column: str | None
    parameters: str
    text: str
    finish: exp.Expr
    states: tuple[str, ...]
    scope: Scope = Scope.DELTA
    where: str | None = None
    counts: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The interval that a check demands of its metric, where its predicate is that simple."""

    lower: float | None = None
    upper: float | None = None

    def within(self, other: Bounds) -> bool:
        """Whether all that lies in this interval lies in the other, too."""
        low = other.lower is None or (self.lower is not None and self.lower >= other.lower)
        return low and (
            other.upper is None or (self.upper is not None and self.upper <= other.upper)
        )


@dataclass(frozen=True, slots=True)
class SecondThreshold:
    """What a check wants in order to pass; where it does not hold, the check warns.

    `demand` says it in messages. `alias` names its column in the metric query.
    """

    alias: str
    predicate: exp.Expr
    demand: str
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What checks and monitors have in common: what somebody wrote, and where."""

    id: str
    name: str
    model: str
    column: str | None
    expression: str
    severity: Severity
    settings: CheckSettings
    span: Span
    tags: tuple[str, ...] = ()

    @property
    def judges_segments(self) -> bool:
        """Whether its bound holds for each segment of a batch, too, not for the whole only."""
        return self.settings.options.get("segments", True) is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Declared):
    """A boolean SQL expression over metrics.

    `predicate` reads metrics by their aliases; `alias` names its column in the metric query. With
    two thresholds `warning` is the one that only warns. `demand` says in messages what the
    predicate wants, where that is not the expression. `rows` is the predicate about single rows
    that a predicate about numbers or shares of them was made of.
    """

    alias: str
    predicate: exp.Expr
    metrics: tuple[str, ...]
    bounds: Bounds | None
    no_data: NoData
    warning: SecondThreshold | None = None
    demand: str | None = None
    rows: exp.Expr | None = None


class Family(StrEnum):
    """The kind of column that a watched metric is for.

    `FLOATING` numbers may be NaN. `TEXT` are all columns but numbers, and dates and times (`TIME`)
    only where a monitor watches nothing of these. `STRING` are those of them without structs,
    arrays, maps and variants, whose texts are long.
    """

    ANY = "any"
    NUMERIC = "numeric"
    FLOATING = "floating"
    TEXT = "text"
    STRING = "string"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Watched:
    """A metric that a monitor watches: the monitor's name for it, and its alias in the plan.

    `about` is the column whose type must be of the `family`.
    """

    family: Family
    name: str
    alias: str
    about: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor(Declared):
    """A check whose bounds are learned from history.

    `arguments` are SQL texts by name or position; `watched` is what it learns from. `demand` is
    what the annotation demands of a monitor that gives a number: `< 0.2`. `relations` are the other
    relations that it reads, as SQL text.
    """

    kind: str
    arguments: Mapping[str, Any]
    watched: tuple[Watched, ...] = ()
    demand: str | None = None
    relations: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The aliases of the metrics that the monitor watches."""
        return tuple(dict.fromkeys(w.alias for w in self.watched))

    @property
    def positional(self) -> list[str]:
        """The arguments without a name."""
        return [text for name, text in self.arguments.items() if name.isdigit()]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that dqsql computes for one check model, independent of any data.

    `states` are deduplicated over all checks. `rejected` are the errors of annotations that could
    not be read or compiled, and of the model's settings; the rest of the plan stands without them.
    `refused` are checks in place of such annotations, with their errors. `relations` are what the
    checks read besides the model's SELECT.
    """

    model: CheckModel
    states: tuple[StateColumn, ...]
    metrics: tuple[Metric, ...]
    checks: tuple[Check, ...]
    monitors: tuple[Monitor, ...] = ()
    rejected: tuple[DqsqlError, ...] = ()
    notes: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    refused: tuple[tuple[Check, DqsqlError], ...] = ()
    _by_alias: dict[str, Metric] = field(init=False, repr=False, compare=False)
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Thousands of checks each ask for theirs.
        object.__setattr__(self, "_by_alias", {m.alias: m for m in self.metrics})
        object.__setattr__(self, "_places", {s.name: i for i, s in enumerate(self.states)})

    @property
    def declared(self) -> tuple[Check | Monitor, ...]:
        """The checks and monitors."""
        return (*self.checks, *self.monitors)

    @property
    def declared_ids(self) -> frozenset[str] | None:
        """The ids of all checks and monitors; None where some cannot be read."""
        return None if self.rejected else frozenset(c.id for c in self.declared)

    @property
    def blocked(self) -> bool:
        """Whether nothing can be checked: the settings are wrong, or no check is left."""
        if not self.rejected:
            return False
        of_checks = {id(error) for _, error in self.refused}
        nothing_left = not self.declared
        return nothing_left or any(id(error) not in of_checks for error in self.rejected)

    @property
    def error(self) -> DqsqlError | None:
        """All that is wrong with the model as one error; None if nothing is."""
        return error_of(self.rejected) if self.rejected else None

    def monitors_of(self, kind: str) -> list[Monitor]:
        """The monitors of one kind."""
        return [m for m in self.monitors if m.kind == kind]

    def metric(self, alias: str) -> Metric:
        """The metric whose value column is `alias`. Raises KeyError."""
        return self._by_alias[alias]

    def known_metric(self, alias: str) -> Metric | None:
        """As `metric`, None where there is none."""
        return self._by_alias.get(alias)

    def states_of(self, aliases: Iterable[str]) -> list[StateColumn]:
        """The states that some metrics are made of, in the order of `states`. Raises KeyError."""
        names = {name for alias in aliases for name in self.metric(alias).states}
        return [self.states[i] for i in sorted(self._places[name] for name in names)]


@dataclass(frozen=True, slots=True)
class Query:
    """One statement that the engine will run, as `dqsql compile` shows it.

    `scans` says how often it reads the model's SELECT, `shuffles` how often Spark exchanges rows
    for it, as far as the statement's shape tells.
    """

    purpose: str
    sql: str
    scans: int
    columns: tuple[str, ...] = field(default_factory=tuple)
    shuffles: int = 0
