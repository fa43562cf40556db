"""Models of `select *` that are watched: their columns come and go, and no run stumbles."""

from __future__ import annotations

import json

import pytest

from dqsql.compiler.meaning import Meaning
from tests.runner.conftest import NewProject, Project

MODEL = """\
{{ config(batch_by = 'day', monitors = 'auto') }}
select * from {{ source('raw', 't') }}
"""


def days(last: int, columns: str = "a, b") -> str:
    rows = f"select date_add(date'2024-01-01', cast(d.id as int)) as day, {columns} from"
    made = "select id, pmod(id, 7) + 1.5D as a, pmod(id, 3) as b, 'k' as c from range(40)"
    return f"{rows} range({last}) as d, ({made})"


def told(project: Project, **options: object) -> dict[str, tuple[str, str]]:
    """What a run says of a batch: status and message by column and check."""
    (model,) = project.run(**options).models
    last = max(model.batches)
    return {
        f"{r.column or ''}.{r.check_name}": (r.status.value, r.message)
        for r in model.results
        if r.batch == last
    }


def test_columns_that_go_and_come_are_told_by_the_schema(new_project: NewProject) -> None:
    project = new_project(MODEL, days(9))
    assert {"b.alive", "b.avh"} <= told(project).keys()
    project.data(days(10, "a"))
    found = told(project)
    assert {status for status, _ in found.values()} <= {"pass", "warn", "skipped"}
    assert found[".schema"] == ("warn", "dropped b (bigint)")
    assert not any(name.startswith("b.") for name in found)
    kept = json.loads((project.root / "target" / "columns.json").read_text())["m"]
    assert kept == {"day": "date", "a": "double"}
    # And it is watched again as soon as it is back.
    project.data(days(11, "a, b, c"))
    found = told(project)
    assert {"b.alive", "c.alive"} <= found.keys()
    assert "error" not in {status for status, _ in found.values()}


def test_columns_of_an_earlier_run_are_no_lasting_error(new_project: NewProject) -> None:
    project = new_project(
        f"{MODEL}-- @drift(b, psi) < 9 @not_null(b) @matches_relation(raw.t, keys => b)\n", days(2)
    )
    file = project.root / "target" / "columns.json"
    for stale in ({"day": "date", "a": "double"}, {"nonsense": "int"}, ["of an earlier version"]):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"m": stale}), encoding="utf-8")
        told(project, full_refresh=True)
        assert list(json.loads(file.read_text("utf-8"))["m"]) == ["day", "a", "b"]


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ("bigint", "", "b is gone"),
        ("", "bigint", "b is new"),
        ("int", "bigint", "b is now bigint, before it was int"),
    ],
)
def test_words_of_a_column_that_comes_or_goes(then: str, now: str, words: str) -> None:
    meanings = [Meaning("day", {"b": ("x", kind)}) for kind in (then, now)]
    assert meanings[1].changes(meanings[0].text) == (words,)
