"""A new aggregate of dqsql's own is one file: names, lowering, states, scan, merge.

The one here is what such a file holds: `gap_days(column)`, the longest stretch of days between two
neighbouring dates of a batch, from a source and a query of its own, and `spread(column)`, greatest
minus least value, which merges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

import dqsql
from dqsql.compiler.aggregates import registry
from dqsql.compiler.aggregates.base import (
    Aggregate,
    AggregateCall,
    Component,
    Lowering,
    Relations,
    SourcePass,
    first_state,
    merge_with,
    scan_pass,
)
from dqsql.compiler.keys import BATCH, SEGMENT, segment_label
from dqsql.compiler.scan import Scan
from dqsql.dialect import column, formula
from dqsql.model.functions import AGGREGATES
from dqsql.model.plan import StateColumn, StateSource

from .conftest import CompileModel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# --- the file ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Dates(StateSource):
    value: exp.Expr

    @property
    def over_rows(self) -> tuple[exp.Expr, ...]:
        return (self.value,)

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.value,)

    def rewritten(self, change: Callable[[exp.Expr], exp.Expr]) -> _Dates:
        return _Dates(change(self.value))


def _gap_days(aggregate: AggregateCall, relations: Relations) -> Lowering:
    source = _Dates(aggregate.args[0])
    return Lowering((Component("gap", exp.Null(), None, source=source),), first_state)


@dataclass(frozen=True)
class _GapPass(SourcePass):
    def query(self, scan: Scan, states: Sequence[StateColumn]) -> exp.Select:
        (state,) = states
        value = state.over_rows[0]
        rows = exp.select(
            exp.alias_(scan.batch_value, BATCH, quoted=True),
            exp.alias_(
                formula(
                    "datediff({0}, lag({0}) over (partition by {1} order by {0}))",
                    value,
                    scan.batch_value,
                ),
                "gap",
                quoted=True,
            ),
        )
        found = scan.from_batches(rows).subquery("gaps")
        longest = exp.alias_(formula("max({0})", column("gap")), state.name, quoted=True)
        segment = exp.alias_(segment_label(()), SEGMENT, quoted=True)
        return exp.select(column(BATCH), segment, longest).from_(found).group_by(column(BATCH))


def _spread(aggregate: AggregateCall, relations: Relations) -> Lowering:
    least, most = (
        Component(f"spread_{f}", aggregate.aggregate(f, *aggregate.args), merge_with(f))
        for f in ("min", "max")
    )
    return Lowering((least, most), lambda states: formula("{1} - {0}", *states))


DECLARED = (Aggregate(("gap_days",), _gap_days, own=True), Aggregate(("spread",), _spread))

# --- the test ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    @scan_pass.register
    def _(source: _Dates, columns: Mapping[str, str]) -> SourcePass:
        return _GapPass("gaps between dates", 65, apart=True)

    monkeypatch.setattr(registry, "_BY_NAME", dict(registry._BY_NAME))
    for declared in DECLARED:
        registry.register(declared)
    yield
    AGGREGATES.difference_update(n for declared in DECLARED for n in declared.names)


def test_the_files_of_the_folder_are_found() -> None:
    assert registry.names(own=True) == {
        *("frequency", "fact", "metric", "naive_bayes", "relation_rows", "gap_days")
    }
    assert {"count", "stddev", "approx_count_distinct"} <= registry.names(own=False)


def test_it_compiles_to_states_of_its_own(compile_model: CompileModel) -> None:
    compiled = compile_model(
        "select placed, -- @gap_days(placed) < 7\n"
        "  price -- @spread < 100 {scope: cumulative}\n"
        "from {{ source('shop', 'orders') }}"
    )
    assert compiled.errors == ()
    assert [m.column for m in compiled.plan.metrics] == ["placed", "price"]
    assert "scan: gaps between dates" in [q.purpose for q in compiled.queries]


def test_it_is_measured(make_project: Callable[..., Path], spark: SparkSession) -> None:
    rows = (
        "values ('a', date'2024-01-01', 1), ('a', date'2024-01-05', 4), ('b', date'2024-02-01', 9)"
    )
    sql = (
        "{{ config(batch_by='batch_name') }}\n"
        "select batch_name,\n"
        "  placed, -- @gap_days(placed) = 4\n"
        "  price -- @spread = 8 {scope: cumulative}\n"
        f"from {rows} as t(batch_name, placed, price)"
    )
    result = dqsql.run(make_project({"checks/m.sql": sql}), spark=spark)
    found = {(r.batch, r.check_id): (r.status.value, r.observed) for r in result.models[0].results}
    assert found == {
        ("a", "m.placed.gap_days_placed_eq_4"): ("pass", 4.0),
        ("b", "m.placed.gap_days_placed_eq_4"): ("no_data", None),
        ("a", "m.price.spread_eq_8"): ("fail", 3.0),
        ("b", "m.price.spread_eq_8"): ("pass", 8.0),
    }
