"""The names an annotation may use: check macros, metric macros, monitors, SQL functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dqsql.errors import Span, UnknownNameError, nearest
from dqsql.model.functions import AGGREGATES, EXPECT, SCALARS
from dqsql.model.metric_traits import ValueRange, declared_range
from dqsql.model.monitors import monitor_specs
from dqsql.templating import MacroDef, MacroLibrary

# Names in dbt, dbt_utils, dbt_expectations, Great Expectations, Soda and Deequ, and what they are
# here.
_EXPECTATION = re.compile(
    r"^(?:expect_column_values_to_|expect_column_|expect_table_|expect_|has_|is_)"
)
_ELSEWHERE = {
    theirs: ours
    for ours, names in {
        "references(relation, key)": "relationships foreign_key",
        "null_count": "null nulls missing missing_count",
        "completeness": "missing_percent null_ratio not_null_proportion",
        "not_null": "complete not_be_null required is",
        "min_length > 0": "not_empty not_empty_string",
        "unique": "be_unique",
        "duplicate_count": "duplicates",
        "unique {mostly: 0.99}": "duplicate_percent",
        "unique(a, b)": "unique_combination_of_columns compound_columns_to_be_unique",
        "count_distinct": "distinct distinct_count cardinality",
        "count_distinct > 1": "not_constant",
        "count_distinct between 1 and 9": "unique_value_count_to_be_between",
        "count > 0": "at_least_one",
        "accepted_values(..)": "be_in_set contained_in one_of values_in valid_values",
        "in_range(low, high)": "accepted_range be_between",
        "min >= 1": "min_to_be_between",
        "max <= 9": "max_to_be_between",
        "sum between 1 and 9": "sum_to_be_between",
        "mean between 1 and 9": "mean_to_be_between avg_to_be_between",
        "median between 1 and 9": "median_to_be_between",
        "stddev between 1 and 9": "stdev_to_be_between",
        "quantile(0.9) between 1 and 9": "quantile_values_to_be_between",
        "greater_than(a, b)": "pair_values_a_to_be_greater_than_b",
        "equal_to(a, b)": "pair_values_to_be_equal",
        "satisfies(a + b = 10)": "multicolumn_sum_to_equal",
        "satisfies(x is null)": "be_null",
        "has_type('bigint')": "be_of_type be_in_type_list",
        "satisfies_if(x is not null, try_to_timestamp(x, 'yyyy-MM-dd') is not null)": (
            "match_strftime_format be_dateutil_parseable"
        ),
        "satisfies_if(x is not null, x not in ('a', 'b'))": (
            "not_accepted_values not_be_in_set not_in not_one_of"
        ),
        "satisfies_if(x is not null, x not between 1 and 9)": (
            "not_in_range not_between not_be_between"
        ),
        "satisfies_if(x is not null, not x rlike 'regex')": "not_matches not_match_regex",
        "duplicate_count > 0": "not_unique",
        "anomaly(row_count)": "anomaly_detection anomalies",
        "positive on a column of the SELECT, x - lag(x) over (order by ts) as step": (
            "increasing be_increasing sequential_values"
        ),
        "satisfies_if(next_from is not null, valid_to <= next_from), with a column of the SELECT:"
        " lead(valid_from) over (partition by id order by valid_from) as next_from": (
            "mutually_exclusive_ranges"
        ),
        "matches('regex')": "regex regex_match match_regex valid_regex",
        "satisfies(condition)": (
            "expression_is_true condition check failed_rows invalid_count invalid_percent"
        ),
        "row_count": "rows size",
        "row_count between 1 and 100": "row_count_to_be_between",
        "equal_row_count(relation)": "equal_rowcount",
        "fewer_rows_than(relation)": "fewer_rows_than_table",
        "freshness < 24": "recency max_age",
        "quantile(0.9)": "percentile",
    }.items()
    for theirs in names.split()
}

# What SQL says for words of other languages.
_SQL_FOR = {
    "today": "current_date()",
    "yesterday": "date_sub(current_date(), 1)",
    "getdate": "current_timestamp()",
    "sysdate": "current_timestamp()",
    "len": "length(..)",
    "isempty": "length(..) = 0",
}
# The hint on a name that is like none.
LISTED = "dqsql ls --resource-type macro lists all of them"
_BEGINS_WITH_DIGIT = re.compile(r"(?P<digits>\d[\d_]*)(?P<rest>.*)", re.DOTALL)
_TIMES = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


def _number_meant(name: str) -> str:
    """`1000` of `1_000`, `5000` of `5k`, `24` of `24h`; of `30m` both that it may be."""
    match = _BEGINS_WITH_DIGIT.fullmatch(name)
    digits = int(match["digits"].replace("_", "")) if match else 0
    unit = match["rest"].lower() if match else ""
    minutes = f", or {digits / 60:g} for {digits} minutes in hours" if unit == "m" else ""
    return f"{digits * _TIMES.get(unit, 1)}{minutes}"


@dataclass(frozen=True)
class Macro:
    """A check or metric macro as annotations see it."""

    name: str
    kind: str
    definition: MacroDef

    @property
    def takes_column(self) -> bool:
        """Whether the macro has a parameter that a column's context can fill."""
        return bool(self.definition.parameters) or self.definition.catches_varargs

    def has_room_for(self, arguments: int) -> bool:
        """Whether the macro takes that many positional arguments."""
        return self.definition.catches_varargs or arguments <= len(self.definition.parameters)


