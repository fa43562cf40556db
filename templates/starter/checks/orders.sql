-- A check model: a SELECT, with checks in the comments of the columns they are about.
-- Each order_date is a batch: it is checked once, when it is new.
{{ config(batch_by = 'order_date', tags = ['shop']) }}

select
    order_date,
    order_id,     -- @not_null @positive
    customer,     -- @completeness >= 0.8 {severity: warn}
    status,       -- @accepted_values('paid', 'open', 'returned')
    amount        -- @non_negative @mean between 5 and 500
from {{ source('shop', 'orders') }}

-- Checks about the whole batch have lines of their own. return_rate and mostly_paid are defined by
-- this project's macros in macros/; expect(..) takes any condition on SQL aggregates.
-- @row_count >= {{ var('min_orders') }}
-- @return_rate(status) <= 0.5
-- @mostly_paid(status)
-- @expect(sum(amount) / count(*) < 1000)
