{{ config(batch_by = 'day') }}

select
    day,
    id,            -- @not_null @positive
    kind,          -- @accepted_values('a', 'it''s', "b") @min_length >= 1 @max_length <= 3
    price,         -- @completeness >= 0.95 {severity: warn} @min >= 0 @max < 1000 @mean between 5 and 9
    price * 2 as twice,  -- @sum > 0 @in_range(-1, 10)
    note           -- @matches('^[A-Z]\\d+$') @mean_length < 5.5 @null_count = 0
from {{ source('shop', 'orders') }}

-- @row_count > 0
-- @satisfies(price > 0 or kind is null)
-- @satisfies_if(kind = 'a', price < 10)
