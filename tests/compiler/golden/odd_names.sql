{{ config(batch_by = '`the day`', segment_by = ['group']) }}

select
    `the day`,
    `group`,
    `net.price`,    -- @mean > 0 @not_null
    `it's "so"`,    -- @sum > 0
    `back``tick`,   -- @max < 5
    `größe`,        -- @min > 1
    `select`,       -- @not_null
    address         -- @expect(count(address.`zip code`) > 0) @expect(max(address.lines[0]) = 'x')
from {{ source('shop', 'orders') }}
