"""A check that Spark cannot evaluate is one error; the other checks of its model still run."""

from __future__ import annotations

import pytest

from dqsql.model.results import Status

from .conftest import NewProject, by_check

PROFILE = """\
test:
  target: local
  outputs:
    local: {{type: spark, method: session, schema: dq, ansi: {ansi}}}
"""
DATA = """
select * from values ('a', 1, '1'), ('a', 2147483647, 'x'), ('b', 5, '7') as t(b, n, s)
"""


def model(*checks: str) -> str:
    lines = "\n".join(f"-- @{check}" for check in checks)
    return (
        "{{ config(batch_by = 'b') }}\n"
        f"select\n    b,\n    n,\n    s\nfrom {{{{ source('raw', 't') }}}}\n{lines}\n"
    )


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("expect(sum(array(n)) > 1)", "DATATYPE_MISMATCH"),
        ("expect(sum(sum(n)) > 1)", "NESTED_AGGREGATE_FUNCTION"),
        ("expect(max(n).field > 1)", "INVALID_EXTRACT"),
        ("expect(max(length(n, s)) > 1)", "WRONG_NUM_ARGS"),
        ("expect(max(n) > array(1))", "DATATYPE_MISMATCH"),
        ("expect(max(n) + 1)", "not a condition"),
    ],
)
def test_a_check_that_spark_refuses(new_project: NewProject, check: str, says: str) -> None:
    checks = ("min(n) > 0", check, "row_count > 0")
    project = new_project(model(*checks), DATA)
    result = project.run()
    assert result.exit_code == 2
    statuses = {(r.batch, r.check_name): r.status for r in result.results}
    assert statuses == {
        (batch, name): Status.ERROR if name == check else Status.PASS
        for batch in ("a", "b")
        for name in checks
    }
    told = by_check(result)[check]
    assert told.message.startswith("checks/m.sql:8:4: ")
    assert says in told.message + str(told.details)
    assert {r["status"] for r in project.rows("dq_results")} == {"pass", "error"}
    # Its batches count as not done; mended, the check is made up for.
    assert {r["status"] for r in project.rows("dq_batches")} == {"incomplete"}
    project.write({"checks/m.sql": model("min(n) > 0", "max(n) > 0", "row_count > 0")})
    mended = project.run()
    assert mended.exit_code == 0
    assert {r["status"] for r in project.rows("dq_batches")} == {"accepted"}


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("expect(max(cast(s as int)) > 1)", "CAST_INVALID_INPUT"),
        ("expect(max(n + 1) > 1)", "ARITHMETIC_OVERFLOW"),
        ("expect(sum(n / 0) > 1)", "DIVIDE_BY_ZERO"),
        ("expect(max(n) / (min(n) - min(n)) > 1)", "DIVIDE_BY_ZERO"),
        ("expect(max(s) > 5 and min(n) > 0)", "CAST_INVALID_INPUT"),
    ],
)
def test_a_check_that_fails_while_running(new_project: NewProject, check: str, says: str) -> None:
    checks = ("min(n) > 0", check, "mean(n) > 0", "median(n) > 0")
    project = new_project(model(*checks), DATA, files={"profiles.yml": PROFILE.format(ansi="true")})
    result = project.run()
    assert result.exit_code == 2
    failed = [r for r in result.results if r.check_name == check]
    assert {r.status for r in failed} == {Status.ERROR}
    assert says in failed[0].message + str(failed[0].details)
    others = [r for r in result.results if r.check_name != check]
    assert {r.status for r in others} == {Status.PASS}
    assert len(others) == 6


def test_without_ansi_the_same_checks_have_values(new_project: NewProject) -> None:
    checks = {
        "expect(max(cast(s as int)) = 1)": Status.PASS,
        "expect(min(n + 1) = -2147483648)": Status.PASS,
        "expect(sum(n / 0) > 1)": Status.NO_DATA,
    }
    project = new_project(
        model(*checks), DATA, files={"profiles.yml": PROFILE.format(ansi="false")}
    )
    result = project.run(batches=["a"])
    assert {name: r.status for name, r in by_check(result).items()} == checks
    assert [r["ansi"] for r in project.rows("dq_runs")] == [False]


def test_settings_of_the_session_are_put_back(new_project: NewProject) -> None:
    project = new_project(
        model("row_count > 0"), DATA, files={"profiles.yml": PROFILE.format(ansi="false")}
    )
    conf = project.spark.conf
    before = conf.get("spark.sql.ansi.enabled"), conf.get("spark.sql.session.timeZone")
    project.run()
    assert (conf.get("spark.sql.ansi.enabled"), conf.get("spark.sql.session.timeZone")) == before
