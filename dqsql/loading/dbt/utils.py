"""What the generic tests of dbt itself and of dbt_utils count."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dqsql.loading.dbt.failing import (
    Arguments,
    Failing,
    Unadoptable,
    at_limits,
    joined,
    none_or_one,
    oldest,
    quoted,
    rows,
    sql_text,
    tuples,
)

# --- dbt ---------------------------------------------------------------------------------------


def _not_null(a: Arguments) -> Failing:
    return Failing(f"null_count({a.column})", by_row=True)


def _unique(a: Arguments) -> Failing:
    return Failing(f"coalesce(frequency(count_if(n > 1), {a.column}), 0)")


def _accepted_values(a: Arguments) -> Failing:
    values = quoted(a.listed("values"), a.get("quote", True))
    other = f"({a.column}) not in ({values})"
    # dbt returns values. To count them is dearer than to count rows, and seldom needed.
    value = f"case when {other} then {a.column} end"
    return Failing(
        f"coalesce(frequency(count(*), {value}), 0)",
        by_row=True,
        quick=f"count_if({other})",
        values=value,
    )


def _relationships(a: Arguments) -> Failing:
    return rows(f"is_orphan({a.column}, {a.other()}, {a.text('field')})")


# --- dbt_utils ---------------------------------------------------------------------------------


def _accepted_range(a: Arguments) -> Failing:
    equal = "=" if a.get("inclusive", True) else ""
    outside = at_limits(a, f"not ({a.column}) >{equal}", f"not ({a.column}) <{equal}")
    return rows(" or ".join(outside))


def _expression_is_true(a: Arguments) -> Failing:
    column = a.get("column_name")
    condition = f"{column or ''} {a.text('expression')}".strip()
    return rows(f"not ({condition})")


def _not_null_proportion(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    share = f"count({a.column}) / cast(nullif(count(*), 0) as decimal(28, 6))"
    low, high = a.text("at_least"), sql_text(a.get("at_most", 1.0))
    return none_or_one(f"{share} < {low} or {share} > {high}")


def _not_empty_string(a: Arguments) -> Failing:
    value = f"trim({a.column})" if a.get("trim_whitespace", True) else a.column
    return rows(f"{value} = ''")


def _unique_combination(a: Arguments) -> Failing:
    return tuples(a, "combination_of_columns", a.get("quote_columns", False), None)


def _at_least_one(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    return none_or_one(f"count({a.column}) = 0")


def _not_constant(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    # One distinct value is one that is both the least and the greatest.
    return none_or_one(f"min({a.column}) = max({a.column})")


def _counted(rows: str) -> str:
    """Whether the tests of two counts have both: they group, and no rows make no group."""
    return f"count(*) > 0 and {rows} > 0"


def _equal_rowcount(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    rows = f"relation_rows({a.other()})"
    return Failing(f"case when {_counted(rows)} then abs(count(*) - {rows}) else 0 end")


def _fewer_rows_than(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    rows = f"relation_rows({a.other()})"
    return Failing(
        f"case when not ({_counted(rows)}) then 0 when count(*) > {rows} then count(*) - {rows}"
        f" when count(*) = {rows} then 1 else 0 end"
    )


def _recency(a: Arguments) -> Failing:
    a.refuse("group_by_columns")
    since = oldest(a)
    if a.get("ignore_time_component", False):
        raise Unadoptable("'ignore_time_component' is not known")
    return none_or_one(f"max({a.text('field')}) < {since}")


def _relationships_where(a: Arguments) -> Failing:
    if "".join(sql_text(a.get("to_condition", "1=1")).split()) != "1=1":
        raise Unadoptable("'to_condition' restricts the other relation")
    orphan = f"is_orphan({a.column}, {a.other()}, {a.text('field')})"
    return rows(f"({joined(sql_text(a.get('from_condition', '1=1')))}) and {orphan}")


BUILDERS: Mapping[str, Callable[[Arguments], Failing]] = {
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
}
