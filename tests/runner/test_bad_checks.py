"""A check that Spark cannot evaluate is one error; the other checks of its model still run."""

from __future__ import annotations

from collections.abc import Mapping

import dqsql
from dqsql.model.results import RunResult, Status

from .conftest import NewProject, Project, by_check
from .test_private_values import search

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


REFUSED = {
    "expect(sum(array(n)) > 1)": "DATATYPE_MISMATCH",
    "expect(max(n).field > 1)": "INVALID_EXTRACT",
    "expect(max(length(n, s)) > 1)": "WRONG_NUM_ARGS",
    "expect(max(n) > array(1))": "DATATYPE_MISMATCH",
    "expect(max(n) + 1)": "not a condition",
}
FAILING = {
    "expect(max(cast(s as int)) > 1)": "CAST_INVALID_INPUT",
    "expect(max(n + 1) > 1)": "ARITHMETIC_OVERFLOW",
    "expect(sum(n / 0) > 1)": "DIVIDE_BY_ZERO",
    "expect(max(n) / (min(n) - min(n)) > 1)": "DIVIDE_BY_ZERO",
    "expect(max(s) > 5 and min(n) > 0)": "CAST_INVALID_INPUT",
}
GOOD = ("min(n) > 0", "mean(n) > 0", "median(n) > 0", "row_count > 0")


def assert_only_these_are_errors(result: RunResult, bad: Mapping[str, str]) -> None:
    """Every check has a verdict on every batch; the bad ones say why and where."""
    assert result.exit_code == 2
    statuses = {(r.batch, r.check_name): r.status for r in result.results}
    assert statuses == {
        (batch, name): Status.ERROR if name in bad else Status.PASS
        for batch in ("a", "b")
        for name in (*GOOD, *bad)
    }
    for number, (check, says) in enumerate(bad.items()):
        told = by_check(result)[check]
        # The good ones stand on the lines from 7 on.
        assert told.message.startswith(f"checks/m.sql:{7 + len(GOOD) + number}:4: {check}")
        assert says in told.message + str(told.details)


def test_checks_that_spark_refuses(new_project: NewProject) -> None:
    project = new_project(model(*GOOD, *REFUSED), DATA)
    assert_only_these_are_errors(project.run(), REFUSED)
    assert {r["status"] for r in project.rows("dq_results")} == {"pass", "error"}
    # They hold up no batch; what came in their place is made up for.
    assert ledger(project) == {"a": ("accepted", len(REFUSED)), "b": ("accepted", len(REFUSED))}
    project.write({"checks/m.sql": model(*GOOD, "max(n) > 0")})
    assert project.run().exit_code == 0
    assert ledger(project) == {"a": ("accepted", 0), "b": ("accepted", 0)}


def ledger(project: Project) -> dict[str, tuple[str, int]]:
    """The status of each batch, and how many verdicts on it are errors."""
    return {r["batch"]: (r["status"], r["uncomputed"]) for r in project.rows("dq_batches")}


def days(*texts: str) -> str:
    """One row with a text for each batch: `01`, `02` .."""
    rows = ", ".join(f"('{day:02}', {day}, '{text}')" for day, text in enumerate(texts, start=1))
    return f"select * from values {rows} as t(b, n, s)"


CAST = "expect(max(cast(s as int)) > 0)"
ANSI = {"profiles.yml": PROFILE.format(ansi="true")}


