"""Decimals have the same totals and means of one scan, of segments and of batches."""

from __future__ import annotations

from .conftest import NewProject

MODEL = """\
{{{{ config(batch_by = 'day'{more}) }}}}
select day, country, rate from {{{{ source('raw', 't') }}}}
-- @expect(avg(rate) > 0)
-- @expect(sum(rate) / count(rate) > 0)
-- @expect(avg(rate) > 0) {{scope: cumulative}}
-- @expect(sum(rate) / count(rate) > 0) {{scope: cumulative}}
"""
RATES = """
    select 'd1' as day, if(id % 2 = 0, 'DE', 'FR') as country,
        cast(if(id % 4 < 2, 0.00000001, 0.00000002) as decimal(18, 8)) as rate
    from range(100)
"""


def test_a_mean_of_small_rates(new_project: NewProject) -> None:
    for name, more in (("whole", ""), ("apart", ", segment_by = ['country']")):
        project = new_project(MODEL.format(more=more), RATES, name=name)
        observed = {(r.check_name, r.segment): r.observed for r in project.run().results}
        assert len(observed) == (2 if name == "whole" else 6)
        assert set(observed.values()) == {1.5e-8}, observed
