"""What the generic tests of dbt_expectations count."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError
from dqsql.loading.dbt.failing import (
    Arguments,
    Failing,
    Unadoptable,
    at_limits,
    bounds,
    joined,
    none_or_one,
    oldest,
    quoted,
    rows,
    sql_text,
    tuples,
)
from dqsql.model.functions import AGGREGATES


def _condition(a: Arguments) -> str | None:
    condition = a.get("row_condition")
    return sql_text(condition) if condition else None


def _joined_condition(a: Arguments) -> str | None:
    """The condition on rows where the test has others beside it."""
    condition = _condition(a)
    return condition and joined(condition)


def _true(value: Callable[[Arguments], str]) -> Callable[[Arguments], Failing]:
    """A condition on each row; where it is null the row passes."""
    return lambda a: rows(f"not ({value(a)})", _condition(a))


def _true_of_all(value: Callable[[Arguments], str]) -> Callable[[Arguments], Failing]:
    """A condition on aggregates; where it is null the test passes."""

    def make(a: Arguments) -> Failing:
        a.refuse("group_by", "group_by_columns")
        return none_or_one(f"not ({value(a)})", _condition(a))

    return make


def _between(aggregate: str) -> Callable[[Arguments], Failing]:
    """An aggregate of the column between bounds."""
    return _true_of_all(lambda a: bounds(a, aggregate.format(column=a.column)))


def _in_set(a: Arguments) -> Failing:
    return rows(f"not coalesce({_is_one_of(a)}, false)", _condition(a))


def _not_in_set(a: Arguments) -> Failing:
    texts = [_normal(v) for v in a.listed("value_set")]
    if len(set(texts)) < len(texts):
        raise Unadoptable("a value of its set stands there twice: the test counts its rows twice")
    return rows(_is_one_of(a), _condition(a))


def _is_one_of(a: Arguments) -> str:
    """Whether the column is one of a set's values, each compared by itself.

    The tests join, so that a text is cast to the column's type. `in` would do the opposite: without
    Spark's ANSI mode it compares texts.
    """
    quote = a.get("quote_values", True)
    values = [quoted([v], quote) for v in a.listed("value_set")]
    return _any([f"({a.column}) = {v}" for v in values])


def _any(conditions: Sequence[str]) -> str:
    """Conditions joined by `or`, as a tree: of a thousand the SQL is still not deep."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any(conditions[:middle])} or {_any(conditions[middle:])})"


def _normal(value: object) -> str:
    """A value's text, the same for different texts of one number."""
    try:
        return str(float(str(value)))
    except ValueError:
        return str(value)


def _quantile(quantile: Callable[[Arguments], str]) -> Callable[[Arguments], Failing]:
    """A quantile between bounds: a window function on Spark, so that each of the rows fails."""

    def make(a: Arguments) -> Failing:
        a.refuse("group_by")
        between = bounds(a, f"percentile({a.column}, {quantile(a)})")
        return Failing(f"case when not ({between}) then count(*) else 0 end", where=_condition(a))

    return make


def _compound_unique(a: Arguments) -> Failing:
    """Tuples of columns; by default those without any value are left out."""
    columns = [f"`{c}`" if a.get("quote_columns", False) else c for c in a.listed("column_list")]
    ignored = a.get("ignore_row_if", "all_values_are_missing")
    where = _joined_condition(a)
    if ignored == "never":
        return tuples(a, "column_list", a.get("quote_columns", False), where)
    if ignored == "any_value_is_missing":
        present = " and ".join(f"({c}) is not null" for c in columns)
        where = f"({where}) and {present}" if where else present
    elif ignored != "all_values_are_missing":
        raise Unadoptable(f"'ignore_row_if' is {ignored!r}")
    listed = ", ".join(columns)
    return Failing(f"coalesce(frequency(count_if(n > 1), {listed}), 0)", where=where)


def _values_unique(a: Arguments) -> Failing:
    return Failing(
        f"coalesce(frequency(count_if(n > 1), {a.column}), 0)", where=_joined_condition(a)
    )


def _matches(a: Arguments, argument: str, template: str) -> list[str]:
    """The conditions of one pattern, or of a list of them where the test takes a list."""
    for name in ("is_raw", "flags"):
        if a.get(name):
            raise Unadoptable(f"{name!r} changes how its patterns are read")
    patterns = a.listed(argument) if argument.endswith("_list") else [a.get(argument)]
    if not all(isinstance(p, str) for p in patterns):
        raise Unadoptable(f"its argument {argument!r} is no pattern")
    return [template.format(column=a.column, pattern=f"'{p}'") for p in patterns]