def test_a_check_that_cannot_be_computed_holds_up_no_other(new_project: NewProject) -> None:
    """It is an error in every run; its batches are history for all others."""
    refused = "expect(max(length(n, s)) > 1)"
    project = new_project(
        model("row_count = 1", "anomaly(sum(n), min_history => 3)", refused), days(*"11111")
    )
    first = project.run()
    assert [r.status for r in first.results if r.detector == "anomaly"] == [
        *[Status.SKIPPED] * 3,
        *[Status.PASS] * 2,
    ]
    assert ledger(project) == {f"0{day}": ("accepted", 1) for day in range(1, 6)}
    # Two batches are asked whether the check works by now; all are told.
    second = project.run()
    assert (second.exit_code, second.models[0].batches) == (2, ("01", "05"))
    errors = {r.batch for r in second.results if r.status is Status.ERROR}
    assert errors == {f"0{day}" for day in range(1, 6)}
    assert {r.check_name for r in second.results if r.status is Status.ERROR} == {refused}
    # A new batch tells the same.
    project.data(days(*"111111"))
    third = project.run()
    assert (third.exit_code, third.models[0].batches) == (2, ("06",))
    assert len([r for r in third.results if r.status is Status.ERROR]) == 6


def test_a_check_is_made_up_for_once_it_can_be_computed(new_project: NewProject) -> None:
    """The type of a column is mended where the table is; the model is as it was."""
    check = "expect(sum(n) > 0)"
    project = new_project(
        model("row_count = 1", check), "select b, map(n, 1) as n, s from (" + days(*"11111") + ")"
    )
    assert project.run().exit_code == 2
    project.data(days(*"111111"))
    mended = project.run()
    assert mended.exit_code == 0
    # The oldest one showed that it works; then all were checked in their order, the new one last.
    assert mended.models[0].batches == ("01", "02", "03", "04", "05", "06")
    assert mended.models[0].notes[-1].startswith("5 batches were checked again, since a check")
    assert {(r["check_id"], r["status"]) for r in project.rows("dq_results")} == {
        ("m.n.expect_sum_n_gt_0", "pass"),
        ("m.row_count_eq_1", "pass"),
    }
    assert project.run().models[0].batches == ()


def test_a_batch_on_whose_values_a_check_fails_is_told_until_somebody_accepts_it(
    new_project: NewProject,
) -> None:
    project = new_project(model("row_count = 1", CAST), days(*"1x11"), files=ANSI)
    assert project.run().exit_code == 2
    assert {uncomputed for _, uncomputed in ledger(project).values()} == {1}
    for _ in range(2):
        assert project.run().exit_code == 2
    assert ledger(project) == {f"0{day}": ("accepted", int(day == 2)) for day in range(1, 5)}
    told = project.run()
    assert [(r.batch, r.status) for r in told.results if r.status is Status.ERROR] == [
        ("02", Status.ERROR)
    ]
    dqsql.review("m", ["02"], "accept", "a letter", project_dir=project.root)
    assert project.run().exit_code == 0


def test_checks_that_fail_while_running(new_project: NewProject) -> None:
    project = new_project(
        model(*GOOD, *FAILING), DATA, files={"profiles.yml": PROFILE.format(ansi="true")}
    )
    assert_only_these_are_errors(project.run(), FAILING)


def test_values_of_all_types_beside_a_metric_that_fails_while_running(
    new_project: NewProject,
) -> None:
    """What Python has no type for, and structs, are read in the search for the bad one, too."""
    good = (
        "expect(max(make_dt_interval(0, n % 24)) is not null)",
        "expect(max(make_ym_interval(n % 24)) is not null)",
        "expect(max(array(n)) is not null)",
        "histogram(n) is not null",
    )
    bad = "expect(max(n) / (min(n) - min(n)) > 1)"
    project = new_project(
        model(*good, bad), DATA, files={"profiles.yml": PROFILE.format(ansi="true")}
    )
    result = project.run()
    assert {(r.check_name, r.status) for r in result.results} == {
        (bad, Status.ERROR),
        *((name, Status.PASS) for name in good),
    }


