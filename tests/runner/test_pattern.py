"""`@pattern` in whole runs: learned from the first batches, then counted in every scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.model.results import Result, RunResult, Status

from .conftest import NewProject

if TYPE_CHECKING:
    from .conftest import Project

MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    code,     -- @pattern {exclude_where: "batch = '2024-03-02'"}
    secret,   -- @pattern {severity: warn, pii: true}
    prose,    -- @pattern
    array(code, null) as codes,  -- @pattern
    code as again  -- @pattern {exclude_where: "no_such = 1"}
from {{ source('raw', 't') }}
"""
CODES = """
select
    date_add(date'2024-03-01', cast(id div 100 as int)) as day,
    concat({letters}, '-', lpad(cast(pmod(xxhash64(id), 9000) + 1000 as string), 4, '0')) as code,
    concat('2024-', lpad(cast(1 + id % 12 as string), 2, '0'), {day_of_month}) as secret,
    '' as prose
from range({first}, {last}) as t(id)
"""
GOOD = {"letters": "'AB'", "day_of_month": "'-11'"}


def verdicts(result: RunResult) -> dict[tuple[str, str], Result]:
    return {(r.column or "", r.batch or ""): r for r in result.results}


def with_days(project: Project, first: int, last: int, **changes: str) -> RunResult:
    project.data(CODES.format(first=first * 100, last=last * 100, **{**GOOD, **changes}))
    return project.run()


def test_a_column_that_is_filled_later_gets_its_pattern_soon(new_project: NewProject) -> None:
    project = new_project(
        """
        {{ config(batch_by = 'day') }}
        select day,
          late  -- @pattern
        from {{ source('raw', 't') }}
        """
    )
    rows = (
        "select date_add(date'2024-03-01', cast(id div 50 as int)) as day, case"
        " when id < 50 then null when id < 200 then concat('X', lpad(cast(id as string), 4, '0'))"
        " else concat(lpad(cast(id as string), 4, '0'), 'X') end as late from range({n})"
    )
    for days in (1, 2, 3, 4, 5):
        project.data(rows.format(n=50 * days))
        project.run()
    found = [r["status"] for r in sorted(project.rows("dq_results"), key=lambda r: r["batch"])]
    assert found == ["skipped", "skipped", "pass", "pass", "fail"]
    project.run(full_refresh=True)
    found = [r["status"] for r in sorted(project.rows("dq_results"), key=lambda r: r["batch"])]
    # Its 50 values were few: before the fifth day, it was learned again of all before.
    assert found == ["skipped", "skipped", "skipped", "skipped", "fail"]


def test_a_pattern_is_learned_kept_and_broken(new_project: NewProject) -> None:
    project = new_project(MODEL)
    found = verdicts(with_days(project, 0, 4))
    assert found["code", "2024-03-01"].status is Status.SKIPPED
    assert "from this batch" in found["code", "2024-03-01"].message
    odd_day = found["code", "2024-03-02"]
    assert (odd_day.status, odd_day.message) == (Status.SKIPPED, "left out by exclude_where")
    assert found["code", "2024-03-03"].status is Status.PASS
    assert found["codes", "2024-03-03"].status is Status.PASS
    refused = found["again", "2024-03-03"]
    assert refused.status is Status.ERROR
    assert "no_such" in refused.message
    assert found["prose", "2024-03-03"].status is Status.SKIPPED
    assert "no pattern" in found["prose", "2024-03-03"].message
    program = next(r for r in project.rows("dq_programs") if r["column_name"] == "code")
    assert program["version"] == 1
    # Whole batches were counted for training, not the sample.
    assert '"rows": 100' in program["program"]
    assert program["learned_to"] == "2024-03-01"

    odd = "case when id % 10 = 0 then 'ab_' else 'AB' end"
    found = verdicts(with_days(project, 4, 5, letters=odd, day_of_month="'/11'"))
    broken = found["code", "2024-03-05"]
    assert broken.status is Status.FAIL
    assert broken.observed == 0.1
    assert "ab_-" in broken.message
    assert broken.details["pattern"] in broken.message
    assert found["secret", "2024-03-05"].status is Status.WARN
    assert "/11" not in found["secret", "2024-03-05"].message

    found = verdicts(with_days(project, 5, 6))
    assert found["code", "2024-03-06"].status is Status.PASS
    metrics = project.metrics()
    matches = [v for k, v in metrics.items() if k[0] == "2024-03-05" and "matches" in k[3]]
    # Of `secret`, `code` and `codes`.
    assert sorted(matches) == [0.0, 90.0, 90.0]


CAREFUL = """\
{{ config(batch_by = 'day') }}
select
    day,
    -- @not_null
    case when date_format(day, 'dd') = '01' then null else code end as checked,
    code,     -- @pattern
    secret    -- @pattern {severity: warn}
from {{ source('raw', 't') }}
"""


def test_batches_that_fail_other_checks_or_were_warned_of_do_not_train(
    new_project: NewProject,
) -> None:
    project = new_project(CAREFUL)
    # Codes of another kind on the first day, which fails another check, and on the fifth.
    odd = "case when id < 100 or id between 400 and 499 then 'ab_' else 'AB' end"
    later = "case when id >= 500 then '/11' else '-11' end"

    def until(last: int) -> dict[tuple[str, str], Result]:
        return verdicts(with_days(project, 0, last, letters=odd, day_of_month=later))

    found = until(2)
    assert found["checked", "2024-03-01"].status is Status.FAIL
    told = found["code", "2024-03-02"]
    assert told.status is Status.SKIPPED
    assert "learned again: batch 2024-03-01 failed other checks" in told.message

    # Then it is learned from an accepted day; the codes of the first day are no part of it.
    found = until(5)
    assert found["code", "2024-03-04"].status is Status.PASS
    assert found["code", "2024-03-05"].status is Status.FAIL
    programs = [r for r in project.rows("dq_programs") if r["column_name"] == "code"]
    newest = max(programs, key=lambda r: int(r["version"]))
    assert (newest["version"], newest["learned_from"]) == (2, "2024-03-02")

    # Two days of warnings are accepted, but train nothing; with the third they are the new normal.
    for last in (6, 7, 8):
        found = until(last)
        assert found["secret", f"2024-03-{last:02d}"].status is Status.WARN
    found = until(9)
    assert found["secret", "2024-03-09"].status is Status.PASS
