"""`@pattern` learns and judges alike in a backfill and day by day, also where it learns midway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from dqsql.model.results import Status
from dqsql.monitors.kinds.pattern import training

from .conftest import NewProject

if TYPE_CHECKING:
    from .conftest import Project

DAYS = 9
# `other` is of another kind on the first day, which fails @not_null; `late` has values from the
# fifth day on; `warned` changes on the fifth.
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    case when day = '2024-03-01' then null else same end as checked,  -- {check}
    same,                      -- @pattern {same}
    case when day > '2024-03-01' then same else replace(same, 'AB', 'ab_') end as other, -- {other}
    case when day > '2024-03-04' then same end as late, -- {late}
    case when day > '2024-03-04' then same else replace(same, '-', '/') end as warned, -- {warned}
    case when day > '2024-03-02' or id % 50 = 0 then
        case when day < '2024-03-09' or id % 10 = 0 then same else replace(same, 'AB', '?ab') end
    end as few,                -- {few}
    case when id % 9 = 0 then
        case when day in ('2024-03-02', '2024-03-07') then 'n/a 5' else same end
    end as tiny,               -- {tiny}
    case when id % 9 = 0 and day not between '2024-03-02' and '2024-03-08' then same end
        as gap                 -- {gap}
from {{{{ source('raw', 't') }}}}
"""
COLUMNS = {
    "same": "",
    "check": "@not_null",
    "other": "",
    "late": "",
    "warned": "",
    "few": "",
    "tiny": "",
    "gap": "",
}
DATA = """
select
    cast(date_add(date'2024-03-01', cast(id div 100 as int)) as string) as day,
    id,
    concat('AB-', lpad(cast(pmod(xxhash64(id), 9000) + 1000 as string), 4, '0')) as same
from range(0, {days} * 100) as t(id)
"""


def stored(project: Project) -> dict[str, list[str]]:
    """What must not depend on how the batches were run: all but running totals."""
    return {n: rows for n, rows in project.tables().items() if "total" not in n}


def statuses(project: Project, model: str, column: str) -> str:
    found = project.rows("dq_results")
    rows = [r for r in found if (r["model"], r["column_name"]) == (model, column)]
    by_batch = {r["batch"]: r["status"] for r in rows if r["detector"] == "pattern"}
    return " ".join(by_batch[batch] for batch in sorted(by_batch))


REFUSED = {"other": "@pattern"}
LATE = {"check": "", "late": "@pattern"}
WARNED = {"warned": "@pattern {severity: warn}", "same": "@completeness > 0 {scope: cumulative}"}
# Two values on the first two days, 90 of 100 are broken on the last.
FEW = {"check": "", "few": "@pattern", "tiny": "@pattern {severity: warn}", "gap": "@pattern"}
# What it warned of is not learned from, however often it learns; nor is anything where all is left
# out by exclude_where.
LEFT_OUT = {"check": "", "few": "@pattern {exclude_where: \"batch > '2024-03-01'\"}"}
SKIPPED = "skipped skipped pass pass pass pass pass pass pass"


EXPECTED = {
    "refused": {"same": SKIPPED, "other": SKIPPED},
    "late": {"late": "skipped skipped skipped skipped skipped pass pass pass pass"},
    "few": {
        "few": "skipped pass pass pass pass pass pass pass fail",
        "tiny": "skipped warn pass pass pass pass warn pass pass",
        # A week without values: the pattern stays.
        "gap": f"skipped {'no_data ' * 7}pass",
    },
    "left_out": {"few": " ".join(["skipped"] * DAYS)},
    "all_at_once": {
        "same": SKIPPED,
        "warned": "skipped skipped pass pass warn warn warn pass pass",
    },
}


@pytest.fixture
def checked(new_project: NewProject, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Project]:
    """Models with these annotations, checked by a backfill; daily runs have stored the same."""

    def check(**annotated: dict[str, str]) -> Project:
        monkeypatch.setattr(training, "RETRY_AFTER", 3)
        # One is read by itself, the others are scanned together.
        models = {
            f"checks/{name}.sql": MODEL.format(**{**COLUMNS, **given})
            + "where id is not null\n" * (given is FEW)
            for name, given in annotated.items()
        }
        at_once, daily = (new_project(files=models, name=name) for name in ("at_once", "daily"))
        at_once.data(DATA.format(days=DAYS))
        result = at_once.run()
        assert [len(m.batches) for m in result.models] == [DAYS] * len(models)
        assert len(result.results) == len(at_once.rows("dq_results"))
        assert not [r for r in result.results if r.status is Status.ERROR]
        for days in range(1, DAYS + 1):
            daily.data(DATA.format(days=days))
            daily.run()
        of_backfill, of_days = stored(at_once), stored(daily)
        for table, rows in of_days.items():
            assert of_backfill[table] == rows, table
        for model in annotated:
            expected = EXPECTED[model]
            assert {c: statuses(at_once, model, c) for c in expected} == expected, model
        return daily

    return check


def test_a_backfill_and_daily_runs_store_the_same(checked: Callable[..., Project]) -> None:
    daily = checked(refused=REFUSED, late=LATE, few=FEW, left_out=LEFT_OUT)
    programs = [r for r in daily.rows("dq_programs") if r["model"] == "left_out"]
    assert [r["version"] for r in programs if r["column_name"] == "few"] == [1]


@pytest.mark.slow
def test_so_they_do_where_a_model_has_all_of_that(checked: Callable[..., Project]) -> None:
    checked(all_at_once={**LATE, **REFUSED, **WARNED, "check": "@not_null"})
