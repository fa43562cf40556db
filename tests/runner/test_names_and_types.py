"""Odd names, types and values, end to end."""

from __future__ import annotations

import json
import math

import pyspark
import pytest

from dqsql.model.results import Status

from .conftest import NewProject, by_check

ODD_NAMES = (
    "two words",
    "net.price",
    "it's",
    'so "called"',
    "back`tick",
    "größe",
    "名前",
    "select",
    "order",
    "rows",
    "batch",
    "segment",
    "chunk",
    "100%",
    "a,b",
    "-- x",
    "semi;colon",
    "😀",
    "a/b\\c",
)


def backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_odd_column_names(new_project: NewProject) -> None:
    aliases = ", ".join(f"cast(id as double) as {backticked(n)}" for n in ODD_NAMES)
    projections = ",\n".join(
        f"    {backticked(n)} /* @not_null @mean = 2 @max < 4 @median = 2"
        f" @expect(sum({backticked(n)}) = 6) */"
        for n in ODD_NAMES
    )
    model = (
        "{{ config(batch_by = '`the day`') }}\n"
        f"select\n    `the day`,\n{projections}\nfrom {{{{ source('raw', 't') }}}}\n"
    )
    project = new_project(
        model, f"select date '2024-01-01' as `the day`, {aliases} from range(1, 4)"
    )
    result = project.run()
    assert {r.message for r in result.results if r.status is not Status.PASS} == set()
    assert len(result.results) == 5 * len(ODD_NAMES)
    assert {r.column for r in result.results} == set(ODD_NAMES)
    assert project.run().results == ()


def test_odd_names_of_keys_and_segments(new_project: NewProject) -> None:
    model = """
        {{ config(batch_by = '`group by`', segment_by = ['the `kind`', 'größe']) }}
        select `group by`, `the ``kind```, `größe`, x -- @sum > 0
        from {{ source('raw', 't') }}
    """
    # One projection a line.
    model = model.replace(", ", ",\n", 1).replace("```, ", "```,\n").replace("e`, x", "e`,\nx")
    project = new_project(
        model,
        "select * from values ('x y', 'a', 1, 1), ('x y', 'b', 1, 2), ('z', 'a', 2, 4)"
        " as t(`group by`, `the ``kind```, `größe`, x)",
    )
    project.run()
    assert project.metrics() == {
        ("x y", None, "x", "sum()"): 3,
        ("x y", "the `kind`=a, größe=1", "x", "sum()"): 1,
        ("x y", "the `kind`=b, größe=1", "x", "sum()"): 2,
        ("z", None, "x", "sum()"): 4,
        ("z", "the `kind`=a, größe=2", "x", "sum()"): 4,
    }


def test_segments_named_like_columns_of_the_statements(new_project: NewProject) -> None:
    segments = ("n", "value", "dqsql_table", "input__0", "x__hll12", "x__count", "run_id", "model")
    names = ", ".join(segments)
    model = f"""
        {{{{ config(segment_by = {list(segments)}) }}}}
        select
            {names},
            x -- @sum = 6 @approx_count_distinct = 3 @count_distinct = 3 @stddev = 1 @median = 2
        from {{{{ source('raw', 't') }}}}
        -- @entropy(x) > 1
    """
    rows = ", ".join(f"({', '.join('0' * len(segments))}, {x})" for x in (1, 2, 3))
    project = new_project(model, f"select * from values {rows} as t({names}, x)")
    result = project.run()
    assert {r.message for r in result.results if r.status is not Status.PASS} == set()
    # The whole batch and its only segment.
    assert len(result.results) == 2 * 6


def test_no_two_segments_have_one_label(new_project: NewProject) -> None:
    rows = "('1, s2=2', '3'), ('1', '2, s2=3'), ('1, s2 is null', null), ('1', null), ('a, b', 'c')"
    project = new_project(
        "{{ config(segment_by = ['s1', 's2']) }}\n"
        "select s1, s2 from {{ source('raw', 't') }}\n-- @row_count = 1 @count_distinct(s1) = 1",
        f"select * from values {rows} as t(s1, s2)",
    )
    found = {r.segment: r.status for r in project.run().results if r.segment is not None}
    assert found == dict.fromkeys(
        (
            r"s1=1\, s2=2, s2=3",
            r"s1=1, s2=2\, s2=3",
            r"s1=1\, s2 is null, s2 is null",
            "s1=1, s2 is null",
            "s1=a, b, s2=c",
        ),
        Status.PASS,
    )


