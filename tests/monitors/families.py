"""A model with monitors of every family, and the data that they see."""

from __future__ import annotations

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['shop'], severity = 'warn') }}
select
    day,
    shop,
    amount,  -- @avh
    amount * 2 as fare,  -- @anomaly(mean, online_normal) {severity: error}
    code,    -- @pattern
    note     -- @completeness >= 0.9 {store_failures: true}
from {{ source('raw', 't') }}
/* @anomaly(row_count, day_of_week) {segments: true, exclude_where: "batch = '2024-01-05'"} */
-- @anomaly(row_count, threshold(lower => 60))
-- @novelty
"""
# Thirty days; on the last two the amounts are tenfold, on the last one shop is nearly gone, codes
# are odd and notes are missing.
ROWS = """
select
    date_add(date'2024-01-01', cast(d.id as int)) as day,
    if(r.id % 4 = 0, 'small', 'large') as shop,
    (10 + cast(pmod(xxhash64(d.id, r.id), 100) as double) / 25) * if(d.id >= 28, 10, 1) as amount,
    concat(if(d.id = 29 and r.id % 2 = 0, 'x_', 'AB'), '-',
        lpad(cast(pmod(xxhash64(r.id, d.id), 9000) + 1000 as string), 4, '0')) as code,
    if(d.id = 29 and r.id % 3 = 0, null, concat('order ', r.id % 5)) as note
from range(30) as d, range(80) as r
where r.id < 70 + pmod(xxhash64(d.id), 9) and not (d.id = 29 and r.id % 4 = 0 and r.id > 9)
"""
LAST, TENFOLD, ODD = "2024-01-30", "2024-01-29", "2024-01-05"
