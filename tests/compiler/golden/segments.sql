{{ config(batch_by = "date_trunc('hour', at)", segment_by = ['country', 'user kind']) }}

select
    at
    , country        -- @approx_count_distinct < 200
    , `user kind`    -- @min >= 'a'
    , amount         -- @median < 30 @stddev < 4 @expect(percentile(amount, 0.5) > 1)
from {{ source('shop', 'orders') }}