TYPES = """
select
    struct('Main St' as street, struct(12345 as `zip code`) as area) as address,
    array(1, 2, id) as items,
    map('k', id) as attributes,
    cast(id as decimal(38, 10)) / 3 as price,
    cast('12345678901234567890.12' as decimal(38, 2)) as big,
    timestamp '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) as at,
    timestamp_ntz '2024-01-01 00:00:00' as local,
    date '2024-01-01' as day,
    cast(null as string) as nothing,
    cast(null as void) as voidness,
    cast(null as double) as no_number,
    id % 2 = 0 as flag,
    cast(id as tinyint) as tiny,
    cast(if(id = 1, -128, 127) as tinyint) as widest,
    cast(id as float) as single,
    case id when 1 then double('NaN') when 2 then double('infinity') when 3 then 1.0 end as wild,
    cast('é€' as binary) as bytes,
    concat('é', id) as text
from range(1, 5)
"""


def test_types(new_project: NewProject) -> None:
    checks = {
        "expect(count(address.street) = 4)": Status.PASS,
        "expect(max(address.area.`zip code`) = 12345)": Status.PASS,
        "satisfies(address.area.`zip code` > 0)": Status.PASS,
        "expect(max(size(items)) = 3)": Status.PASS,
        "satisfies(items[0] = 1)": Status.PASS,
        "satisfies(exists(items, i -> i = 2))": Status.PASS,
        "expect(max(attributes['k']) = 4)": Status.PASS,
        "completeness(items) = 1": Status.PASS,
        "approx_count_distinct(items) = 4": Status.PASS,
        "expect(abs(sum(price) - 10.0 / 3) < 0.000001)": Status.PASS,
        "expect(sum(big) = 49382715604938271560.48)": Status.PASS,
        "max(big) = 12345678901234567890.12": Status.PASS,
        "max(big) = 12345678901234567890.13": Status.FAIL,
        "mean(price) between 0.83 and 0.84": Status.PASS,
        "quantile(price, 0.5) between 0.6 and 1.1": Status.PASS,
        "min(at) = timestamp '2024-01-01 00:00:01'": Status.PASS,
        "max(local) = timestamp_ntz '2024-01-01 00:00:00'": Status.PASS,
        "max(day) <= date '2024-01-01'": Status.PASS,
        "completeness(nothing) = 0": Status.PASS,
        "not_null(nothing)": Status.FAIL,
        "max(nothing) = 'x'": Status.NO_DATA,
        "max_length(nothing) < 3": Status.NO_DATA,
        "accepted_values(nothing, 'a')": Status.PASS,
        "completeness(voidness) = 0": Status.PASS,
        "mean(no_number) > 0": Status.NO_DATA,
        "stddev(no_number) > 0": Status.NO_DATA,
        "median(no_number) > 0": Status.NO_DATA,
        "sum(no_number) is null": Status.PASS,
        "approx_count_distinct(no_number) = 0": Status.PASS,
        "expect(bool_or(flag) and not bool_and(flag))": Status.PASS,
        "sum(tiny) = 10": Status.PASS,
        "range(tiny) = 3": Status.PASS,
        # Not -1, as Spark subtracts without ANSI.
        "range(widest) > 0": Status.NO_DATA,
        "expect(range(day) = interval 0 days)": Status.PASS,
        "mean(single) = 2.5": Status.PASS,
        # NaN meets no bound, though Spark takes it for larger than any number.
        "max(wild) > 5": Status.FAIL,
        "min(wild) = 1": Status.PASS,
        "mean(wild) < 5": Status.FAIL,
        "in_range(wild, 0, 10)": Status.FAIL,
        "completeness(wild) = 0.75": Status.PASS,
        "stddev(wild) < 5": Status.FAIL,
        "expect(max(octet_length(bytes)) = 5)": Status.PASS,
        "approx_count_distinct(bytes) = 1": Status.PASS,
        "max(bytes) is not null": Status.PASS,
        "max_length(text) = 2": Status.PASS,
        "min(text) = 'é1'": Status.PASS,
        "matches(text, '^é\\\\d$')": Status.PASS,
        "satisfies(text like 'é_')": Status.PASS,
        "expect(percentile(tiny, 0.5) = 2.5)": Status.PASS,
        "expect(mode(bytes) is not null)": Status.PASS,
        "expect(listagg(text, ',') within group (order by text) = 'é1,é2,é3,é4')": Status.PASS,
    }
    annotations = "\n".join(f"-- @{check}" for check in checks)
    project = new_project(
        f"select * from ({TYPES.strip()})\n{annotations}\n", files={"checks/sources.yml": None}
    )
    results = by_check(project.run())
    assert {name: r.status for name, r in results.items()} == checks
    assert project.rows("dq_results")


