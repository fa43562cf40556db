{{ config(batch_by = 'day') }}

select
    day,
    kind,
    y,
    x    -- @mean > 3 {where: "kind <> 'test'"} @completeness = 1 {where: kind is null} @max < 9
from {{ source('shop', 'orders') }}

-- @expect(count(*) filter (where x > 3) < 9)
-- @expect(sum(x) filter (where x > 3) < 9) {where: y > 1}
