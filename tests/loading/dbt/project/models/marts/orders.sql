{#- One row an order. -#}
{{ config(materialized = 'table', tags = ['daily'], meta = {'owner': 'sales'}) }}

select
    id as order_id,                                         -- @not_null
    cast(id % 100 + 1 as bigint) as customer_id,            -- @min >= 1 @max <= 100
    element_at(array('{{ var("first_status") }}', 'shipped', 'returned'), cast(id % 3 as int) + 1) as status,
    cast(id % 1000 as decimal(12, 2)) / 4 as amount,        -- @mean between 50 and 200 {severity: warn}
    case when id % 50 = 0 then null else concat('note ', id % 20) end as note,
    case when id % 4 = 0 then 'web' else 'shop' end as channel,
    cast(id % 5 as int) as rating,
    timestamp '2025-01-01 00:00:00' + make_dt_interval(cast(id % 30 as int)) as ordered_at
from range(1, {{ var('rows') }} + 1)

-- @row_count > 0
-- @expect(sum(amount) > 0)
