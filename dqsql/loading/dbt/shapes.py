"""The tests of dbt_expectations about a relation's columns: names, types, order, number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dqsql.loading.dbt.failing import (
    Arguments,
    Builder,
    Failing,
    Unadoptable,
    at_limits,
    none_or_one,
)

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIMPLE = re.compile(r"\w+(\(\d+, ?\d+\))?", re.ASCII)
# A varchar is a string in the types of Spark's relations, not in those that dbt reads.
_TEXTS = ("STRING", "VARCHAR", "CHAR", "TEXT")
# The names of the relation's columns in their order.
_COLUMNS = "json_object_keys(upper(fact('schema')))"


def _column_count_between(a: Arguments) -> Failing:
    if 0 in (a.get("min_value"), a.get("max_value")):
        raise Unadoptable("the test ignores a limit of 0")
    return none_or_one(" or ".join(at_limits(a, "column_count() <", "column_count() >")))


def _name(name: object) -> str:
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise Unadoptable(f"the column {name!r} is not a plain name")
    return name.upper()


def _refuse_transform(a: Arguments) -> None:
    """Names are compared without regard to case; any other filter of Jinja is refused."""
    if a.get("transform", "upper") not in ("upper", "lower"):
        raise Unadoptable("'transform' is neither upper nor lower")


def _in_schema(column: str, column_type: str = "") -> str:
    """Whether the relation has a column (of a type): the fact is a JSON object of types by name."""
    return f"""instr(upper(fact('schema')), '"{column}": "{column_type}') > 0"""


def _exists(a: Arguments) -> Failing:
    _refuse_transform(a)
    column, index = _name(a.text("column_name")), a.get("column_index")
    if not index:
        return none_or_one(f"not {_in_schema(column)}")
    if type(index) is not int:
        raise Unadoptable(f"'column_index' is {index!r}")
    return none_or_one(f"not {_at(max(index - 1, 0), column)}")


def _at(position: int, column: str) -> str:
    return f"coalesce(get({_COLUMNS}, {position}) = '{column}', false)"


def _of_type(types: Callable[[Arguments], list[Any]]) -> Builder:
    """A column that is there has one of the types."""

    def make(a: Arguments) -> Failing:
        column = _name(a.text("column_name"))
        wanted = [str(t).upper() for t in types(a)]
        for name in wanted:
            if not _SIMPLE.fullmatch(name) or name.startswith(_TEXTS):
                raise Unadoptable(f"Spark and dbt write types like {name} differently")
        known = " or ".join(_in_schema(column, f'{name}"') for name in wanted)
        return none_or_one(f"{_in_schema(column)} and not ({known})")

    return make


def _listed(a: Arguments) -> list[str]:
    _refuse_transform(a)
    return [_name(name) for name in a.listed("column_list")]


def _number(conditions: list[str]) -> str:
    """How many of the conditions hold."""
    return " + ".join(f"case when {c} then 1 else 0 end" for c in conditions)


def _contain_set(a: Arguments) -> Failing:
    return Failing(_number([f"not {_in_schema(c)}" for c in _listed(a)]))


def _not_contain_set(a: Arguments) -> Failing:
    return Failing(_number([_in_schema(c) for c in _listed(a)]))


def _match_set(a: Arguments) -> Failing:
    """Names of the list that are no columns, and columns that are not in the list."""
    listed = _listed(a)
    present = _number([_in_schema(c) for c in dict.fromkeys(listed)])
    missing = _number([f"not {_in_schema(c)}" for c in listed])
    return Failing(f"column_count() - ({present}) + {missing}")


def _match_ordered_list(a: Arguments) -> Failing:
    """Names and columns that are not at each other's place."""
    listed = _listed(a)
    met = _number([_at(i, c) for i, c in enumerate(listed)])
    return Failing(f"column_count() + {len(listed)} - 2 * ({met})")


# By name, without the package and the `expect_` that all of them begin with.
SHAPES: Mapping[str, Builder] = {
    "column_to_exist": _exists,
    "column_values_to_be_of_type": _of_type(lambda a: [a.text("column_type")]),
    "column_values_to_be_in_type_list": _of_type(lambda a: a.listed("column_type_list")),
    "table_column_count_to_equal": lambda a: none_or_one(f"column_count() <> {a.text('value')}"),
    "table_column_count_to_be_between": _column_count_between,
    "table_columns_to_contain_set": _contain_set,
    "table_columns_to_not_contain_set": _not_contain_set,
    "table_columns_to_match_set": _match_set,
    "table_columns_to_match_ordered_list": _match_ordered_list,
}
