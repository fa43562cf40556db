"""A model without rows: what its checks say, and what a person is told."""

from __future__ import annotations

from tests.runner.conftest import NewProject, by_check

CHECKS = """\
select
    id, -- @has_type('bigint') @stays_unique
    x,  -- @alive @avh
    c
from {{ source('raw', 't') }}
-- @row_count > 10
-- @not_null(x) @completeness(x) > 0.5 @unique(id)
-- @expect(count(*) > 5) @expect(approx_count_distinct(id) < 3)
-- @sum(x) > 0 {scope: cumulative}
-- @schema @drift(x, ks) < 0.9 @row_anomalies @anomaly(row_count)
"""
DATA = "select id, id * 2.0D as x, 'a' as c from range(20)"
NO_ROWS = f"{DATA} where id < 0"


def test_segmented_or_not_no_rows_are_told_alike(new_project: NewProject) -> None:
    told = {}
    for name, config in {"plain": "", "segmented": "segment_by = ['c']"}.items():
        model = f"{{{{ config({config}) }}}}\n{CHECKS}"
        project = new_project(model, NO_ROWS, name=name)
        first = project.run(quarantine=True)
        assert [m.rows for m in first.models] == [0]
        # What is counted over all batches so far goes on with the next.
        project.data(DATA)
        second = project.run()
        assert {r.segment for r in second.results} == {None, *(["c=a"] if config else [])}
        told[name] = [
            {check: (r.status, r.message) for check, r in by_check(result).items()}
            for result in (first, second)
        ]
    assert told["segmented"] == told["plain"]
    first, second = ({c: s.value for c, (s, _) in t.items()} for t in told["plain"])
    assert first["row_count > 10"] == first["expect(count(*) > 5)"] == "fail"
    assert first["not_null(x)"] == "no_data"
    assert first["schema"] == second["schema"] == second["sum(x) > 0"] == "pass"
    assert "error" not in {*first.values(), *second.values()}
