"""Which check models are scanned together: those whose SELECTs take the same rows as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dqsql.compiler.sharing import shared_rows
from dqsql.runner.compilation import Where

MakeProject = Callable[..., Path]
FIRST = "select id, a -- @not_null\nfrom db.t where id > 5"


def groups(make_project: MakeProject, *models: str) -> list[tuple[list[str], str]]:
    """The models of each group, and what reads the rows of all."""
    files = {f"checks/m{i}.sql": text for i, text in enumerate(models)}
    compiled = Where(project_dir=make_project(files)).compile()
    found = shared_rows(compiled.plans)
    return [([p.model.name for p in group.plans], group.reader.sql) for group in found]


def test_columns_of_all(make_project: MakeProject) -> None:
    second = "select cast(b as int) as b, -- @not_null\n    a from db.t where id > 5"
    third = "select upper(a) as shout -- @not_null\nfrom `db`.t\nwhere id > 5"
    ((names, sql),) = groups(make_project, FIRST, second, third)
    assert names == ["m0", "m1", "m2"]
    listed, _, rest = sql.partition(" FROM ")
    assert listed.split(", ") == ["SELECT id", "a", "CAST(b AS INT) AS b", "upper(a) AS shout"]
    assert rest == "db.t WHERE id > 5"


def test_all_columns_of_the_relation_are_read_by_the_text_of_their_model(
    make_project: MakeProject,
) -> None:
    whole = "select   * -- all of it\nfrom db.t where id > 5\n-- @row_count > 3"
    renamed = "select a as b -- @not_null\nfrom db.t where id > 5"
    twice = renamed.replace("a as b", "a as b -- @not_null\n, id")
    assert groups(make_project, FIRST, whole, renamed, twice) == [
        (["m0", "m1"], whole),
        (["m2", "m3"], "SELECT a AS b, id FROM db.t WHERE id > 5"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        "select a -- @not_null\nfrom db.t where id > 6",
        "select a -- @not_null\nfrom db.t",
        "select a -- @not_null\nfrom db.u where id > 5",
        "select a -- @not_null\nfrom db2.t where id > 5",
        "select b as a -- @not_null\nfrom db.t where id > 5",
        "select t.*, 1 as x -- @not_null\nfrom db.t where id > 5",
        "select distinct a -- @not_null\nfrom db.t where id > 5",
        "select a -- @not_null\nfrom db.t where id > 5 limit 9",
        "select a -- @not_null\nfrom db.t tablesample (50 percent) where id > 5",
        "select a -- @not_null\nfrom db.t version as of 3 where id > 5",
        "select a -- @not_null\nfrom db.t join db.u using (id) where id > 5",
        "select a -- @not_null\nfrom (select * from db.t) t where id > 5",
        "with t as (select 1 as id, 2 as a) select a -- @not_null\nfrom t where id > 5",
        "select max(a) as a2 -- @not_null\nfrom db.t where id > 5",
        "select explode(l) as e -- @not_null\nfrom db.t where id > 5",
        "select rand() as r -- @not_null\nfrom db.t where id > 5",
        "select row_number() over (order by id) as n -- @not_null\nfrom db.t where id > 5",
        "select (select max(x) from db.u) as n -- @not_null\nfrom db.t where id > 5",
        "{{ config(batch_by = 'a') }} select a -- @not_null\nfrom db.t where id > 5",
        "{{ config(segment_by = ['a']) }} select a -- @not_null\nfrom db.t where id > 5",
        "{{ config(pii = ['a']) }} select a -- @not_null\nfrom db.t where id > 5",
    ],
)
def test_other_rows_or_more_than_columns(make_project: MakeProject, other: str) -> None:
    assert groups(make_project, FIRST, other) == []


def test_random_filters_are_not_shared(make_project: MakeProject) -> None:
    model = FIRST.replace("id > 5", "rand() < 0.5")
    assert groups(make_project, model, model) == []
