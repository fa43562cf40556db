"""What dbt's generic tests count, as SQL aggregates over the tested relation.

A generic test of dbt is a query for failing rows; its result is their number. Here stands, for each
test that can be had from one relation's aggregates, the expression that gives that number: of dbt
itself, of dbt_utils and of dbt_expectations. The text that users gave (columns, conditions) is used
as it is. What nulls do follows the tests' own SQL:

- dbt, https://github.com/dbt-labs/dbt-adapters (generic_test_sql): `unique` leaves nulls out,
  `accepted_values` and `relationships` let them pass.
- dbt_utils, https://github.com/dbt-labs/dbt-utils: a condition that is null passes.
- dbt_expectations, https://github.com/metaplane/dbt-expectations: the same, but for a value in a
  set, which must not be null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError

_NAME = re.compile(r"[^\W\d]\w*")
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


class Unadoptable(Exception):
    """A test that dqsql leaves to dbt; the message is the reason."""


@dataclass(frozen=True)
class Failing:
    """The failing rows of a test.

    `count` is an aggregate, the number that dbt would report. `quick` is one that is cheaper (or
    says more to a person) and 0 exactly when `count` is. `by_row` says that each row fails or
    passes by itself, so that the test of a table is that of its batches.
    """

    count: str
    by_row: bool = False
    quick: str | None = None
    where: str | None = None


@dataclass
class Arguments:
    """The arguments of a test; what no builder asks for makes the test unadoptable.

    `relation` is the other relation that the test reads, as an annotation names it.
    """

    values: Mapping[str, Any]
    relation: str | None = None
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
            raise Unadoptable(f"its argument {name!r} is missing or no single value")
        return sql_text(value)

    def listed(self, name: str) -> list[Any]:
        """A required argument that is a list."""
        value = self.get(name)
        if not isinstance(value, list) or not value:
            raise Unadoptable(f"its argument {name!r} is no list")
        return value

    def other(self) -> str:
        """The other relation."""
        for name in ("to", "compare_model"):
            self._asked.add(name)
        if self.relation is None:
            raise Unadoptable("the relation that it compares with is not known")
        return self.relation

    def refuse(self, *names: str) -> None:
        """Arguments that must be empty."""
        for name in names:
            if self.get(name):
                raise Unadoptable(f"{name!r} groups the rows")

    @property
    def column(self) -> str:
        """The tested column, or expression; a name that is a keyword is quoted."""
        text = self.text("column_name")
        return f"`{text}`" if _NAME.fullmatch(text) and not _is_column(text) else text

    @property
    def unknown(self) -> list[str]:
        """Given arguments that nobody asked for."""
        return [k for k, v in self.values.items() if k not in self._asked and v is not None]


def _is_column(name: str) -> bool:
    """Whether a bare name reads as a column, and not as a keyword."""
    try:
        return isinstance(parse_expression(f"f({name})").expressions[0], exp.Column)
    except DqsqlError:
        return False


def sql_text(value: object) -> str:
    """A YAML value as dbt's Jinja writes it into SQL."""
    return str(value)


def build(namespace: str | None, name: str, arguments: Arguments) -> Failing:
    """What a test counts. Raises Unadoptable with the reason."""
    key = f"{namespace}.{name}" if namespace not in (None, "dbt") else name
    if key in _REASONS:
        raise Unadoptable(_REASONS[key])
    builder = _BUILDERS.get(key)
    if builder is None:
        raise Unadoptable(f"dqsql does not know the generic test {key}")
    failing = builder(arguments)
    if arguments.unknown:
        raise Unadoptable(f"its argument {arguments.unknown[0]!r} is not known")
    return failing


# --- building blocks ---------------------------------------------------------------------------


def _rows(condition: str, where: str | None = None) -> Failing:
    """Rows that meet a condition fail."""
    return Failing(f"count_if({condition})", by_row=True, where=where)


def _none_or_one(condition: str, where: str | None = None) -> Failing:
    """One failing row where a condition on aggregates holds."""
    return Failing(f"case when {condition} then 1 else 0 end", where=where)


def _quoted(values: list[Any], quote: object) -> str:
    return ", ".join(f"'{v}'" if quote else sql_text(v) for v in values)