@pytest.mark.skipif(
    pyspark.__version__.startswith("4.1."), reason="Spark 4.1 has no values of geometry"
)
def test_values_that_python_has_no_type_for(new_project: NewProject) -> None:
    """They are shown and stored as Spark writes them; bytes that are no UTF-8 are marked."""
    project = new_project(
        """
        {{ config(store_failures = true) }}
        select
            months,     -- @max = interval '1-3' year to month
            hours,      -- @min is not null
            bytes,      -- @max is not null
            late,       -- @max > timestamp '2024-01-01 00:00:00'
            later,      -- @max > date '2024-01-01'
            early,      -- @min < timestamp_ntz '2024-01-01 00:00:00' @max is not null
            -- @pattern @min is not null @histogram is not null
            -- @entropy > 0 @accepted_values('x') {severity: warn}
            latin,
            attributes, -- @unique {severity: warn}
            semi,       -- @unique {severity: warn}
            st_geomfromwkb(x'0101000000000000000000F03F0000000000000040')
                as place -- @pattern @not_null @avh
        from {{ source('raw', 't') }}
        -- @expect(max(array(months)) is not null)
        """,
        "select make_ym_interval(1, cast(id as int)) as months,"
        " make_dt_interval(0, 0, 0, id + 1.5) as hours, cast(concat('b', id) as binary) as bytes,"
        " cast(unhex(concat('62ff', hex(48 + id))) as string) as latin,"
        # Midnight of New York's last day, a year with five digits, and one before the first.
        " timestamp '9999-12-31 23:59:59.5 America/New_York'"
        " - make_dt_interval(cast(id as int)) as late,"
        " date '+12024-02-29' as later,"
        " timestamp_ntz '-0044-03-15 12:00:00' + make_ym_interval(cast(id as int) * 1000) as early,"
        " map('k', id % 3) as attributes, parse_json(concat('[', id % 3, ']')) as semi"
        " from range(4)",
    )
    result = project.run()
    assert {r.message for r in result.results if r.status is Status.ERROR} == set()
    assert result.models[0].notes == ()
    found = {(k[2], k[3]): v for k, v in project.metrics().items()}
    assert found["months", "max()"] == "INTERVAL '1-3' YEAR TO MONTH"
    assert found["hours", "min()"] == "INTERVAL '0 00:00:01.5' DAY TO SECOND"
    assert found["bytes", "max()"] == "b3"
    assert found["late", "max()"] == "+10000-01-01 04:59:59.500000+00:00"
    assert found["later", "max()"] == "+12024-02-29"
    assert found["early", "min()"] == "-0044-03-15 12:00:00"
    assert found["early", "max()"] == "2956-03-15 12:00:00"
    assert found["latin", "min()"] == "b\ufffd0"
    assert found["latin", "entropy()"] == pytest.approx(math.log(4))
    samples = [(r["check_id"].split(".")[1], r["row"]) for r in project.rows("dq_failures")]
    for column in ("attributes", "semi"):
        assert sorted('"months":"INTERVAL \'1-0' in r for c, r in samples if c == column) == [
            False,
            True,
        ]
    assert all('"place":"0101000000000000000000F03F' in r for _, r in samples)


