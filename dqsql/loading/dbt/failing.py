"""The failing rows of a generic test as SQL aggregates, and what the packages' tests share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError

_NAME = re.compile(r"[^\W\d]\w*")
# An expression of SQL, made of a test's arguments.
Expression = Callable[["Arguments"], str]
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


class Unadoptable(Exception):
    """A test that dqsql leaves to dbt; the message is the reason."""


@dataclass(frozen=True)
class Failing:
    """The failing rows of a test: those that dbt's query returns.

    `count` is an aggregate, their number. `quick` is one that is cheaper and 0 exactly when `count`
    is; where it is not, `values` is counted: an expression over rows of which dbt's query returns
    each distinct value once. `by_row` says that each row fails or passes by itself, so that the
    test of a table is that of its batches.
    """

    count: str
    by_row: bool = False
    quick: str | None = None
    values: str | None = None
    where: str | None = None


@dataclass
class Arguments:
    """The arguments of a test; what no builder asks for makes the test unadoptable.

    `relation` is the other relation that the test reads, as an annotation names it. `variables` are
    dbt's. `text_of_test` is that of the test's macros in the installed version of its package.
    """

    values: Mapping[str, Any]
    relation: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    text_of_test: str = ""
    _asked: set[str] = field(default_factory=lambda: {"model"})

    def get(self, name: str, default: Any = None) -> Any:
        """An argument's value; `default` where it is not given or none."""
        self._asked.add(name)
        value = self.values.get(name)
        return default if value is None else value

    def text(self, name: str) -> str:
        """A required argument as SQL text."""
        value = self.get(name)
        if value is None or isinstance(value, list | dict):
            raise Unadoptable(f"its argument {name!r} is missing or not a single value")
        return str(value)

    def __getitem__(self, name: str) -> str:
        """What stands in a template of SQL for `{column}`, `{other}` or `{argument}`."""
        if name == "column":
            return self.column
        return self.other() if name == "other" else self.text(name)

    def listed(self, name: str) -> list[Any]:
        """A required argument that is a list."""
        value = self.get(name)
        if not isinstance(value, list) or not value:
            raise Unadoptable(f"its argument {name!r} is not a list")
        return value

    def other(self) -> str:
        """The other relation."""
        for name in ("to", "compare_model"):
            self._asked.add(name)
        if self.relation is None:
            raise Unadoptable("the relation that it compares with is not known")
        return self.relation

    @property
    def column(self) -> str:
        """The tested column, or expression; a name that is a keyword is quoted."""
        text = self.text("column_name")
        return f"`{text}`" if _NAME.fullmatch(text) and not _is_column(text) else text

    @property
    def unknown(self) -> list[str]:
        """Given arguments that nobody asked for."""
        return [k for k, v in self.values.items() if k not in self._asked and v is not None]


Builder = Callable[[Arguments], Failing]


def oldest(a: Arguments) -> str:
    """The time that lies an interval of a unit before the run."""
    unit, interval = a.text("datepart"), a.get("interval")
    if unit not in _UNITS or type(interval) is not int or interval < 0:
        raise Unadoptable(f"its interval is {interval!r} {unit}")
    lengths = ", ".join(str(interval) if u == unit else "0" for u in _UNITS)
    return f"fact('run_started') - make_interval({lengths})"


def _is_column(name: str) -> bool:
    """Whether a bare name reads as a column, and not as a keyword."""
    try:
        return isinstance(parse_expression(f"f({name})").expressions[0], exp.Column)
    except DqsqlError:
        return False


def joined(condition: str) -> str:
    """A condition that the test's SQL joins with others by `and`, without parentheses.

    Raises Unadoptable: it holds an `or`, so that the test asks for something else than it says.
    """
    try:
        is_or = isinstance(parse_expression(condition), exp.Or)
    except DqsqlError as error:
        raise Unadoptable(f"{condition!r} is not understood: {error.message}") from error
    if is_or:
        raise Unadoptable(f"the test joins {condition!r} with `and`, without parentheses")
    return condition


def sql(template: str) -> Expression:
    """An expression with the SQL of arguments in it: `length({column}) = {value}`."""
    return template.format_map


def between(template: str) -> Expression:
    """The condition that an expression lies between min_value and max_value."""
    return lambda a: bounds(a, template.format_map(a))


def rows(condition: str, where: str | None = None) -> Failing:
    """Rows that meet a condition fail."""
    return Failing(f"count_if({condition})", by_row=True, where=where)


def none_or_one(condition: str, where: str | None = None) -> Failing:
    """One failing row where a condition on aggregates holds."""
    return Failing(f"case when {condition} then 1 else 0 end", where=where)


def quoted(values: list[Any], quote: object) -> str:
    """Values as a list in SQL, as text where they are to be quoted."""
    return ", ".join(f"'{v}'" if quote else str(v) for v in values)


def bounds(a: Arguments, value: str) -> str:
    """The condition between min_value and max_value; `strictly` leaves the bounds out."""
    equal = "" if a.get("strictly", False) else "="
    return " and ".join(at_limits(a, f"({value}) >{equal}", f"({value}) <{equal}"))


def at_limits(a: Arguments, low: str, high: str) -> list[str]:
    """The conditions that end in min_value and in max_value; `low` and `high` are what is before.

    One of them where the other limit is not given. Raises Unadoptable: neither is.
    """
    limits = ((low, a.get("min_value")), (high, a.get("max_value")))
    parts = [f"{before} {limit!s}" for before, limit in limits if limit is not None]
    if not parts:
        raise Unadoptable("it has neither min_value nor max_value")
    return parts


def tuples(a: Arguments, argument: str, quote: object, row_condition: str | None) -> Failing:
    """Tuples that occur more than once; a null is a value like others."""
    columns = [f"`{c}`" if quote else str(c) for c in a.listed(argument)]
    empty = " and ".join(f"({c}) is null" for c in columns)
    listed = ", ".join(columns)
    nulls = f"count_if({empty})"
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {listed}), 0)"
        f" + case when {nulls} > 1 then 1 else 0 end",
        where=row_condition,
    )
