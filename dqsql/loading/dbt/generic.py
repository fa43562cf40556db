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
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import DqsqlError
from dqsql.loading.dbt.failing import (
    Arguments,
    Builder,
    Expression,
    Failing,
    Unadoptable,
    at_limits,
    between,
    bounds,
    joined,
    none_or_one,
    oldest,
    quoted,
    rows,
    sql,
    tuples,
)
from dqsql.loading.dbt.shapes import SHAPES
from dqsql.model.functions import AGGREGATES

_REPEATED = "coalesce(frequency(count_if(n > 1), {column}), 0)"
_DISTINCT = "coalesce(frequency(count(*), {column}), 0)"
_ORPHAN = "is_orphan({column}, {other}, {field})"
_MATCH = "length(regexp_extract({column}, {pattern}, 0)) > 0"
_NO_MATCH = "length(regexp_extract({column}, {pattern}, 0)) = 0"
_LIKE = "{column} like {pattern}"
_NOT_LIKE = "not {column} like {pattern}"
_UTC = ("UTC", "ETC/UTC", "GMT")
# How versions of a test count the groups of two relations, and one that only one of them has.
_FULL_JOIN = re.compile(r"\bfull\s+(outer\s+)?join\b", re.IGNORECASE)
_NO_GROUP_IS_0 = re.compile(r"\bcoalesce\(\s*count_", re.IGNORECASE)
# What makes of a test one of groups of rows.
_GROUPS = ("group_by", "group_by_columns", "compare_group_by")

# --- dbt and dbt_utils -------------------------------------------------------------------------


def _one_where(condition: str) -> Builder:
    """One failing row where a condition on aggregates of all rows holds."""
    return lambda a: none_or_one(condition.format_map(a))


def _failing_values(a: Arguments, failing: str) -> Failing:
    """The values that are `in` a list, or `not in` it."""
    condition = f"({a.column}) {failing} ({quoted(a.listed('values'), a.get('quote', True))})"
    # dbt returns values. To count them is dearer than to count rows, and seldom needed.
    value = f"case when {condition} then {a.column} end"
    return Failing(
        f"coalesce(frequency(count(*), {value}), 0)",
        by_row=True,
        quick=f"count_if({condition})",
        values=value,
    )


def _accepted_range(a: Arguments) -> Failing:
    equal = "=" if a.get("inclusive", True) else ""
    outside = at_limits(a, f"not ({a.column}) >{equal}", f"not ({a.column}) <{equal}")
    return rows(" or ".join(outside))


def _expression_is_true(a: Arguments) -> Failing:
    column = a.get("column_name")
    condition = f"{column or ''} {a.text('expression')}".strip()
    return rows(f"not ({condition})")


def _not_null_proportion(a: Arguments) -> Failing:
    share = f"count({a.column}) / cast(nullif(count(*), 0) as decimal(28, 6))"
    low, high = a.text("at_least"), str(a.get("at_most", 1.0))
    return none_or_one(f"{share} < {low} or {share} > {high}")


def _not_empty_string(a: Arguments) -> Failing:
    value = a.column
    if a.get("trim_whitespace", True):
        if "translate(" in a.text_of_test:
            # Spark's `trim` leaves tabs and newlines; versions after 1.3 make blanks of them.
            value = f"translate({value}, chr(9) || chr(10) || chr(13), '   ')"
        value = f"trim({value})"
    return rows(f"{value} = ''")


def _both_counted(a: Arguments, rows: str) -> str:
    """Whether a test of two counts has both.

    Until version 1.3 they are those of groups, and no rows make no group: the test passes.
    """
    joins_groups = _FULL_JOIN.search(a.text_of_test) and not _NO_GROUP_IS_0.search(a.text_of_test)
    return f"count(*) > 0 and {rows} > 0" if joins_groups else "true"


def _equal_rowcount(a: Arguments) -> Failing:
    rows = f"relation_rows({a.other()})"
    return Failing(f"case when {_both_counted(a, rows)} then abs(count(*) - {rows}) else 0 end")


def _fewer_rows_than(a: Arguments) -> Failing:
    rows = f"relation_rows({a.other()})"
    return Failing(
        f"case when not ({_both_counted(a, rows)}) then 0 when count(*) > {rows} then"
        f" count(*) - {rows} when count(*) = {rows} then 1 else 0 end"
    )