def test_names_of_batches_that_are_no_utf8(new_project: NewProject) -> None:
    """One error with what to do; other models are checked."""
    project = new_project(
        "{{ config(batch_by = 'b') }}\nselect b -- @not_null\nfrom {{ source('raw', 't') }}",
        "select cast(x'62ff' as string) as b",
        files={"checks/other.sql": "select 1 as n -- @not_null"},
    )
    found = {m.path: m for m in project.attempt().models}
    assert found.pop("checks/other.sql").status is Status.PASS
    ((_, wrong),) = found.items()
    assert wrong.error is not None and "is not valid UTF-8" in wrong.error.message
    assert "make_valid_utf8" in (wrong.error.hint or "")


def test_nan_and_infinity_are_stored_as_such(new_project: NewProject) -> None:
    project = new_project(
        "{{ config(batch_by = 'b') }}\nselect b, x -- @mean < 5 @min > 0 @max < 9 @sum < 9\n"
        "from {{ source('raw', 't') }}".replace("b, x", "b,\nx"),
        "select * from values ('nan', 1D), ('nan', double('NaN')), ('inf', double('-infinity')),"
        " ('inf', 2D) as t(b, x)",
    )
    result = project.run()
    metrics = project.metrics()
    assert math.isnan(metrics["nan", None, "x", "mean()"])
    assert math.isnan(metrics["nan", None, "x", "max()"])
    assert metrics["nan", None, "x", "min()"] == 1
    assert metrics["inf", None, "x", "mean()"] == -math.inf
    assert metrics["inf", None, "x", "min()"] == -math.inf
    statuses = {(r.batch, r.check_name): r.status for r in result.results}
    assert statuses["nan", "mean < 5"] is Status.FAIL
    assert statuses["inf", "mean < 5"] is Status.PASS
    assert statuses["inf", "min > 0"] is Status.FAIL


# An expression for batches, values of `at`, and the batches in their order.
BATCH_KEYS = (
    (
        "at",
        "timestamp '2024-01-01 05:00:00', timestamp '2024-01-01 05:00:00.123456'",
        ("2024-01-01 05:00:00", "2024-01-01 05:00:00.123456"),
    ),
    (
        "at",
        "timestamp_ntz '2024-03-31 02:30:00', timestamp_ntz '2024-10-27 02:30:00'",
        ("2024-03-31 02:30:00", "2024-10-27 02:30:00"),
    ),
    (
        "date_trunc('hour', at)",
        "timestamp '2024-01-01 23:59:00Z', timestamp '2024-01-02 01:30:00+02:00'",
        ("2024-01-01 23:00:00",),
    ),
    ("cast(at as date)", "timestamp '2024-01-01 23:59:00Z'", ("2024-01-01",)),
    ("at", "2, 10, 1, 100, -3", ("-3", "1", "2", "10", "100")),
    ("at", "cast(1.50 as decimal(5, 2)), cast(2 as decimal(5, 2))", ("1.50", "2.00")),
    (
        "at",
        "'b', 'a', 'it''s', '', 'a/b=c%', 'ü', '\\\\'",
        ("", "\\", "a", "a/b=c%", "b", "it's", "ü"),
    ),
    ("at", "true, false", ("false", "true")),
    ("at", "1.5D, 1e20D, double('NaN')", ("1.5", "1.0E20", "NaN")),
    ("upper(at)", "'a', 'A', 'b'", ("A", "B")),
    ("at collate UTF8_LCASE", "'a', 'A', 'b'", ("A", "a", "b")),
)


def test_batch_keys(new_project: NewProject) -> None:
    """A model for each, so that one run checks them all."""
    project, wanted = new_project(), {}
    tables = []
    for number, (expression, values, batches) in enumerate(BATCH_KEYS):
        name = f"k{number}"
        project.data(f"select explode(array({values})) as at", name)
        tables.append(f"      - {{name: {name}, path: data/{name}, format: parquet}}\n")
        model = (
            f'{{{{ config(batch_by = "{expression}") }}}}\nselect at -- @not_null @row_count > 0\n'
            f"from {{{{ source('raw', '{name}') }}}}"
        )
        project.write({f"checks/{name}.sql": model})
        wanted[name] = batches
    listed = f"sources:\n  - name: raw\n    tables:\n{''.join(tables)}"
    project.write({"checks/sources.yml": listed})
    assert {m.model: m.batches for m in project.run().models} == wanted
    stored = {(r["model"], r["batch"]) for r in project.rows("dq_batches")}
    assert stored == {(name, batch) for name, batches in wanted.items() for batch in batches}
    assert {m.skipped for m in project.run().models} == {"nothing new"}
    # The scan of named batches finds the same rows again.
    before = project.tables()
    for name, batches in wanted.items():
        (again,) = project.run(batches=batches, select=[name]).models
        assert set(again.batches) == set(batches)
    assert project.tables() == before


