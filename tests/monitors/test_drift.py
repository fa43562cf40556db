"""`@drift` and `@drift_pvalue` through runs: references, segments, nulls, relations, misuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

import dqsql
from dqsql.model.results import Result
from tests.tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "drift.md"
SOURCES = """\
sources:
  - name: raw
    tables:
      - {name: t, path: data/t, format: parquet}
"""
# Day 3 has a new country and larger amounts; means, completeness and volume of countries are the
# same in all batches, so that bounds on such metrics see nothing.
ROWS = """
select date_add(date'2024-01-01', d) as day,
  case when d = 2 and n % 10 < 3 then 'XX' when n % 10 < 7 then 'DE' else 'FR' end as country,
  cast(n % 100 + if(d = 2, 40, 0) as double) as amount
from (select explode(sequence(0, 3)) as d) cross join (select explode(sequence(0, 999)) as n)
"""


def documented() -> str:
    """The check model of the documentation."""
    found = re.search(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


MakeProject = Callable[..., Path]


def write(root: Path, spark: SparkSession, rows: str) -> None:
    spark.sql(rows).coalesce(1).write.mode("overwrite").parquet(str(root / "data" / "t"))


def results(root: Path, spark: SparkSession, **options: Any) -> dict[tuple[Any, ...], Result]:
    found = dqsql.run(root, spark=spark, **options)
    for model in found.models:
        if model.error is not None:
            raise model.error
    return {(r.check_name.partition("(")[2], r.batch, r.segment): r for r in found.results}


def test_the_example_of_the_documentation(make_project: MakeProject, spark: SparkSession) -> None:
    files = {
        "checks/sources.yml": SOURCES,
        "checks/m.sql": documented(),
        "checks/usual_amounts.sql": "select cast(id % 100 as int) as amount from range(500)",
    }
    root = make_project(files)
    write(root, spark, ROWS)
    found = results(root, spark)
    days = [f"2024-01-0{n}" for n in (1, 2, 3, 4)]
    checks = ["psi) < 0.25", "country, chi2, against => '2024-01-01') > 0.001"]
    checks += ["ks, against => 'last 3') < 0.2", "wasserstein, against => usual_amounts) < 5"]
    assert {c[:6]: [found[c, d, None].status.value for d in days] for c in checks} == {
        # The batch after one that failed is compared with the one before it.
        "psi) <": ["skipped", "pass", "fail", "pass"],
        "countr": ["pass", "pass", "fail", "pass"],
        "ks, ag": ["skipped", "pass", "fail", "pass"],
        "wasser": ["pass", "pass", "fail", "pass"],
    }
    odd = found[checks[0], days[2], None]
    assert odd.message == (
        f"psi of country from 2024-01-02 is {odd.observed:,.6g}, which fails: expected < 0.25"
        " ('DE' 70% -> 40%; 'XX' 0% -> 30%)"
    )
    old, new = np.array([700, 300, 0]) + 0.5, np.array([400, 300, 300]) + 0.5
    assert odd.observed == pytest.approx(stats.entropy(new, old) + stats.entropy(old, new))
    assert (odd.lower, odd.upper, odd.warn_upper) == (None, 0.25, 0.1)
    exact = stats.chi2_contingency([[700, 300, 0], [400, 300, 300]], correction=False)
    details = found[checks[1], days[2], None].details
    assert details["value"] == pytest.approx(exact.statistic)
    moved = found[checks[3], days[2], None]
    assert moved.observed == pytest.approx(40, abs=1)
    assert "from usual_amounts is" in moved.message
    stored = {
        (r["metric"], r["parameters"], r["batch"]): r["value"]
        for r in table_rows(root / "warehouse" / "dq", "dq_metrics")
    }
    assert stored["drift", "psi, against => 'previous'", days[2]] == pytest.approx(odd.observed)
    # One batch after the other comes to the same verdicts.
    daily = make_project(files, "daily")
    write(daily, spark, ROWS)
    again = [results(daily, spark, batches=[d], select=["m"]) for d in days]
    one_by_one = {k: (r.status, r.message) for one in again for k, r in one.items()}
    assert one_by_one == {k: (r.status, r.message) for k, r in found.items()}


def test_by_segment_and_without_values(make_project: MakeProject, spark: SparkSession) -> None:
    model = """\
    {{ config(batch_by = 'd', segment_by = ['s']) }}
    select d, s,
        v,  -- @drift(ks) < 0.5 {after: 2}
            -- @drift(v, psi, against => 'b') < 0.5 {no_data: ignore, severity: warn}
        w,  -- @drift(js, against => 'last 2') < 0.5 {segments: false, where: v > 0}
        p   -- @drift < 0.1 {pii: true, severity: warn}
    from {{ source('raw', 't') }}
    """
    other = "{{ config(batch_by = 'd') }}\nselect d, w -- @drift(w, ks) < 0.5\n"
    files = {"checks/m.sql": model, "checks/o.sql": other + "from {{ source('raw', 't') }}"}
    root = make_project({"checks/sources.yml": SOURCES, **files})
    write(
        root,
        spark,
        "select d, s, if(d = 'c', null, n + if(s = 'y' and d in ('b', 'e', 'f'), 100, 0)) as v,"
        " if(d = 'b' and v <= 0, null, 'w') as w, if(d = 'b', 'secret', 'known') as p from"
        " (select d, s, n, n as v from (select explode(array('a', 'b', 'c', 'd', 'e', 'f')) as d)"
        " cross join (select explode(array('x', 'y')) as s)"
        " cross join (select explode(sequence(1, 20)) as n))",
    )
    found = dqsql.run(root, spark=spark).results
    verdicts = {(r.check_name, r.batch, r.segment): r for r in found}

    def statuses(check: str, segment: str | None) -> list[str]:
        return [verdicts[check, b, segment].status.value for b in "abcdef"]

    drift = "drift(ks) < 0.5"
    # Whole: half of the values moved. By segment: x never does.
    assert statuses(drift, "s=x") == ["skipped", "pass", "no_data", "no_data", "pass", "pass"]
    # a -> b moves (the first in a row), c has no values, d is compared with c, e with d, and so is
    # f, since e failed.
    assert statuses(drift, "s=y") == ["skipped", "warn", "no_data", "no_data", "fail", "fail"]
    fixed = "drift(v, psi, against => 'b') < 0.5"
    assert statuses(fixed, "s=x") == ["skipped", "pass", "skipped", "pass", "pass", "pass"]
    assert statuses(fixed, "s=y") == ["skipped", "pass", "skipped", "warn", "pass", "pass"]
    # Only the whole batch, and the rows of the condition.
    assert ("drift(js, against => 'last 2') < 0.5", "b", "s=x") not in verdicts
    texts = verdicts["drift(w, ks) < 0.5", "b", None]
    assert texts.status.value == "error"
    assert "ks compares numbers, and w is string" in texts.message
    private = verdicts["drift < 0.1", "b", None]
    assert (private.status.value, private.details["shifts"]) == ("warn", [])
    assert "secret" not in json.dumps([str(r) for r in found])


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@drift(psi)", "@drift is a number, not a condition"),
        ("@drift(psl) < 0.2", "drift is about a column and one of psi, js, kl, ks"),
        ("@drift(psi, against => 7) < 0.2", "cannot compare with 7"),
        ("@drift(psi, against => 'previus') < 0.2", "'previus' is neither 'previous' nor a number"),
        ("@drift(psi, against => 'last week') < 0.2", "'last week' is neither 'previous' nor"),
        ("@drift(psi, against => 'last 7 days') < 0.2", "'last 7 days' is neither 'previous' nor"),
        ("@drift(psi, against => 'last7') < 0.2", "'last7' is neither 'previous' nor"),
        ("@drift(psi, against => 'last 0') < 0.2", "'last 0' is neither 'previous' nor"),
        ("@drift(psi, versus => 'previous') < 0.2", "@drift has no argument 'versus'"),
        ("@drift_pvalue(psi) > 0.01", "psi has no p-value"),
        ("@drift(psi) < mean(a)", "@drift is compared with numbers, not '< mean(a)'"),
        ("@drift(psi) < 0.1 {warn: 0.2}", "the warning would never appear"),
        ("@drift(psi) < 0.1 {warn: 0.2, severity: warn}", "both thresholds would warn"),
        ("@drift(psi) < 0.1 {scope: cumulative}", "drift is about one batch"),
        ("@drift(psi) < 0.1 {fpr: 0.1}", "@drift has no setting 'fpr'"),
        ("@drift(psi) < 0.1 {mostly: 0.5}", "@drift has no setting 'mostly'"),
        ("@drift(psi) < 0.1 {severity: warn, after: 2}", "`after` has no effect"),
        ("@expect(drift(psi) + 1 < 3)", "the monitor @drift must stand alone"),
    ],
)
def test_what_makes_no_sense(make_project: MakeProject, annotation: str, message: str) -> None:
    root = make_project({"checks/m.sql": f"select a -- {annotation}\nfrom t"})
    compiled = dqsql.compile_project(root)
    (error,) = compiled.errors
    assert message in str(error)
    assert error.span is not None
    assert error.span.line == 1


def test_a_number_of_thousands_of_digits_is_none(make_project: MakeProject) -> None:
    text = f"select a -- @drift(psi, against => 'last {'9' * 5000}') < 0.2\nfrom t"
    (error,) = dqsql.compile_project(make_project({"checks/m.sql": text})).errors
    assert "neither 'previous' nor a number of batches" in error.message


def test_infinite_values_drift_and_nan_is_no_data(
    make_project: MakeProject, spark: SparkSession
) -> None:
    model = """
{{ config(batch_by = 'day') }}
select day, x, y from {{ source('raw', 't') }}
-- @drift(x, ks, against => '2024-01-01') < 0.2 {name: ks}
-- @drift(x, psi, against => '2024-01-01') < 0.2 {name: psi}
-- @drift(x, wasserstein, against => '2024-01-01') < 0.2 {name: wasserstein}
-- @drift(y, ks, against => '2024-01-01') < 0.2 {name: nan}
"""
    # On the third day a third of the values is infinite, from the second on y is no number.
    rows = """
select date_add(date'2024-01-01', cast(d.id as int)) as day,
  case when r.id < if(d.id = 2, 100, 15) then double('infinity') else cast(r.id as double) end as x,
  if(d.id > 0, double('nan'), r.id) as y
from range(3) as d, range(300) as r
"""
    root = make_project({"checks/m.sql": model, "checks/sources.yml": SOURCES})
    write(root, spark, rows)
    found = dqsql.run(root, spark=spark)
    told = {
        (r.check_name, (r.batch or "")[-2:]): (r.status.value, r.message) for r in found.results
    }
    for measure in ("ks", "psi", "wasserstein"):
        assert told[measure, "02"][0] == "pass"
        assert told[measure, "03"][0] == "fail"
    assert "is inf, expected < 0.2" in told["wasserstein", "03"][1]
    assert told["nan", "03"] == ("no_data", "y has no values: nothing to compare")
