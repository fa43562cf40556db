"""The example project's metrics and findings, against DuckDB on the same files.

Nothing of dqsql takes part in the expectations: every metric is written again here, by hand, in
DuckDB's SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable

import dqsql
from dqsql.engine.session_settings import configured
from dqsql.model.results import RunResult, Status
from tests.conftest import COMPILED_PLANS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 120
EXACT = "exact"
MOMENT = "moment"
DISTINCT = "distinct"
QUANTILE = "quantile"

# Of HyperLogLog with 2^12 registers: five times its relative standard error of 1.6 %.
DISTINCT_ERROR = 0.08
# Of KLL with k = 400: twice the rank error that 99 % of sketches stay below.
RANK_ERROR = 0.02

RELATIONS = {
    "flights": "select * from '{data}/flights.parquet'",
    "weather": "select *, make_date(year, month, day) as observed_on from '{data}/weather.parquet'",
    "routes": """
        select
            f.flight_date, f.dest, d.name as dest_name, f.distance as miles,
            7917.5 * asin(sqrt(
                power(sin(radians(d.lat - o.lat) / 2), 2)
                + cos(radians(o.lat)) * cos(radians(d.lat))
                * power(sin(radians(d.lon - o.lon) / 2), 2)
            )) as great_circle_miles
        from '{data}/flights.parquet' as f
        join '{data}/airports.parquet' as o on o.faa = f.origin
        left join '{data}/airports.parquet' as d on d.faa = f.dest
    """,
}
BATCH_BY = {"flights": "flight_date", "weather": "observed_on", "routes": "flight_date"}


@dataclass(frozen=True)
class Expected:
    """A metric of the example: how to find it in `dq_metrics`, and what it is in DuckDB.

    `hint` is a part of its parameters; it tells metrics of one name and column apart.
    """

    model: str
    column: str | None
    metric: str
    sql: str
    kind: str = EXACT
    hint: str = ""

    def __str__(self) -> str:
        hint = f"[{self.hint}]" if self.hint else ""
        return f"{self.model}.{self.column or '*'}.{self.metric}{hint}"


def share(condition: str) -> str:
    """Share of the rows that meet a condition; null does not."""
    return f"count(*) filter (where {condition}) / count(*)"


def flights(
    column: str | None, metric: str, sql: str, kind: str = EXACT, hint: str = ""
) -> Expected:
    return Expected("flights", column, metric, sql, kind, hint)


def weather(
    column: str | None, metric: str, sql: str, kind: str = EXACT, hint: str = ""
) -> Expected:
    return Expected("weather", column, metric, sql, kind, hint)


def routes(
    column: str | None, metric: str, sql: str, kind: str = EXACT, hint: str = ""
) -> Expected:
    return Expected("routes", column, metric, sql, kind, hint)


EXPECTED = (
    flights("carrier", "completeness", "count(carrier) / count(*)"),
    flights("carrier", "approx_count_distinct", "count(distinct carrier)", DISTINCT),
    flights("flight", "compliance", share("flight is null or flight > 0")),
    flights("tailnum", "completeness", "count(tailnum) / count(*)"),
    flights(
        "tailnum",
        "compliance",
        share("tailnum is null or regexp_full_match(tailnum, 'N[0-9A-Z]{2,5}')"),
    ),
    flights("origin", "completeness", "count(origin) / count(*)"),
    flights("origin", "compliance", share("origin is null or origin in ('EWR', 'JFK', 'LGA')")),
    flights("dest", "completeness", "count(dest) / count(*)"),
    flights("dest", "min_length", "min(length(dest))"),
    flights("dest", "max_length", "max(length(dest))"),
    flights("sched_dep_time", "compliance", share("sched_dep_time between 0 and 2359")),
    flights("sched_arr_time", "compliance", share("sched_arr_time between 0 and 2359")),
    flights("dep_time", "cancellation_rate", share("dep_time is null")),
    flights("dep_delay", "mean", "avg(dep_delay)", MOMENT),
    flights("dep_delay", "min", "min(dep_delay)"),
    flights(
        "dep_delay",
        "count_if(dep_delay <= 15) / nullif(count(dep_delay), 0)",
        "count(*) filter (where dep_delay <= 15) / count(dep_delay)",
    ),
    flights("arr_delay", "median", "arr_delay", QUANTILE, "0.5"),
    flights("arr_delay", "stddev", "stddev_samp(arr_delay)", MOMENT),
    flights("air_time", "min", "min(air_time)"),
    flights("air_time", "max", "max(air_time)"),
    flights("air_time", "quantile", "air_time", QUANTILE, "0.9"),
    flights("distance", "completeness", "count(distance) / count(*)"),
    flights("distance", "compliance", share("distance > 0"), hint="> 0"),
    flights("distance", "compliance", share("distance <= 5000"), hint="5000"),
    flights("distance", "mean", "avg(distance)", MOMENT),
    flights(
        "distance",
        "speed_mph",
        "60 * sum(distance) filter (where air_time is not null) / sum(air_time)",
        MOMENT,
    ),
    flights("distance", "sum", "sum(distance)"),
    flights("hour", "compliance", share("hour between 0 and 23")),
    flights("minute", "compliance", share("minute between 0 and 59")),
    flights(None, "row_count", "count(*)"),
    flights(None, "compliance", share("origin <> dest"), hint="dest"),
    flights(None, "compliance", share("sched_dep_time = hour * 100 + minute"), hint="minute"),
    flights(
        None, "compliance", share("air_time is null or dep_delay is not null"), hint="air_time"
    ),
    weather("origin", "completeness", "count(origin) / count(*)"),
    weather("origin", "compliance", share("origin is null or origin in ('EWR', 'JFK', 'LGA')")),
    weather("origin", "approx_count_distinct", "count(distinct origin)", DISTINCT),
    weather("time_hour", "completeness", "count(time_hour) / count(*)"),
    weather("temp", "completeness", "count(temp) / count(*)"),
    weather("temp", "compliance", share("temp is null or temp between -30 and 120")),
    weather("dewp", "compliance", share("dewp is null or temp is null or dewp <= temp")),
    weather("humid", "compliance", share("humid is null or humid between 0 and 100")),
    weather("wind_dir", "completeness", "count(wind_dir) / count(*)"),
    weather("wind_dir", "compliance", share("wind_dir is null or wind_dir between 0 and 360")),
    weather(
        "wind_speed", "compliance", share("wind_speed is null or wind_speed between 0 and 200")
    ),
    weather(
        "wind_gust",
        "compliance",
        share("wind_gust is null or wind_speed is null or wind_gust >= wind_speed"),
    ),
    weather("precip", "compliance", share("precip is null or precip >= 0")),
    weather("precip", "sum", "sum(precip)", MOMENT),
    weather("pressure", "completeness", "count(pressure) / count(*)"),
    weather("pressure", "min", "min(pressure)"),
    weather("pressure", "max", "max(pressure)"),
    weather("visib", "compliance", share("visib is null or visib between 0 and 10")),
    weather("visib", "mean", "avg(visib)", MOMENT),
    weather(None, "row_count", "count(*)"),
    routes("dest_name", "completeness", "count(dest_name) / count(*)"),
    routes("dest_name", "min_length", "min(length(dest_name))"),
    routes("miles", "compliance", share("miles between 50 and 5000")),
    routes(
        "great_circle_miles",
        "compliance",
        share("great_circle_miles is null or great_circle_miles > 0"),
    ),
    routes("dest", "approx_count_distinct", "count(distinct dest)", DISTINCT),
    routes(None, "row_count", "count(*)"),
    routes(
        None,
        "compliance",
        "count(*) filter (where dest_name is not null and abs(miles - great_circle_miles) < 10)"
        " / count(dest_name)",
    ),
)

# Columns that `@avh` and `@pattern` watch; `@novelty` watches all of the weather's.
AVH = ("dep_time", "arr_delay")
WATCHED = {("flights", c) for c in (*AVH, "tailnum")}

# The checks that the data violates, and the days on which it does, again by DuckDB.
FINDINGS = {
    "flights.tailnum.completeness_ge_0_95": "count(tailnum) / count(*) < 0.95",
    "flights.tailnum.matches": "bool_or(not regexp_full_match(tailnum, 'N[0-9A-Z]{2,5}'))",
    "flights.dep_time.cancellation_rate": "avg((dep_time is null)::int) > 0.15",
    "flights.dep_delay.mean": "not avg(dep_delay) between -5 and 60",
    "flights.dep_delay.on_time": "count(*) filter (where dep_delay <= 15) < 0.5 * count(dep_delay)",
    # Of a sketch, but one day's median is twice the bound, and all others are four fifths at most.
    "flights.arr_delay.median": "median(arr_delay) >= 30",
    "weather.wind_speed.in_range": "max(wind_speed) > 200",
    "weather.pressure.completeness": "count(pressure) < 0.5 * count(*)",
}


@dataclass(frozen=True)
class ExampleRun:
    """The first run of the example, and DuckDB with its tables and the data as views."""

    root: Path
    result: RunResult
    db: duckdb.DuckDBPyConnection
    beside: frozenset[str]
    """What the run left in the working directory."""


@pytest.fixture(scope="module")
def example(example_project: Path, spark: SparkSession) -> Iterator[ExampleRun]:
    before = {path.name for path in Path().iterdir()}
    with configured(spark, COMPILED_PLANS):
        result = dqsql.run(example_project, spark=spark)
    beside = frozenset(path.name for path in Path().iterdir()) - before
    with duckdb.connect() as db:
        for name, query in RELATIONS.items():
            db.execute(f"create view {name} as {query.format(data=example_project / 'data')}")
        for table in ("dq_metrics", "dq_results", "dq_batches"):
            folder = example_project / "warehouse" / "dq" / table
            db.register(table, DeltaTable(folder).to_pyarrow_dataset())
        yield ExampleRun(example_project, result, db, beside)


def stored(example: ExampleRun, expected: Expected) -> dict[str, float | None]:
    """The metric's value by batch, as dqsql stored it."""
    rows = example.db.execute(
        """
        select batch, value, parameters from dq_metrics
        where model = ? and column_name is not distinct from ? and metric = ?
            and segment is null and scope = 'delta' and contains(coalesce(parameters, ''), ?)
        """,
        [expected.model, expected.column, expected.metric, parameter_hint(expected)],
    ).fetchall()
    assert len({parameters for _, _, parameters in rows}) <= 1, f"{expected} is several metrics"
    assert len(rows) == len({batch for batch, _, _ in rows}), f"{expected} is stored twice"
    return {batch: value for batch, value, _ in rows}


