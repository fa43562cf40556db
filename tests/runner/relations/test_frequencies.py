"""Frequency tables of columns of all types against counts that Spark makes by itself."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dqsql.model.results import Status

from .conftest import Project, Table, statuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "tiny": "cast(id % 5 - 2 as tinyint)",
    "small": "cast(id % 40 - 20 as smallint)",
    "whole": "cast(if(id % 7 = 0, null, id % 60 - 30) as int)",
    "large": "if(id % 11 = 0, cast(-9223372036854775808 as bigint) + id, id * 1000003)",
    "edge": "if(id % 3 = 0, 9223372036854775807, -9223372036854775808)",
    "day": "date_add(date'1969-12-25', cast(id % 20 as int))",
    "moment": "timestamp_micros(id % 50 - 25)",
    "local": "cast(timestamp_micros(id % 50) as timestamp_ntz)",
    "single": "cast(element_at(array('0', '-0', 'NaN', '1.5', 'Infinity', null), sixth) as float)",
    "double": "cast(element_at(array('0', '-0', 'NaN', '.1', '-Infinity', null), sixth) as double)",
    "exact": "cast(id % 9 as decimal(20, 4)) / 8",
    "flag": "id % 4 = 0",
    "text": r"element_at(array('', ' ', 'a''b', '\\', '1:x', null), sixth)",
    "bytes": "cast(cast(id % 6 as string) as binary)",
    "pair": "named_struct('a', if(id % 2 = 0, null, 'x, y'), 'b', id % 3)",
    "list": "array(id % 3, null)",
    "nothing": "cast(null as bigint)",
    "Öd ly`named": "id % 13",
}
ROWS = 300
# NaN equals itself and -0.0 equals 0.0 in Spark's GROUP BY, as they should here.
TUPLES = {
    "pair of columns": ("text", "whole"),
    "text and day": ("text", "day"),
    "zeros with a sign": ("double", "flag"),
    # These are counted as numbers.
    "numbers": ("whole", "large"),
    "numbers and moments": ("tiny", "nothing", "day", "moment"),
}


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param("", id="plain", marks=pytest.mark.slow),
        pytest.param("batch_by='b', segment_by=['s']", id="parts"),
    ],
)
def test_counts_are_those_of_spark(
    project: Project, table: Table, spark: SparkSession, settings: str
) -> None:
    values = ", ".join(f"{sql} as {quoted(name)}" for name, sql in COLUMNS.items())
    table(
        "a_t",
        f"select id % 2 as b, id % 3 as s, {values}"
        f" from (select id, cast(id % 6 as int) + 1 as sixth from range({ROWS}))",
    )
    sets = {name: (name,) for name in COLUMNS} | TUPLES
    checks = [
        f"-- @{metric}({', '.join(map(quoted, columns))}) is not null"
        for columns in sets.values()
        for metric in ("count_distinct", "duplicate_count", "entropy", "uniqueness")
    ]
    listed = ", ".join(map(quoted, COLUMNS))
    project.write(
        "a",
        f"{{{{ config({settings}) }}}}\nselect b, s, {listed} from a_t\n"
        + "\n".join(checks)
        # A condition, and the value as text.
        + '\n-- @count_distinct(whole) > 0 {where: "b = 1"}'
        + "\n-- @expect(frequency(max(value), day) > '')"
        + "\n-- @expect(frequency(min(value) filter (where n > 0), large) > '')"
        + "\n-- @expect(frequency(min(value), tiny, nothing, day, moment) > '')"
        + "\n-- @expect(count(distinct whole, text) filter (where tiny > 0) > 0)",
    )
    project.run()
    whole_batch = "'all'" if not settings else "cast(b as string)"
    found = project.rows("dq_metrics")
    got = {
        (
            r["batch"] if settings else "all",
            r["segment"],
            r["column_name"],
            r["metric"],
            r["parameters"] or "",
        ): (r["value"] if r["value_text"] is None else r["value_text"])
        for r in found
    }
    for batch, part in [(whole_batch, "null")] + ([(whole_batch, "s")] if settings else []):
        counted = " union all ".join(
            f"select '{name}' as name, {batch} as b_, concat('s=', {part}) as s_, count(*) as n"
            f" from a_t where {' or '.join(f'{quoted(c)} is not null' for c in columns)}"
            f" group by b_, s_, {', '.join(map(quoted, columns))}"
            for name, columns in sets.items()
        )
        groups: dict[tuple[str, str, str | None], list[int]] = {}
        for row in spark.sql(counted).collect():
            groups.setdefault((row["name"], row["b_"], row["s_"]), []).append(row["n"])
        # Of nothing there are no groups.
        assert {name for name, _, _ in groups} == sets.keys() - {"nothing"}
        for (name, b, s), counts in groups.items():
            first, *others = sets[name]
            rest = ", ".join(c if c.isidentifier() else quoted(c) for c in others)
            wanted = {
                "count_distinct": len(counts),
                "duplicate_count": sum(counts) - len(counts),
                "entropy": entropy(counts),
                "uniqueness": Counter(counts)[1] / sum(counts),
            }
            for metric, value in wanted.items():
                assert got[b, s, first, metric, rest] == pytest.approx(
                    value, rel=1e-12, abs=1e-12
                ), (b, s, name, metric)
    b = "1" if settings else "all"
    assert got[b, None, "whole", "count_distinct", "where b = 1"] == len(
        {i % 60 for i in range(ROWS) if i % 2 == 1 and i % 7 != 0}
    )
    (last,) = (v for k, v in got.items() if k[:2] == (b, None) and "max(value)" in k[3])
    assert last == "1970-01-13"
    wanted = spark.sql(
        "select count(distinct whole, text) filter (where tiny > 0) as n from a_t"
        + (" where b = 1" if settings else "")
    ).first()
    (pairs,) = (v for k, v in got.items() if k[:2] == (b, None) and "DISTINCT" in f"{k[3]}{k[4]}")
    assert wanted is not None
    assert pairs == wanted["n"]
    (smallest,) = (v for k, v in got.items() if k[:2] == (b, None) and "tiny" in k[3])
    odd = [i for i in range(ROWS) if not settings or i % 2 == 1]
    assert smallest == min(as_text(i) for i in odd)


def test_entropy_is_never_below_zero(project: Project, table: Table) -> None:
    """By rounding ln(6) - 6 ln(6) / 6 is; and so are differences of entropies."""
    table("a_t", "select 'a' as one, id % 2 as x, id div 2 as y from range(6)")
    project.write(
        "a",
        "select one, x, y from a_t\n"
        "-- @entropy(one) = 0 @entropy(x) > 0 @expect(least(mutual_information(x, y), 0) = 0)\n"
        "-- @expect(least(mutual_information(one, x), 0) = 0)",
    )
    assert set(statuses(project.run()).values()) == {Status.PASS}


def as_text(i: int) -> str:
    """The tuple of tiny, nothing, day and moment of row `i`, with the length of each part."""
    day = dt.date(1969, 12, 25) + dt.timedelta(days=i % 20)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=i % 50 - 25)
    # Spark writes no zeros behind the last digit of a second.
    time = str(moment) if moment.microsecond == 0 else str(moment).rstrip("0")
    shown = (str(i % 5 - 2), str(day), time)
    tiny, date, time = (f"{len(text)}:{text}" for text in shown)
    return f"{tiny}-{date}{time}"


def entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(n / total * math.log(n / total) for n in counts)
