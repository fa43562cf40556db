{{ config(batch_by='day', segment_by=['shop']) }}
select
    day,
    shop,
    name, -- @entropy < 5 {scope: cumulative} @index_of_peculiarity < 9 {scope: cumulative}
    id    -- @unique @uniqueness = 1 {scope: cumulative}
from orders