def _pattern(argument: str, template: str) -> Callable[[Arguments], Failing]:
    def condition(a: Arguments) -> str:
        word = "and" if a.get("match_on", "any") == "all" else "or"
        return f" {word} ".join(f"({c})" for c in _matches(a, argument, template))

    return _true(condition)


def _distinct_in_set(a: Arguments) -> Failing:
    """Distinct values that are not in the set; a null is one of them."""
    other = f"not coalesce({_is_one_of(a)}, false)"
    return Failing(
        f"coalesce(frequency(count(*), case when {other} then {a.column} end), 0)"
        f" + case when null_count({a.column}) > 0 then 1 else 0 end",
        by_row=True,
        quick=f"count_if({other})",
        values=f"case when {other} then struct({a.column}) end",
        where=_condition(a),
    )


def _recent(a: Arguments) -> Failing:
    """The newest time that is not in the future is too old, or there is none."""
    zone = a.variables.get("dbt_date:time_zone")
    if str(zone).upper() not in _UTC:
        raise Unadoptable(f"its time is that of 'dbt_date:time_zone', which is {zone!r}")
    time = f"cast({a.column} as timestamp)"
    newest = f"max(case when {time} <= fact('run_started') then {time} end)"
    return none_or_one(
        f"coalesce({newest}, timestamp '1970-01-01 00:00:00') < {oldest(a)}", _joined_condition(a)
    )


def _truth(a: Arguments) -> Failing:
    """An expression about each row, or about all of them where it holds an aggregate."""
    a.refuse("group_by_columns")
    text = a.text("expression")
    condition = f"not (({text}) {a.get('test_condition', '= true')})"
    try:
        calls = parse_expression(text).find_all(exp.Anonymous)
    except DqsqlError as error:
        raise Unadoptable(f"its expression is not understood: {error.message}") from error
    is_total = any(str(c.this).lower() in AGGREGATES for c in calls)
    return (none_or_one if is_total else rows)(condition, _condition(a))


def _total(a: Arguments) -> str:
    return " + ".join(f"sum({sql_text(c)})" for c in a.listed("column_list"))


def _summed(value: object) -> str:
    """A number, or the sum of a column."""
    if value is None:
        raise Unadoptable("its total is missing")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return sql_text(value) if is_number else f"sum({sql_text(value)})"


def _total_between(a: Arguments) -> str:
    limits = {name: a.get(name) for name in ("min_value", "max_value")}
    given = {name: _summed(value) for name, value in limits.items() if value is not None}
    return bounds(Arguments({**given, "strictly": a.get("strictly", False)}), _total(a))


# --- the shape of a table ----------------------------------------------------------------------


def _column_count_between(a: Arguments) -> Failing:
    if 0 in (a.get("min_value"), a.get("max_value")):
        raise Unadoptable("a limit of 0 is none to the test")
    return none_or_one(" or ".join(at_limits(a, "column_count() <", "column_count() >")))


def _plain_column(a: Arguments) -> str:
    name = a.text("column_name")
    if not _PLAIN.fullmatch(name):
        raise Unadoptable(f"the column {name!r} is no plain name")
    return name.upper()


def _in_schema(column: str, column_type: str = "") -> str:
    """Whether the relation has a column (of a type): the fact is a JSON object of types by name."""
    return f"""instr(upper(fact('schema')), '"{column}": "{column_type}') > 0"""


def _exists(a: Arguments) -> Failing:
    if a.get("transform", "upper") not in ("upper", "lower"):
        raise Unadoptable("'transform' is neither upper nor lower")
    if a.get("column_index"):
        raise Unadoptable("'column_index' asks for the column's position")
    return none_or_one(f"not {_in_schema(_plain_column(a))}")


def _of_type(types: Callable[[Arguments], list[Any]]) -> Callable[[Arguments], Failing]:
    """A column that is there has one of the types."""

    def make(a: Arguments) -> Failing:
        column = _plain_column(a)
        wanted = [sql_text(t).upper() for t in types(a)]
        for name in wanted:
            if not _SIMPLE.fullmatch(name) or name.startswith(_TEXTS):
                raise Unadoptable(f"types like {name} are shown otherwise by Spark than by dbt")
        known = " or ".join(_in_schema(column, f'{name}"') for name in wanted)
        return none_or_one(f"{_in_schema(column)} and not ({known})")

    return make


def _pair(a: Arguments) -> str:
    operator = ">=" if a.get("or_equal", False) else ">"
    return f"({a.text('column_A')}) {operator} ({a.text('column_B')})"