def _bounds(a: Arguments, value: str) -> str:
    """The condition between min_value and max_value; `strictly` leaves the bounds out."""
    equal = "" if a.get("strictly", False) else "="
    low, high = a.get("min_value"), a.get("max_value")
    parts = [f"({value}) >{equal} {sql_text(low)}"] if low is not None else []
    parts += [f"({value}) <{equal} {sql_text(high)}"] if high is not None else []
    if not parts:
        raise Unadoptable("it has neither min_value nor max_value")
    return " and ".join(parts)


# --- dbt ---------------------------------------------------------------------------------------


def _not_null(a: Arguments) -> Failing:
    return Failing(f"null_count({a.column})", by_row=True)


def _unique(a: Arguments) -> Failing:
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {a.column}), 0)",
        quick=f"coalesce(duplicate_count({a.column}), 0)",
    )


def _accepted_values(a: Arguments) -> Failing:
    values = _quoted(a.listed("values"), a.get("quote", True))
    other = f"({a.column}) not in ({values})"
    # dbt counts values, which is dearer than to count rows.
    return Failing(
        f"coalesce(frequency(count(*), case when {other} then {a.column} end), 0)",
        by_row=True,
        quick=f"count_if({other})",
    )


def _relationships(a: Arguments) -> Failing:
    return _rows(f"is_orphan({a.column}, {a.other()}, {a.text('field')})")


# --- dbt_utils ---------------------------------------------------------------------------------


def _accepted_range(a: Arguments) -> Failing:
    equal = "=" if a.get("inclusive", True) else ""
    low, high = a.get("min_value"), a.get("max_value")
    parts = [f"not ({a.column}) >{equal} {sql_text(low)}"] if low is not None else []
    parts += [f"not ({a.column}) <{equal} {sql_text(high)}"] if high is not None else []
    if not parts:
        raise Unadoptable("it has neither min_value nor max_value")
    return _rows(" or ".join(parts))


def _expression_is_true(a: Arguments) -> Failing:
    column = a.get("column_name")
    condition = f"{column or ''} {a.text('expression')}".strip()
    return _rows(f"not ({condition})")


def _not_null_proportion(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    share = f"count({a.column}) / cast(nullif(count(*), 0) as decimal(28, 6))"
    low, high = a.text("at_least"), sql_text(a.get("at_most", 1.0))
    return _none_or_one(f"{share} < {low} or {share} > {high}")


def _not_empty_string(a: Arguments) -> Failing:
    value = f"trim({a.column})" if a.get("trim_whitespace", True) else a.column
    return _rows(f"{value} = ''")


def _unique_combination(a: Arguments) -> Failing:
    return _tuples(a, "combination_of_columns", a.get("quote_columns", False), None)


def _tuples(a: Arguments, argument: str, quote: object, row_condition: str | None) -> Failing:
    """Tuples that occur more than once; a null is a value like others."""
    columns = [f"`{c}`" if quote else sql_text(c) for c in a.listed(argument)]
    empty = " and ".join(f"({c}) is null" for c in columns)
    listed = ", ".join(columns)
    nulls = f"count_if({empty})"
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {listed}), 0)"
        f" + case when {nulls} > 1 then 1 else 0 end",
        quick=f"coalesce(duplicate_count({listed}), 0) + greatest({nulls} - 1, 0)",
        where=row_condition,
    )