def parameter_hint(expected: Expected) -> str:
    return "" if expected.metric == "median" else expected.hint


def computed(example: ExampleRun, model: str, sql: str) -> dict[str, float | None]:
    """A DuckDB aggregate by day."""
    batch = BATCH_BY[model]
    rows = example.db.execute(
        f"select cast({batch} as varchar), cast({sql} as double) from {model} group by {batch}"
    ).fetchall()
    return dict(rows)


def assert_exact(example: ExampleRun, expected: Expected) -> None:
    """Equal in the 13 digits that are stored."""
    wanted = computed(example, expected.model, expected.sql)
    assert stored(example, expected) == pytest.approx(wanted, rel=1e-12)


def assert_moment(example: ExampleRun, expected: Expected) -> None:
    wanted = computed(example, expected.model, expected.sql)
    assert stored(example, expected) == pytest.approx(wanted, rel=1e-9)


def assert_distinct(example: ExampleRun, expected: Expected) -> None:
    wanted = computed(example, expected.model, expected.sql)
    assert stored(example, expected) == pytest.approx(wanted, rel=DISTINCT_ERROR)


def assert_quantile(example: ExampleRun, expected: Expected) -> None:
    rank = float(expected.hint)
    values = stored(example, expected)
    assert len(values) == DAYS
    batch = BATCH_BY[expected.model]
    for day, value in values.items():
        below, up_to = example.db.execute(
            f"""
            select avg(({expected.sql} < {value})::int), avg(({expected.sql} <= {value})::int)
            from {expected.model} where {batch} = '{day}'
            """
        ).fetchall()[0]
        assert below <= rank + RANK_ERROR, day
        assert up_to >= rank - RANK_ERROR, day


