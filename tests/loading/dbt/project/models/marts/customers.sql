select
    c.customer_id,
    c.name,
    c.country,
    count(o.order_id) as orders
from {{ ref('stg_customers') }} as c
left join {{ ref('orders') }} as o on o.customer_id = c.customer_id
group by 1, 2, 3
