"""Columns that a SELECT derives from private ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dqsql.runner.compilation import compile_project

MakeProject = Callable[..., Path]


def warnings_of(make_project: MakeProject, sql: str) -> list[str]:
    compiled = compile_project(make_project({"checks/m.sql": f"{sql}\n-- @row_count > 1\n"}))
    assert compiled.errors == ()
    return [w for w in compiled.project.warnings if "is derived from email" in w]


@pytest.mark.parametrize(
    ("select", "warned"),
    [
        ("select email, lower(email) as mail from t", ["mail"]),
        ("select email, concat(first, email) as a, first from t", ["a"]),
        (
            "with c as (select email as e, id from t) select e as email, upper(e) x, id from c",
            ["x"],
        ),
        ("select email, substr(email, 2) s from (select email from t) q", ["s"]),
        ("select email, email is not null as has_email, length(email) as n, id from t", []),
        ("select email, id, id + 1 as next from t", []),
        ("select email, case when email is null then 'a' else first end as a, first from t", []),
        ("select email, case email when 'x' then 1 end as a, if(email > 'x', 1, 0) b from t", []),
        ("select email, case when email like 'a%' then email end as a from t", ["a"]),
        ("select email, sum(n) over (partition by email order by email) as a, n from t", []),
        ("with c as (select *, email is null as no from t) select email, int(no) a from c", []),
        ("select email, concat(`Email`, '!') as a from t", ["a"]),
        ("select `customer's name`, `we\"ird`, `a/*b`, email from t", []),
        (
            "with c as (select `it's;` as email from t) select email, lower(email) as `a;b` from c",
            ["a;b"],
        ),
        ("select email, upper(email) as a from t union all select x, y from u", ["a"]),
        ("select email, lower(email) as Mail from t", ["Mail"]),
        ("with c as (select * from t) select day, email, id from c", []),
        ("with c as (select * from t union all select * from u) select day, email from c", []),
        ("with c as (select * from t) select day, email, lower(email) as a from c", ["a"]),
    ],
)
def test_they_are_told(make_project: MakeProject, select: str, warned: list[str]) -> None:
    found = warnings_of(make_project, f"{{{{ config(pii = ['email']) }}}}\n{select}")
    assert [w.split("the column ")[1].split(" ")[0] for w in found] == warned
    assert all("m.sql: " in w and "config(pii = [.., '" in w for w in found)


def test_not_where_they_are_marked(make_project: MakeProject) -> None:
    sql = "{{ config(pii = ['email', 'MAIL']) }}\nselect email, lower(email) as mail from t"
    assert warnings_of(make_project, sql) == []


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ("select id, email from {{ ref('up') }}", "the column email is derived from email of up,"),
        ("select id, upper(email) as e from {{ ref('up') }} u", "the column e is derived from"),
        ("select * from {{ ref('up') }}", "all columns of up are taken, of which 'email' is"),
        ("select id, length(email) as n from {{ ref('up') }}", None),
        ("select * except (email) from {{ ref('up') }}", None),
        ("with c as (select * from {{ ref('up') }}) select id from c", None),
        ("with c as (select * from {{ ref('up') }}) select id, email e from c", "the column e is"),
        ("select a.*, p.id as pid from a join {{ ref('up') }} p using (id)", None),
        ("select p.*, 1 as k from (select id from {{ ref('up') }}) p", None),
        ("{{ config(pii = ['email']) }} select id, email from {{ ref('up') }}", None),
        ("{{ config(pii = ['email']) }} select * from {{ ref('up') }}", None),
    ],
)
def test_private_columns_of_a_model_that_is_read(
    make_project: MakeProject, select: str, told: str | None
) -> None:
    up = "select id,\n  email -- @not_null {pii: true}\nfrom t\n"
    down = f"{select}\n-- @row_count > 1\n"
    compiled = compile_project(make_project({"checks/up.sql": up, "checks/down.sql": down}))
    found = [w for w in compiled.project.warnings if "private" in w]
    assert len(found) == (told is not None)
    assert told is None or told in found[0]