ASSERTIONS: dict[str, Callable[[ExampleRun, Expected], None]] = {
    EXACT: assert_exact,
    MOMENT: assert_moment,
    DISTINCT: assert_distinct,
    QUANTILE: assert_quantile,
}


@pytest.mark.parametrize("expected", EXPECTED, ids=str)
def test_metric_equals_duckdb(example: ExampleRun, expected: Expected) -> None:
    ASSERTIONS[expected.kind](example, expected)


def test_every_stored_metric_is_expected(example: ExampleRun) -> None:
    """What monitors watch besides is about their columns alone."""
    rows = example.db.execute(
        "select distinct model, column_name, metric, parameters from dq_metrics"
    ).fetchall()
    checked = [r for r in rows if (r[0], r[1]) not in WATCHED and r[0] != "weather"]
    wanted = [e for e in EXPECTED if (e.model, e.column) not in WATCHED and e.model != "weather"]
    assert len(checked) == len(wanted)


def test_sample_size_is_the_number_of_rows(example: ExampleRun) -> None:
    for model, batch in BATCH_BY.items():
        sizes = example.db.execute(
            "select distinct batch, sample_size from dq_metrics where model = ?", [model]
        ).fetchall()
        rows = example.db.execute(
            f"select cast({batch} as varchar), count(*) from {model} group by {batch}"
        ).fetchall()
        assert sorted(sizes) == sorted(rows)


