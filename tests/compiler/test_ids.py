"""The ids of checks, by which findings and histories are kept: another order changes none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dqsql.runner.compilation import Where

MakeProject = Callable[..., Path]


def ids(make_project: MakeProject, *lines: str) -> dict[str, str]:
    """The ids of the checks of a model with these columns, by column and expression."""
    *rest, last = lines
    columns = "\n    ".join([*(line.replace(" --", ", --") for line in rest), last])
    files = {"checks/m.sql": f"select\n    {columns}\nfrom db.t"}
    (plan,) = Where(project_dir=make_project(files)).compile().plans
    return {f"{check.column} {check.expression}": check.id for check in plan.checks}


def test_columns_that_are_written_alike_in_ids(make_project: MakeProject) -> None:
    lines = ["`a.b` -- @mean < 5", "`a b` -- @mean < 5", "a_b -- @mean < 5", "`c d` -- @mean < 5"]
    found = ids(make_project, *lines)
    assert found == ids(make_project, *reversed(lines))
    assert len(set(found.values())) == 4
    assert found["a_b mean < 5"] == "m.a_b.mean_lt_5"
    assert found["c d mean < 5"] == "m.c_d.mean_lt_5"


def test_texts_that_begin_alike_and_signs(make_project: MakeProject) -> None:
    listed = ", ".join(str(i) for i in range(40))
    checks = [f"@accepted_values([{listed}, {last}])" for last in (50, 60)]
    checks += ["@min > -5", "@min > 5"]
    one, other = (
        ids(make_project, f"x -- {' '.join(order)}") for order in (checks, list(reversed(checks)))
    )
    assert one == other
    assert len(set(one.values())) == 4
    assert all(len(i) <= len("m.x.") + 80 for i in one.values())
