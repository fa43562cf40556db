"""Runs of little data plan otherwise than others, and find the same."""

from __future__ import annotations

import pytest

from dqsql.engine.small import Scale
from dqsql.runner import project_run

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


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_found_does_not_depend_on_the_size(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    found = []
    for scale in Scale:
        monkeypatch.setattr(project_run, "scale_of", lambda _, scale=scale: scale)
        project = new_project(MODEL, DATA, name=scale.value)
        project.data("select id as k from range(150)", "u")
        result = project.run(threads=threads)
        settings = [project.spark.conf.get(key) for key in Scale.FEW.conf]
        assert "NO_CODEGEN" not in settings and "1" not in settings, "they are put back"
        found.append((result.exit_code, {n: r for n, r in project.tables().items()}))
    assert found[0] == found[1] == found[2]
    assert found[0][0] == 1, "there are keys without a match"
