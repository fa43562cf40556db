-- The text of the SELECT is Spark's alone: nothing in it may change.
with a as (
    select *, 'it''s' as quote, percentile_cont(0.5) within group (order by x) over () as p
    from {{ source('shop', 'orders') }} tablesample (10 percent) repeatable (7)
)
select quote, -- @not_null
       array_size(null) as size, trunc(d, 'Q') as quarter, x /* @max(x) < 3 */
from a where x > {{ var('low') }}
union all
select 'b', 1, d, x from a
