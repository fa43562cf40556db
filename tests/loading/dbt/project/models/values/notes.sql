select
    id as note_id,
    element_at(array('placed', 'shipped', 'returned'), cast(id % 3 as int) + 1) as state,
    case when id % 50 = 0 then null else concat('note ', id % 20) end as note,
    case when id % 4 = 0 then 'web' else 'shop' end as channel
from range(1, 1001)