def test_monitors_of_rows_and_relations_take_any_name(new_project: NewProject) -> None:
    model = """
{{ config(batch_by = 'day', store_failures = true) }}
select * from {{ source('raw', 't') }}
-- @row_anomalies {severity: warn}
-- @row_anomalies(`q.x`, `back``tick`, 'it''s "ü"') {severity: warn, name: some}
-- @drift(`back``tick`, ks, against => raw.u) < 0.1 {name: drift}
-- @drift(`t e.xt`, psi, against => raw.u) < 0.1 {name: drift text}
-- @matches_relation(raw.u, keys => `i.d`) {name: all}
-- @matches_relation(raw.u, keys => (`i.d`, `t e.xt`), columns => (`q.x`, `back``tick`, `s.t`))
"""
    rows = """
select date_add(date'2024-01-01', cast(d.id as int)) as day, d.id * 1000 + r.id as `i.d`,
  if(d.id = 7 and r.id < 40, 900.0D, pmod(xxhash64(d.id, r.id), 100) / 7.0D) as `q.x`,
  if(d.id = 7 and r.id < 40, -900.0D, pmod(xxhash64(r.id, d.id), 50) / 3.0D) as `back``tick`,
  pmod(r.id, 5) + 0.5D as `it's "ü"`, concat('k', pmod(r.id, 4)) as `t e.xt`,
  named_struct('a.b', r.id, 'c``d', array(d.id)) as `s.t`
from range(8) as d, range(200) as r
"""
    project = new_project(model, rows)
    project.data(rows.replace("d.id = 7", "d.id < 0"), "u")
    (found,) = project.run().models
    told = {r.check_name: r for r in found.results if r.batch == "2024-01-08"}
    assert [r.message for r in told.values() if r.status is Status.ERROR] == []
    assert {n: r.status.value for n, r in told.items() if r.status.value != "warn"} == {
        "drift": "fail",
        "drift text": "pass",
        "all": "fail",
        "matches_relation(raw.u, keys => (`i.d`, `t e.xt`), columns => (`q.x`, `back``tick`,"
        " `s.t`))": "fail",
    }
    assert "40 of 200 rows" in told["row_anomalies"].message
    assert "back`tick" in told["row_anomalies"].message
    kept = [r for r in project.rows("dq_failures") if "row_anomalies" in r["check_id"]]
    assert {json.loads(r["row"])["q.x"] for r in kept} == {900.0}


def test_a_number_asked_of_texts_says_that_they_are_texts(new_project: NewProject) -> None:
    model = """\
select
    x, -- @mean > 1 @sum > 1 @stddev < 3 @median > 1 @min > 1 @not_null
    empty -- @min > 1
from {{ source('raw', 't') }}
"""
    project = new_project(model, "select 'abc' as x, cast(null as string) as empty from range(3)")
    found = {(r.column, r.check_name): (r.status.value, r.message) for r in project.run().results}
    numbers = "make numbers of x in the SELECT, or check its texts (@min_length, @matches)"
    texts = f"no value of x, a column of texts, is a number; {numbers}"
    assert found == {
        ("x", "mean > 1"): ("no_data", f"mean(x) is null: {texts}"),
        ("x", "sum > 1"): ("error", f"checks/m.sql:2:21: sum > 1: there is no sum: {texts}"),
        ("x", "stddev < 3"): ("no_data", f"stddev(x) is null: {texts}"),
        ("x", "median > 1"): ("no_data", f"median(x) is null: {texts}"),
        ("x", "min > 1"): (
            "no_data",
            f"min(x) is abc, a text, which min > 1 compares with a number: {numbers}",
        ),
        ("x", "not_null"): ("pass", "completeness(x) is 1"),
        ("empty", "min > 1"): ("no_data", "min(empty) is null: no values to measure"),
    }
    project.data("select '7' as x, '8' as empty from range(3)")
    assert {r.status.value for r in project.run().results} == {"pass"}
