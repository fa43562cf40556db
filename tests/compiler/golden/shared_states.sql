{{ config(batch_by = 'day') }}

select
    day,
    -- @mean > 0 @sum > 0 @completeness = 1 @stddev < 9 @variance < 81
    -- @expect(avg(x) * count(x) = sum(X)) @expect(avg(`x`) > 1)
    x
from {{ source('shop', 'orders') }}

-- @expect(sum(x) / count(*) < 9 and not count(*) in (1, 2))
