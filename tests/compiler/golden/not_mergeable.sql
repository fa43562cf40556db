{{ config(batch_by = 'day') }}

select
    day,
    x,   -- @expect(percentile(x, 0.5) < 4) @expect(mode(x) = 1) @expect(sum(distinct x) > 1)
    s    -- @expect(listagg(s, ',') within group (order by s) = 'a,b') @expect(max_by(s, x) = 'b')
from {{ source('shop', 'orders') }}