def _recency(a: Arguments) -> Failing:
    newest, since = f"max({a.text('field')})", oldest(a)
    if a.get("ignore_time_component", False):
        newest, since = f"cast({newest} as date)", f"cast({since} as date)"
    return none_or_one(f"{newest} < {since}")


def _relationships_where(a: Arguments) -> Failing:
    if "".join(str(a.get("to_condition", "1=1")).split()) != "1=1":
        raise Unadoptable("'to_condition' restricts the other relation")
    condition = joined(str(a.get("from_condition", "1=1")))
    return rows(f"({condition}) and {_ORPHAN.format_map(a)}")


# --- dbt_expectations --------------------------------------------------------------------------


def _condition(a: Arguments) -> str | None:
    condition = a.get("row_condition")
    return str(condition) if condition else None


def _joined_condition(a: Arguments) -> str | None:
    """The condition on rows where the test has others beside it."""
    condition = _condition(a)
    return condition and joined(condition)


def _each_row(condition: Expression) -> Builder:
    """A condition on each row; where it is null the row passes."""
    return lambda a: rows(f"not ({condition(a)})", _condition(a))


def _all_rows(condition: Expression) -> Builder:
    """A condition on aggregates; where it is null the test passes."""
    return lambda a: none_or_one(f"not ({condition(a)})", _condition(a))


def _in_set(a: Arguments) -> Failing:
    return rows(f"not coalesce({_is_one_of(a)}, false)", _condition(a))


def _not_in_set(a: Arguments) -> Failing:
    texts = [_normal(v) for v in a.listed("value_set")]
    if len(set(texts)) < len(texts):
        raise Unadoptable("its set contains a value twice, so the test counts rows twice")
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


def _quantile(quantile: str) -> Builder:
    """A quantile between bounds: a window function on Spark, so that each of the rows fails."""
    condition = between(f"percentile({{column}}, {quantile})")
    return lambda a: Failing(
        f"case when not ({condition(a)}) then count(*) else 0 end", where=_condition(a)
    )


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


def _matches(a: Arguments, argument: str, template: str) -> list[str]:
    """The conditions of one pattern, or of a list of them where the test takes a list."""
    for ignored in ("is_raw", "flags"):
        # On Spark the package says so in a warning, and reads its patterns as without them.
        a.get(ignored)
    patterns = a.listed(argument) if argument.endswith("_list") else [a.get(argument)]
    if not all(isinstance(p, str) for p in patterns):
        raise Unadoptable(f"its argument {argument!r} is not a pattern")
    return [template.format(column=a.column, pattern=f"'{p}'") for p in patterns]


def _pattern(argument: str, template: str) -> Builder:
    def condition(a: Arguments) -> str:
        word = "and" if a.get("match_on", "any") == "all" else "or"
        return f" {word} ".join(f"({c})" for c in _matches(a, argument, template))

    return _each_row(condition)


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


def _distinct_equal_set(a: Arguments) -> Failing:
    """Distinct values that are not in the set, a null among them, and values that nobody has."""
    return Failing(f"{_distinct_in_set(a).count} + {_missing_values(a)}", where=_condition(a))


def _missing_values(a: Arguments) -> str:
    """How many distinct values of a set no row has."""
    quote = a.get("quote_values", True)
    normal: Callable[[object], str] = str if quote else _normal
    values = {normal(v): quoted([v], quote) for v in a.listed("value_set")}
    missing = (f"count_if(({a.column}) = {v}) = 0" for v in values.values())
    return " + ".join(f"case when {m} then 1 else 0 end" for m in missing)


def _consistent_casing(a: Arguments) -> Failing:
    if a.get("display_inconsistent_columns", False):
        raise Unadoptable("'display_inconsistent_columns' counts texts")
    # Of the distinct values null is one, but none of those in lower case.
    distinct = f"{_DISTINCT} + case when null_count({{column}}) > 0 then 1 else 0 end"
    lower = "coalesce(frequency(count(*), lower({column})), 0)"
    return none_or_one(f"{distinct} <> {lower}".format_map(a))


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
    text = a.text("expression")
    condition = f"not (({text}) {a.get('test_condition', '= true')})"
    try:
        calls = parse_expression(text).find_all(exp.Anonymous)
    except DqsqlError as error:
        raise Unadoptable(f"its expression is not understood: {error.message}") from error
    is_total = any(str(c.this).lower() in AGGREGATES for c in calls)
    return (none_or_one if is_total else rows)(condition, _condition(a))


