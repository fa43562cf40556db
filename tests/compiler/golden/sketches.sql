{{ config(batch_by = 'day') }}

select
    day,
    -- @quantile(0.99) < 700 @quantile(0.5) < 70 @median < 70
    -- @expect(approx_percentile(x, 0.25, 1000) > 1)
    -- @approx_count_distinct >= 10
    x
from {{ source('shop', 'orders') }}
