{{ config(batch_by = 'day', segment_by = ['shop']) }}

select
    day,
    shop,
    country,    -- @predictability(from => (zip, `the city`), measure => precision) >= 0.99
    zip,
    `the city`
from {{ source('shop', 'orders') }}

-- @predictability(country, from => (zip, `the city`)) > 0.9 {scope: cumulative}
-- @predictability(shop, from => lower(zip), buckets => 1024) > 0.5 {where: "zip <> ''"}