def _at_least_one(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    return _none_or_one(f"count({a.column}) = 0")


def _not_constant(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    # One distinct value is one that is both the least and the greatest.
    return _none_or_one(f"min({a.column}) = max({a.column})")


def _equal_rowcount(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    return Failing(f"abs(count(*) - relation_rows({a.other()}))")


def _fewer_rows_than(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    rows = f"relation_rows({a.other()})"
    return Failing(
        f"case when count(*) > {rows} then count(*) - {rows} when count(*) = {rows} then 1"
        " else 0 end"
    )


def _recency(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    unit, interval = a.text("datepart"), a.text("interval")
    if unit not in _UNITS or not interval.isdigit():
        raise Unadoptable(f"its interval is {interval} {unit}")
    if a.get("ignore_time_component", False):
        raise Unadoptable("'ignore_time_component' is not known")
    lengths = ", ".join(interval if u == unit else "0" for u in _UNITS)
    oldest = f"fact('run_started') - make_interval({lengths})"
    return _none_or_one(f"max({a.text('field')}) < {oldest}")


def _relationships_where(a: Arguments) -> Failing:
    if "".join(sql_text(a.get("to_condition", "1=1")).split()) != "1=1":
        raise Unadoptable("'to_condition' restricts the other relation")
    orphan = f"is_orphan({a.column}, {a.other()}, {a.text('field')})"
    return _rows(f"({a.get('from_condition', '1=1')}) and {orphan}")


# --- dbt_expectations --------------------------------------------------------------------------


def _condition(a: Arguments) -> str | None:
    condition = a.get("row_condition")
    return sql_text(condition) if condition else None


def _true(value: Callable[[Arguments], str]) -> Callable[[Arguments], Failing]:
    """A condition on each row; where it is null the row passes."""
    return lambda a: _rows(f"not ({value(a)})", _condition(a))


def _true_of_all(value: Callable[[Arguments], str]) -> Callable[[Arguments], Failing]:
    """A condition on aggregates; where it is null the test passes."""

    def make(a: Arguments) -> Failing:
        a.refuse("group_by", "group_by_columns")
        return _none_or_one(f"not ({value(a)})", _condition(a))

    return make


def _between(aggregate: str) -> Callable[[Arguments], Failing]:
    """An aggregate of the column between bounds."""
    return _true_of_all(lambda a: _bounds(a, aggregate.format(column=a.column)))


def _in_set(a: Arguments) -> Failing:
    values = _quoted(a.listed("value_set"), a.get("quote_values", True))
    return _rows(f"not coalesce(({a.column}) in ({values}), false)", _condition(a))


def _not_in_set(a: Arguments) -> Failing:
    values = _quoted(a.listed("value_set"), a.get("quote_values", True))
    return _rows(f"({a.column}) in ({values})", _condition(a))


def _quantile(a: Arguments) -> str:
    return _bounds(a, f"percentile({a.column}, {a.text('quantile')})")


def _compound_unique(a: Arguments) -> Failing:
    """Tuples of columns; by default those without any value are left out."""
    columns = [f"`{c}`" if a.get("quote_columns", False) else c for c in a.listed("column_list")]
    ignored = a.get("ignore_row_if", "all_values_are_missing")
    where = _condition(a)
    if ignored == "never":
        return _tuples(a, "column_list", a.get("quote_columns", False), where)
    if ignored == "any_value_is_missing":
        present = " and ".join(f"({c}) is not null" for c in columns)
        where = f"({where}) and {present}" if where else present
    elif ignored != "all_values_are_missing":
        raise Unadoptable(f"'ignore_row_if' is {ignored!r}")
    listed = ", ".join(columns)
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {listed}), 0)",
        quick=f"coalesce(duplicate_count({listed}), 0)",
        where=where,
    )


def _values_unique(a: Arguments) -> Failing:
    column = a.column
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {column}), 0)",
        quick=f"coalesce(duplicate_count({column}), 0)",
        where=_condition(a),
    )


def _matches(a: Arguments, argument: str, template: str) -> list[str]:
    """The conditions of one pattern or a list of them."""
    for name in ("is_raw", "flags"):
        if a.get(name):
            raise Unadoptable(f"{name!r} changes how its patterns are read")
    given = a.get(argument)
    patterns = given if isinstance(given, list) else [given]
    if not given or not all(isinstance(p, str) for p in patterns):
        raise Unadoptable(f"its argument {argument!r} is no pattern")
    return [template.format(column=a.column, pattern=f"'{p}'") for p in patterns]


def _pattern(argument: str, template: str) -> Callable[[Arguments], Failing]:
    def condition(a: Arguments) -> str:
        word = "or" if a.get("match_on", "any") == "any" else "and"
        return f" {word} ".join(f"({c})" for c in _matches(a, argument, template))

    return _true(condition)


def _pair(a: Arguments) -> str:
    operator = ">=" if a.get("or_equal", False) else ">"
    return f"({a.text('column_A')}) {operator} ({a.text('column_B')})"


def _equal_table(a: Arguments) -> Failing:
    a.refuse("group_by", "compare_group_by", "compare_row_condition", "row_condition")
    factor = sql_text(a.get("factor", 1))
    return _none_or_one(f"not (count(*) = relation_rows({a.other()}) * {factor})")