def _total(a: Arguments) -> str:
    return " + ".join(f"sum({c})" for c in a.listed("column_list"))


def _summed(value: object) -> str:
    """A number, or the sum of a column."""
    if value is None:
        raise Unadoptable("its total is missing")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else f"sum({value!s})"


def _total_equal(a: Arguments) -> str:
    return f"{_total(a)} = {_summed(a.get('sum_total'))}"


def _total_between(a: Arguments) -> str:
    limits = {name: a.get(name) for name in ("min_value", "max_value")}
    given = {name: _summed(value) for name, value in limits.items() if value is not None}
    return bounds(Arguments({**given, "strictly": a.get("strictly", False)}), _total(a))


# --- pairs and counts ---------------------------------------------------------------------------


def _pair(a: Arguments) -> str:
    operator = ">=" if a.get("or_equal", False) else ">"
    return f"({{column_A}}) {operator} ({{column_B}})".format_map(a)


def _pair_in_set(a: Arguments) -> str:
    pairs = a.listed("value_pairs_set")
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Unadoptable("its set contains something other than pairs")
    left, right = a.text("column_A"), a.text("column_B")
    return _any([f"(({left}) = {x} and ({right}) = {y})" for x, y in pairs])


def _equal_table(a: Arguments) -> Failing:
    if a.get("row_condition") or a.get("compare_row_condition"):
        raise Unadoptable("a condition restricts what it counts of the other relation")
    factor = str(a.get("factor", 1))
    return none_or_one(f"not (count(*) = relation_rows({a.other()}) * {factor})")