def test_first_run_checks_every_day_of_every_model(example: ExampleRun) -> None:
    assert {m.model: len(m.batches) for m in example.result.models} == dict.fromkeys(BATCH_BY, DAYS)
    assert all(m.error is None for m in example.result.models)
    assert example.result.exit_code == 0


def test_findings_are_those_of_the_data(example: ExampleRun) -> None:
    wanted = {
        (check, day)
        for check, violated in FINDINGS.items()
        for day, is_violated in computed(example, check.split(".")[0], violated).items()
        if is_violated
    }
    findings = [r for r in example.result.findings if r.detector == "constraint"]
    names = {r.check_id: name_of(r.check_id) for r in findings}
    found = {(names[r.check_id], r.batch) for r in findings}
    assert found == wanted
    assert ("flights.dep_time.cancellation_rate", "2013-02-08") in found
    assert ("flights.dep_time.cancellation_rate", "2013-02-09") in found
    assert {r.status for r in example.result.findings} == {Status.WARN}


def test_monitors_find_the_blizzard(example: ExampleRun) -> None:
    learned = [r for r in example.result.findings if r.detector == "avh"]
    days = {column: {r.batch for r in learned if r.column == column} for column in AVH}
    assert all(found & {"2013-02-08", "2013-02-09"} for found in days.values())
    blizzard = next(r for r in learned if (r.column, r.batch) == ("arr_delay", "2013-02-08"))
    assert "arr_delay is unlike its history" in blizzard.message
    assert "51.1% of values are null, expected at most" in blizzard.message
    assert "learned from" in blizzard.message


def test_monitors_find_the_broken_wind_gauge(example: ExampleRun) -> None:
    novel = {r.batch: r for r in example.result.findings if r.detector == "novelty"}
    assert "wind_speed" in novel["2013-02-12"].message


def test_quiet_days_are_quiet(example: ExampleRun) -> None:
    decided = [
        r
        for r in example.result.results
        if r.detector in ("avh", "pattern", "anomaly", "novelty") and r.status is not Status.SKIPPED
    ]
    assert len(decided) > 500
    assert sum(r.is_finding for r in decided) <= 0.05 * len(decided)


def name_of(check_id: str) -> str:
    """The key of FINDINGS that a check's id starts with."""
    return next((name for name in FINDINGS if check_id.startswith(name)), check_id)


def test_results_are_stored_as_returned(example: ExampleRun) -> None:
    rows = example.db.execute("select check_id, batch, status from dq_results").fetchall()
    returned = [(r.check_id, r.batch, r.status.value) for r in example.result.results]
    assert sorted(rows) == sorted(returned)


def test_second_run_finds_nothing_new(example: ExampleRun, spark: SparkSession) -> None:
    before = example.db.execute("select * from dq_batches order by all").fetchall()
    again = dqsql.run(example.root, spark=spark)
    assert [len(m.batches) for m in again.models] == [0] * len(BATCH_BY)
    assert again.results == ()
    assert again.exit_code == 0
    assert example.db.execute("select * from dq_batches order by all").fetchall() == before


def test_run_leaves_nothing_behind_in_the_working_directory(example: ExampleRun) -> None:
    assert not example.beside & {"metastore_db", "derby.log", "spark-warehouse"}
    allowed = {"target", "warehouse"}
    source = Path(__file__).parents[2] / "example_project"
    new = {p.name for p in example.root.iterdir()} - {p.name for p in source.iterdir()}
    assert new <= allowed
