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

from collections.abc import Mapping

from dqsql.loading.dbt import expectations, utils
from dqsql.loading.dbt.failing import Arguments, Failing, Unadoptable

__all__ = ["ADOPTED", "Arguments", "Failing", "Unadoptable", "build"]

_BUILDERS = {**utils.BUILDERS, **expectations.BUILDERS}
_REASONS: Mapping[str, str] = {
    "dbt_utils.cardinality_equality": "it compares the values of two relations with their counts",
    "dbt_utils.equality": "it compares two relations row by row",
    "dbt_utils.mutually_exclusive_ranges": "it compares neighbouring rows",
    "dbt_utils.sequential_values": "it compares neighbouring rows",
    "dbt_expectations.expect_column_most_common_value_to_be_in_set": (
        "of values that are equally frequent it takes one by chance"
    ),
}

ADOPTED = frozenset(_BUILDERS)
"""The tests that are adopted, as `name` or `package.name`."""


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