# By name, without the package and the `expect_` that all of them begin with.
_EXPECTATIONS: Mapping[str, Builder] = {
    "column_values_to_be_null": _each_row(sql("({column}) is null")),
    "column_values_to_not_be_null": _each_row(sql("({column}) is not null")),
    "column_values_to_be_between": _each_row(between("{column}")),
    "column_values_to_be_in_set": _in_set,
    "column_values_to_not_be_in_set": _not_in_set,
    "column_values_to_be_unique": lambda a: Failing(
        _REPEATED.format_map(a), where=_joined_condition(a)
    ),
    "compound_columns_to_be_unique": _compound_unique,
    "column_value_lengths_to_be_between": _each_row(between("length({column})")),
    "column_value_lengths_to_equal": _each_row(sql("length({column}) = {value}")),
    "column_values_to_match_regex": _pattern("regex", _MATCH),
    "column_values_to_not_match_regex": _pattern("regex", _NO_MATCH),
    "column_values_to_match_regex_list": _pattern("regex_list", _MATCH),
    "column_values_to_not_match_regex_list": _pattern("regex_list", _NO_MATCH),
    "column_values_to_match_like_pattern": _pattern("like_pattern", _LIKE),
    "column_values_to_not_match_like_pattern": _pattern("like_pattern", _NOT_LIKE),
    "column_values_to_match_like_pattern_list": _pattern("like_pattern_list", _LIKE),
    "column_values_to_not_match_like_pattern_list": _pattern("like_pattern_list", _NOT_LIKE),
    "column_distinct_values_to_be_in_set": _distinct_in_set,
    "column_distinct_values_to_contain_set": lambda a: Failing(
        _missing_values(a), where=_condition(a)
    ),
    "column_distinct_values_to_equal_set": _distinct_equal_set,
    "column_values_to_have_consistent_casing": _consistent_casing,
    "column_pair_values_A_to_be_greater_than_B": _each_row(_pair),
    "column_pair_values_to_be_in_set": _each_row(_pair_in_set),
    "column_pair_values_to_be_equal": _each_row(sql("({column_A}) = ({column_B})")),
    "column_max_to_be_between": _all_rows(between("max({column})")),
    "column_min_to_be_between": _all_rows(between("min({column})")),
    "column_mean_to_be_between": _all_rows(between("avg({column})")),
    "column_median_to_be_between": _quantile("0.5"),
    "column_stdev_to_be_between": _all_rows(between("stddev({column})")),
    "column_sum_to_be_between": _all_rows(between("sum({column})")),
    "column_quantile_values_to_be_between": _quantile("{quantile}"),
    "column_unique_value_count_to_be_between": _all_rows(between(_DISTINCT)),
    "column_proportion_of_unique_values_to_be_between": _all_rows(
        # Without a value it is 1.
        between(f"coalesce({_DISTINCT} / nullif(count({{column}}), 0), 1)")
    ),
    "column_distinct_count_to_equal": _all_rows(sql(f"{_DISTINCT} = {{value}}")),
    "column_distinct_count_to_be_greater_than": _all_rows(sql(f"{_DISTINCT} > {{value}}")),
    "column_distinct_count_to_be_less_than": _all_rows(sql(f"{_DISTINCT} < {{value}}")),
    "multicolumn_sum_to_equal": _all_rows(_total_equal),
    "multicolumn_sum_to_be_between": _all_rows(_total_between),
    "row_values_to_have_recent_data": _recent,
    "table_row_count_to_be_between": _all_rows(between("count(*)")),
    "table_row_count_to_equal": _all_rows(sql("count(*) = {value}")),
    "table_row_count_to_equal_other_table": _equal_table,
    "table_row_count_to_equal_other_table_times_factor": _equal_table,
    **SHAPES,
}
_BUILDERS: Mapping[str, Builder] = {
    "not_null": lambda a: Failing(f"null_count({a.column})", by_row=True),
    "unique": lambda a: Failing(_REPEATED.format_map(a)),
    "accepted_values": lambda a: _failing_values(a, "not in"),
    "relationships": lambda a: rows(_ORPHAN.format_map(a)),
    "dbt_utils.accepted_range": _accepted_range,
    "dbt_utils.at_least_one": _one_where("count({column}) = 0"),
    "dbt_utils.equal_rowcount": _equal_rowcount,
    "dbt_utils.expression_is_true": _expression_is_true,
    "dbt_utils.fewer_rows_than": _fewer_rows_than,
    "dbt_utils.not_accepted_values": lambda a: _failing_values(a, "in"),
    # One distinct value is one that is both the least and the greatest.
    "dbt_utils.not_constant": _one_where("min({column}) = max({column})"),
    "dbt_utils.not_empty_string": _not_empty_string,
    "dbt_utils.not_null_proportion": _not_null_proportion,
    "dbt_utils.recency": _recency,
    "dbt_utils.relationships_where": _relationships_where,
    "dbt_utils.unique_combination_of_columns": lambda a: tuples(
        a, "combination_of_columns", a.get("quote_columns", False), None
    ),
    **{f"dbt_expectations.expect_{name}": builder for name, builder in _EXPECTATIONS.items()},
    "dbt_expectations.expression_is_true": _truth,
}
_REASONS: Mapping[str, str] = {
    "dbt_utils.cardinality_equality": "it compares the values of two relations with their counts",
    "dbt_utils.equality": "it compares two relations row by row",
    "dbt_utils.mutually_exclusive_ranges": "it compares neighbouring rows",
    "dbt_utils.sequential_values": "it compares neighbouring rows",
    "dbt_expectations.expect_column_most_common_value_to_be_in_set": (
        "it picks one of several equally frequent values at random"
    ),
}

ADOPTED = frozenset(_BUILDERS)
"""The tests that are adopted, as `name` or `package.name`."""


def is_known(namespace: str, test: str) -> bool:
    """Whether `build` has a word about a package's test, be it that the test is left."""
    return f"{namespace}.{test}" in {*_BUILDERS, *_REASONS}


def build(namespace: str | None, test: str, arguments: Arguments) -> Failing:
    """What a test counts. Raises Unadoptable with the reason."""
    key = f"{namespace}.{test}" if namespace not in (None, "dbt") else test
    if key in _REASONS:
        raise Unadoptable(_REASONS[key])
    builder = _BUILDERS.get(key)
    if builder is None:
        raise Unadoptable(f"dqsql does not know the generic test {key}")
    for name in _GROUPS:
        if arguments.get(name):
            raise Unadoptable(f"{name!r} groups the rows")
    failing = builder(arguments)
    if arguments.unknown:
        raise Unadoptable(f"its argument {arguments.unknown[0]!r} is not known")
    return failing
