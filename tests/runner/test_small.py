"""Runs of little data plan otherwise than others, and find the same."""

from __future__ import annotations

import pytest

from dqsql.compiler import scan
from dqsql.engine import execution
from dqsql.engine.small import Scale
from dqsql.runner import changes

from .conftest import NewProject

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['place']) }}
select
    day,
    place,
    id,     -- @unique @approx_count_distinct > 2 @references(source('raw', 'u'), key => 'k')
    price,  -- @mean between 1 and 100 @median < 90 {scope: cumulative} @stddev > 0
    note    -- @entropy > 0 @most_frequent_share < 1 {scope: cumulative}
from {{ source('raw', 't') }}
-- @row_count > 3
"""
DATA = """\
select date '2024-01-01' + cast(id % 3 as int) as day, concat('p', id % 2) as place, id,
    if(id % 11 = 0, null, sqrt(id) * pow(7, id % 5)) as price, concat('n', id % 7) as note
from range(200)
"""


@pytest.mark.usefixtures("compiled_plans")
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_found_does_not_depend_on_the_size(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    found = []
    for scale in Scale:
        monkeypatch.setattr(changes, "scale_of", lambda _, scale=scale: scale)
        project = new_project(MODEL, DATA, name=scale.value)
        project.data("select id as k from range(150)", "u")
        result = project.run(threads=threads)
        settings = [project.spark.conf.get(key) for key in Scale.FEW.conf]
        assert "NO_CODEGEN" not in settings and "1" not in settings, "they are put back"
        found.append((result.exit_code, {n: r for n, r in project.tables().items()}))
    assert found[0] == found[1] == found[2]
    assert found[0][0] == 1, "there are keys without a match"


def test_what_is_found_does_not_depend_on_the_statements(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    # Of two models of which one has segments, none is scanned with the other.
    models = {"checks/m.sql": MODEL, "checks/n.sql": MODEL.replace(", segment_by = ['place']", "")}
    for rows in (0, scan.SMALL_ROWS):
        # No batch is small, and none is scanned and measured by one statement.
        monkeypatch.setattr(scan, "SMALL_ROWS", rows)
        monkeypatch.setattr(execution, "_READ_TWICE", 20 * rows)
        project = new_project(files=models, name=f"p{rows}")
        project.data("select id as k from range(150)", "u")
        for many in (130, 200):
            project.data(DATA.replace("200", str(many)))
            result = project.run(full_refresh=many == 200)
        metrics = [project.metrics(model) for model in ("m", "n")]
        found.append((result.exit_code, project.tables(), metrics))
    assert found[0] == found[1]
    assert found[0][0] == 1, "there are keys without a match"


def test_a_table_that_grew_is_measured_as_a_whole(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODEL.replace("{{ config(batch_by = 'day', segment_by = ['place']) }}", "")
    found = []
    for rows in (0, scan.SMALL_ROWS):
        monkeypatch.setattr(scan, "SMALL_ROWS", rows)
        monkeypatch.setattr(execution, "_READ_TWICE", 20 * rows)
        project = new_project(model, DATA.replace("200", "20"), name=f"p{rows}")
        project.data("select id as k from range(150)", "u")
        project.run()
        project.data(DATA)
        result = project.run()
        batch = max(r["batch"] for r in project.rows("dq_batches"))
        metrics = {k[1:]: v for k, v in project.metrics().items() if k[0] == batch}
        found.append((result.exit_code, metrics))
    assert found[0] == found[1]
    assert found[0][1][None, None, "row_count()"] == 200