_MATCH = "length(regexp_extract({column}, {pattern}, 0)) > 0"
_NO_MATCH = "length(regexp_extract({column}, {pattern}, 0)) = 0"
_DISTINCT = "coalesce(frequency(count(*), {column}), 0)"
_BUILDERS: Mapping[str, Callable[[Arguments], Failing]] = {
    "not_null": _not_null,
    "unique": _unique,
    "accepted_values": _accepted_values,
    "relationships": _relationships,
    "dbt_utils.accepted_range": _accepted_range,
    "dbt_utils.at_least_one": _at_least_one,
    "dbt_utils.equal_rowcount": _equal_rowcount,
    "dbt_utils.expression_is_true": _expression_is_true,
    "dbt_utils.fewer_rows_than": _fewer_rows_than,
    "dbt_utils.not_constant": _not_constant,
    "dbt_utils.not_empty_string": _not_empty_string,
    "dbt_utils.not_null_proportion": _not_null_proportion,
    "dbt_utils.recency": _recency,
    "dbt_utils.relationships_where": _relationships_where,
    "dbt_utils.unique_combination_of_columns": _unique_combination,
    **{
        f"dbt_expectations.expect_{name}": builder
        for name, builder in {
            "column_values_to_be_null": _true(lambda a: f"({a.column}) is null"),
            "column_values_to_not_be_null": _true(lambda a: f"({a.column}) is not null"),
            "column_values_to_be_between": _true(lambda a: _bounds(a, a.column)),
            "column_values_to_be_in_set": _in_set,
            "column_values_to_not_be_in_set": _not_in_set,
            "column_values_to_be_unique": _values_unique,
            "compound_columns_to_be_unique": _compound_unique,
            "column_value_lengths_to_be_between": _true(
                lambda a: _bounds(a, f"length({a.column})")
            ),
            "column_value_lengths_to_equal": _true(
                lambda a: f"length({a.column}) = {a.text('value')}"
            ),
            "column_values_to_match_regex": _pattern("regex", _MATCH),
            "column_values_to_not_match_regex": _pattern("regex", _NO_MATCH),
            "column_values_to_match_regex_list": _pattern("regex_list", _MATCH),
            "column_values_to_match_like_pattern": _pattern(
                "like_pattern", "{column} like {pattern}"
            ),
            "column_values_to_not_match_like_pattern": _pattern(
                "like_pattern", "not {column} like {pattern}"
            ),
            "column_pair_values_A_to_be_greater_than_B": _true(_pair),
            "column_pair_values_to_be_equal": _true(
                lambda a: f"({a.text('column_A')}) = ({a.text('column_B')})"
            ),
            "column_max_to_be_between": _between("max({column})"),
            "column_min_to_be_between": _between("min({column})"),
            "column_mean_to_be_between": _between("avg({column})"),
            "column_median_to_be_between": _between("percentile({column}, 0.5)"),
            "column_stdev_to_be_between": _between("stddev({column})"),
            "column_sum_to_be_between": _between("sum({column})"),
            "column_quantile_values_to_be_between": _true_of_all(_quantile),
            "column_unique_value_count_to_be_between": _between(_DISTINCT),
            "column_proportion_of_unique_values_to_be_between": _between(
                f"{_DISTINCT} / nullif(count({{column}}), 0)"
            ),
            "column_distinct_count_to_equal": _true_of_all(
                lambda a: f"{_DISTINCT.format(column=a.column)} = {a.text('value')}"
            ),
            "column_distinct_count_to_be_greater_than": _true_of_all(
                lambda a: f"{_DISTINCT.format(column=a.column)} > {a.text('value')}"
            ),
            "column_distinct_count_to_be_less_than": _true_of_all(
                lambda a: f"{_DISTINCT.format(column=a.column)} < {a.text('value')}"
            ),
            "table_row_count_to_be_between": _true_of_all(lambda a: _bounds(a, "count(*)")),
            "table_row_count_to_equal": _true_of_all(lambda a: f"count(*) = {a.text('value')}"),
            "table_row_count_to_equal_other_table": _equal_table,
        }.items()
    },
}
_REASONS: Mapping[str, str] = {
    "dbt_utils.cardinality_equality": "it compares the values of two relations with their counts",
    "dbt_utils.equality": "it compares two relations row by row",
    "dbt_utils.mutually_exclusive_ranges": "it compares neighbouring rows",
    "dbt_utils.sequential_values": "it compares neighbouring rows",
}

ADOPTED = frozenset(_BUILDERS)
"""The tests that are adopted, as `name` or `package.name`."""