class Catalog:
    """Looks names up in the order that DESIGN fixes: check, metric, aggregate, scalar function."""

    def __init__(self, library: MacroLibrary, functions: Iterable[str] = ()) -> None:
        self.library = library
        self._macros = {
            (kind, name.removeprefix(f"{kind}_").lower()): Macro(
                name.removeprefix(f"{kind}_"), kind, m
            )
            for name, m in library.macros.items()
            for kind in ("check", "metric")
            if name.startswith(f"{kind}_")
        }
        self._functions = frozenset(f.lower() for f in functions)

    def check(self, name: str) -> Macro | None:
        """The check macro `name`, or None."""
        return self._macros.get(("check", name.lower()))

    def metric(self, name: str) -> Macro | None:
        """The metric macro `name`, or None."""
        return self._macros.get(("metric", name.lower()))

    def range_of(self, name: str) -> ValueRange | None:
        """The range that the documentation of the metric `name` names, or None."""
        macro = self.metric(name)
        if macro is None:
            return None
        return declared_range(self.library.documentation(macro.definition.name))

    def is_aggregate(self, name: str) -> bool:
        """Whether Spark has an aggregate function of that name."""
        return name.lower() in AGGREGATES

    def is_scalar(self, name: str) -> bool:
        """Whether Spark or the project has a scalar function of that name."""
        return name.lower() in SCALARS or name.lower() in self._functions

    @property
    def annotation_names(self) -> frozenset[str]:
        """Names that may stand directly behind `@`."""
        return frozenset({*(name for _, name in self._macros), *monitor_specs(), EXPECT})

    def unknown(self, name: str, span: Span, columns: Sequence[str] = ()) -> UnknownNameError:
        """The error for a name that is nothing that may stand in a check."""
        if name.lower() in {c.lower() for c in columns}:
            return UnknownNameError(
                f"the column {name!r} is outside an aggregate",
                span=span,
                hint="use an aggregate of it, or @satisfies(..) for a condition on every row",
            )
        if _BEGINS_WITH_DIGIT.match(name):
            return UnknownNameError(
                f"{name!r} is not a number", span=span, hint=f"write {_number_meant(name)}"
            )
        return UnknownNameError(
            f"unknown check, metric or function {name!r}",
            span=span,
            hint=self._meant(name) or self._alike(name) or LISTED,
        )

    def _meant(self, name: str) -> str | None:
        """The hint on a name that other tools have for a check or metric, or None."""
        kind, _, rest = name.lower().partition("_")
        if (kind, rest) in self._macros:
            return f"did you mean @{rest}?"
        if name in self.library.macros:
            return f"rename the macro to metric_{name} or check_{name} to use it here"
        if name.lower() in _SQL_FOR:
            return f"did you mean {_SQL_FOR[name.lower()]}?"
        plain = _EXPECTATION.sub("", name.lower())
        ours = _ELSEWHERE.get(plain) or _ELSEWHERE.get(name.lower())
        return f"did you mean @{ours}?" if ours else None

    def _alike(self, name: str) -> str | None:
        """The hint on a name that is written much like one that there is, or None."""
        names = self.annotation_names | AGGREGATES
        if not name.lower().startswith("not_"):
            return nearest(name, names)
        # Without its "not", the most alike name would be the opposite.
        return nearest(name, [n for n in names if n.startswith("not_")]) or (
            "write what must not be as a condition: @satisfies_if(x is not null, not ..)"
        )