def _equal_table(a: Arguments) -> Failing:
    a.refuse("group_by", "compare_group_by")
    if a.get("row_condition") or a.get("compare_row_condition"):
        raise Unadoptable("a condition restricts what it counts of the other relation")
    factor = sql_text(a.get("factor", 1))
    return none_or_one(f"not (count(*) = relation_rows({a.other()}) * {factor})")


_UTC = ("UTC", "ETC/UTC", "GMT")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIMPLE = re.compile(r"\w+(\(\d+, ?\d+\))?", re.ASCII)
# A varchar is a string in the types of Spark's relations, not in those that dbt reads.
_TEXTS = ("STRING", "VARCHAR", "CHAR", "TEXT")
_MATCH = "length(regexp_extract({column}, {pattern}, 0)) > 0"
_NO_MATCH = "length(regexp_extract({column}, {pattern}, 0)) = 0"
_LIKE = "{column} like {pattern}"
_NOT_LIKE = "not {column} like {pattern}"
_DISTINCT = "coalesce(frequency(count(*), {column}), 0)"
_TESTS: Mapping[str, Callable[[Arguments], Failing]] = {
    "column_values_to_be_null": _true(lambda a: f"({a.column}) is null"),
    "column_values_to_not_be_null": _true(lambda a: f"({a.column}) is not null"),
    "column_values_to_be_between": _true(lambda a: bounds(a, a.column)),
    "column_values_to_be_in_set": _in_set,
    "column_values_to_not_be_in_set": _not_in_set,
    "column_values_to_be_unique": _values_unique,
    "compound_columns_to_be_unique": _compound_unique,
    "column_value_lengths_to_be_between": _true(lambda a: bounds(a, f"length({a.column})")),
    "column_value_lengths_to_equal": _true(lambda a: f"length({a.column}) = {a.text('value')}"),
    "column_values_to_match_regex": _pattern("regex", _MATCH),
    "column_values_to_not_match_regex": _pattern("regex", _NO_MATCH),
    "column_values_to_match_regex_list": _pattern("regex_list", _MATCH),
    "column_values_to_not_match_regex_list": _pattern("regex_list", _NO_MATCH),
    "column_values_to_match_like_pattern_list": _pattern("like_pattern_list", _LIKE),
    "column_values_to_not_match_like_pattern_list": _pattern("like_pattern_list", _NOT_LIKE),
    "column_distinct_values_to_be_in_set": _distinct_in_set,
    "column_values_to_be_of_type": _of_type(lambda a: [a.text("column_type")]),
    "column_values_to_be_in_type_list": _of_type(lambda a: a.listed("column_type_list")),
    "column_to_exist": _exists,
    "row_values_to_have_recent_data": _recent,
    "multicolumn_sum_to_equal": _true_of_all(
        lambda a: f"{_total(a)} = {_summed(a.get('sum_total'))}"
    ),
    "multicolumn_sum_to_be_between": _true_of_all(_total_between),
    "table_column_count_to_equal": lambda a: none_or_one(f"column_count() <> {a.text('value')}"),
    "table_column_count_to_be_between": _column_count_between,
    "column_values_to_match_like_pattern": _pattern("like_pattern", _LIKE),
    "column_values_to_not_match_like_pattern": _pattern("like_pattern", _NOT_LIKE),
    "column_pair_values_A_to_be_greater_than_B": _true(_pair),
    "column_pair_values_to_be_equal": _true(
        lambda a: f"({a.text('column_A')}) = ({a.text('column_B')})"
    ),
    "column_max_to_be_between": _between("max({column})"),
    "column_min_to_be_between": _between("min({column})"),
    "column_mean_to_be_between": _between("avg({column})"),
    "column_median_to_be_between": _quantile(lambda a: "0.5"),
    "column_stdev_to_be_between": _between("stddev({column})"),
    "column_sum_to_be_between": _between("sum({column})"),
    "column_quantile_values_to_be_between": _quantile(lambda a: a.text("quantile")),
    "column_unique_value_count_to_be_between": _between(_DISTINCT),
    "column_proportion_of_unique_values_to_be_between": _between(
        # Without a value it is 1.
        f"coalesce({_DISTINCT} / nullif(count({{column}}), 0), 1)"
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
    "table_row_count_to_be_between": _true_of_all(lambda a: bounds(a, "count(*)")),
    "table_row_count_to_equal": _true_of_all(lambda a: f"count(*) = {a.text('value')}"),
    "table_row_count_to_equal_other_table": _equal_table,
}
BUILDERS = {
    **{f"dbt_expectations.expect_{name}": builder for name, builder in _TESTS.items()},
    "dbt_expectations.expression_is_true": _truth,
}
