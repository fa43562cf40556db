{{ config(batch_by = 'day') }}

select
    day,
    revenue,    -- @gross_margin(cost) > 0.2 @healthy(cost) @healthy(revenue, cost, low => 0.3)
    cost
from {{ source('shop', 'orders') }}

-- @gross_margin(revenue, cost) between 0.1 and 0.9
