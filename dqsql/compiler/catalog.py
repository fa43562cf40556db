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
# `hasSize`, `ExpectColumnToExist`.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ELSEWHERE = {
    theirs: ours
    for ours, names in {
        "references(relation, key)": "relationships foreign_key",
        "null_count": "null nulls missing missing_count missing_values",
        "completeness": "missing_percent null_ratio not_null_proportion",
        "completeness >= 0.9": "proportion_of_non_null_values_to_be_between",
        "not_null": "complete not_be_null required is",
        "min_length > 0": "not_empty not_empty_string",
        "unique": "be_unique",
        "duplicate_count": "duplicates",
        "unique {mostly: 0.99}": "duplicate_percent",
        "distinctness >= 0.9": "proportion_of_unique_values_to_be_between",
        "unique(a, b)": "unique_combination_of_columns compound_columns_to_be_unique",
        "count_distinct": "distinct distinct_count cardinality number_of_distinct_values",
        "count_distinct > 1": "not_constant",
        "count_distinct between 1 and 9": "unique_value_count_to_be_between",
        "count > 0": "at_least_one",
        "accepted_values(..)": (
            "be_in_set contained_in one_of values_in valid_values isin in_list not_null_and_in_list"
            " distinct_values_to_be_in_set"
        ),
        "accepted_values('a', 'b'), and @count_distinct = 2": "distinct_values_to_equal_set",
        "expect(count(distinct case when x in ('a', 'b') then x end) = 2)": (
            "distinct_values_to_contain_set"
        ),
        "expect(mode(x) in ('a', 'b'))": "most_common_value_to_be_in_set",
        "in_range(low, high)": "accepted_range be_between",
        "min >= 1": "min_to_be_between valid_min min_value",
        "max <= 9": "max_to_be_between valid_max max_value",
        "sum between 1 and 9": "sum_to_be_between",
        "mean between 1 and 9": "mean_to_be_between avg_to_be_between",
        "median between 1 and 9": "median_to_be_between",
        "stddev between 1 and 9": "stdev_to_be_between",
        "stddev": "standard_deviation",
        "expect(corr(a, b) > 0.9)": "correlation",
        "quantile(0.9) between 1 and 9": "quantile_values_to_be_between",
        "greater_than(a, b)": "pair_values_a_to_be_greater_than_b gt",
        "greater_than_or_equal_to": "not_less_than ge",
        "less_than": "lt",
        "less_than_or_equal_to": "not_greater_than le",
        "equal_to": "eq",
        "not_equal_to": "ne",
        "equal_to(a, b), which a null passes, or @satisfies(a <=> b)": "pair_values_to_be_equal",
        "satisfies_if(a + b is not null, a + b = 10)": "multicolumn_sum_to_equal",
        "satisfies(a <> b)": "select_column_values_to_be_unique_within_record",
        "satisfies(x is null)": "be_null",
        "has_type('bigint')": "be_of_type be_in_type_list has_data_type",
        "schema_is('a bigint, b string')": (
            "to_exist columns_to_match_set columns_to_match_ordered_list"
        ),
        "column_count = 5": "column_count_to_equal column_count_to_be_between",
        "min_length >= 1, and @max_length <= 9": "value_lengths_to_be_between str_length",
        "satisfies_if(x is not null, length(x) = 5)": "value_lengths_to_equal",
        "satisfies_if(x is not null, x like 'a%')": (
            "like match_like_pattern match_like_pattern_list"
        ),
        "satisfies_if(x is not null, x not like 'a%')": (
            "not_like not_match_like_pattern not_match_like_pattern_list"
        ),
        "satisfies_if(x is not null, try_parse_json(x) is not null)": (
            "be_json_parseable match_json_schema valid_json"
        ),
        "satisfies_if(x is not null, try_to_timestamp(x, 'yyyy-MM-dd') is not null)": (
            "match_strftime_format be_dateutil_parseable"
        ),
        "satisfies_if(x is not null, x not in ('a', 'b'))": (
            "not_accepted_values not_be_in_set not_in not_one_of notin not_in_list"
        ),
        "satisfies_if(x is not null, x not between 1 and 9)": (
            "not_in_range not_between not_be_between"
        ),
        "satisfies_if(x is not null, not x rlike 'regex')": (
            "not_matches not_match_regex not_match_regex_list"
        ),
        "duplicate_count > 0": "not_unique",
        "anomaly(row_count)": "anomaly_detection anomalies",
        "positive on a column of the SELECT, x - lag(x) over (order by ts) as step": (
            "increasing be_increasing sequential_values"
        ),
        "positive on a column of the SELECT, lag(x) - x over (order by ts) as step": (
            "decreasing be_decreasing"
        ),
        "satisfies_if(next_from is not null, valid_to <= next_from), with a column of the SELECT:"
        " lead(valid_from) over (partition by id order by valid_from) as next_from": (
            "mutually_exclusive_ranges"
        ),
        "matches('regex')": (
            "regex regex_match match_regex match_regex_list valid_regex valid_format str_matches"
            " has_pattern contains_email contains_url contains_credit_card_number"
            " contains_social_security_number"
        ),
        "matches('^text')": "str_startswith starts_with startswith",
        "matches('text$')": "str_endswith ends_with endswith",
        "matches('text')": "str_contains contains",
        "satisfies(condition)": (
            "expression_is_true condition check failed_rows invalid_count invalid_percent"
            " invalid_values sql_expression"
        ),
        "row_count": "rows size",
        "row_count = 100": "row_count_to_equal",
        "row_count between 1 and 100": "row_count_to_be_between",
        "equal_row_count(relation)": "equal_rowcount row_count_to_equal_other_table",
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
        words = _HUMP.sub("_", name).lower()
        plain = _EXPECTATION.sub("", words)
        ours = _ELSEWHERE.get(words) or _ELSEWHERE.get(plain)
        if ours is None and plain != name.lower() and plain in self.annotation_names | AGGREGATES:
            ours = plain
        return f"did you mean @{ours}?" if ours else None

    def _alike(self, name: str) -> str | None:
        """The hint on a name that is written much like one that there is, or None."""
        names = self.annotation_names | AGGREGATES
        if not _EXPECTATION.sub("", _HUMP.sub("_", name).lower()).startswith("not_"):
            return nearest(name, names)
        # Without its "not", the most alike name would be the opposite.
        return nearest(name, [n for n in names if n.startswith("not_")]) or (
            "write what must not be as a condition: @satisfies_if(x is not null, not ..)"
        )