def test_errors_quote_no_values_of_private_columns(new_project: NewProject) -> None:
    """Spark says which value it cannot cast; a SELECT that casts is refused in the same way."""
    secret = "canary-zebra"
    text = model(
        *GOOD, "expect(max(cast(s as int)) > 1)", "satisfies(assert_true(n = 0, s) is null)"
    )
    text = text.replace("batch_by = 'b'", "batch_by = 'b', pii = ['s']")
    select = text.replace("    n,\n", "    n,\n    cast(s as date) as d, -- @max is not null\n")
    project = new_project(
        text,
        DATA.replace("'x'", f"'{secret}'"),
        files={"profiles.yml": PROFILE.format(ansi="true"), "checks/derived.sql": select},
    )
    result = project.attempt()
    failed = [r for r in result.results if r.status is Status.ERROR]
    assert {r.check_name for r in failed} >= {
        "expect(max(cast(s as int)) > 1)",
        "satisfies(assert_true(n = 0, s) is null)",
        "max is not null",
    }
    casts = [r.message for r in failed if "cast(s as int)" in r.check_name]
    assert casts and all("Spark failed on it: CAST_INVALID_INPUT (" in m for m in casts)
    assert search(project.root) == []
    assert secret not in str(result)


def test_one_check_that_fails_while_running(new_project: NewProject) -> None:
    check = "expect(max(n + 1) > 1)"
    project = new_project(
        model(*GOOD, check), DATA, files={"profiles.yml": PROFILE.format(ansi="true")}
    )
    assert_only_these_are_errors(project.run(), {check: FAILING[check]})


def test_states_that_merge_together_are_looked_at_together(new_project: NewProject) -> None:
    """Segments are merged into the batch: a moment by itself reads states that are not there."""
    good, bad = ("stddev(n) < 1e12", "mean(n) > 0"), "approx_count_distinct(map(s, n)) > 0"
    text = model(*good, bad).replace("batch_by = 'b'", "batch_by = 'b', segment_by = ['s']")
    result = new_project(text, DATA).run()
    found = {(r.check_name, r.status) for r in result.results if r.status is not Status.NO_DATA}
    assert found == {(bad, Status.ERROR), *((name, Status.PASS) for name in good)}


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


def test_metrics_that_share_a_state_with_one_that_is_refused(new_project: NewProject) -> None:
    """A mean is made of a sum and a count; the count is that of `completeness`, too."""
    bad, good = "mean(array(n)) > 1", "completeness(array(n)) = 1"
    result = new_project(model(bad, good), DATA).run()
    assert {(r.check_name, r.status) for r in result.results} == {
        (bad, Status.ERROR),
        (good, Status.PASS),
    }


def test_rows_that_a_condition_leaves_out_are_not_computed_with(new_project: NewProject) -> None:
    """In ANSI mode a cast of 'x' fails, which the condition is there to leave out."""
    passing = (
        "expect(sum(int(s)) > 0)",
        "stddev(int(s)) > 0 or row_count = 1",
        "sum(s) > 0",
        "expect(corr(int(s), int(s) + 1) is not null or row_count = 1)",
        "quantile(int(s), 0.5) > 0",
        "count_distinct(int(s)) = row_count",
        "expect(percentile(int(s), 0.5) > 0)",
        "expect(sum(distinct int(s)) > 0)",
    )
    failing = ("satisfies(int(s) > 7)", "satisfies(int(s) > 8)", "unique(int(s) - int(s))")
    restricted = (*(f"{c} {{where: \"s <> 'x'\"}}" for c in (*passing, *failing)),)
    premises = ("satisfies_if(s <> 'x', int(s) > 0)", "satisfies_if(s <> 'x', int(s) < 9)")
    data = "select * from values ('a', 1, '1'), ('a', 2, 'x'), ('a', 2, '2') as t(b, n, s)"
    project = new_project(
        model(*restricted, *premises).replace("'b') }}", "'b', store_failures = true) }}"),
        data,
        files={"profiles.yml": PROFILE.format(ansi="true")},
    )
    result = project.run()
    statuses = {r.check_name: r.status for r in result.results}
    assert statuses == {
        **dict.fromkeys((*passing, *premises), Status.PASS),
        **dict.fromkeys(failing, Status.FAIL),
    }
    kept = [r["check_id"] for r in project.rows("dq_failures")]
    assert len(kept) == 2 * len(failing)
