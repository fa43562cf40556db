{{ config(
    batch_by = 'flight_date',
    tags = ['daily', 'ops'],
    owner = 'flight operations',
    description = 'Every flight that was scheduled to leave New York, one batch a day.'
) }}

select
    flight_date,
    carrier,          -- @not_null @approx_count_distinct between 10 and 20
    flight,           -- @positive
    tailnum,          -- @pattern {severity: warn} @completeness >= 0.95 {severity: warn} @matches('^N[0-9A-Z]{2,5}$') {severity: warn}
    origin,           -- @not_null @accepted_values('EWR', 'JFK', 'LGA')
    dest,             -- @not_null @min_length = 3 @max_length = 3

    -- Times are local and written as hhmm.
    sched_dep_time,   -- @in_range(0, 2359)
    sched_arr_time,   -- @in_range(0, 2359)
    dep_time,         -- @avh {severity: warn} @cancellation_rate <= {{ var('max_cancelled') }} {severity: warn, tags: [disruption]}

    -- Delays are in minutes; negative is early.
    -- @mean between -5 and 60 {severity: warn, tags: [disruption]} @min > -60
    -- @on_time(15, 0.5) {severity: warn, tags: [disruption]}
    dep_delay,
    arr_delay,        -- @avh {severity: warn} @median < 30 {severity: warn, tags: [disruption]} @stddev < 150

    air_time,         -- @min >= 15 @max < 720 @quantile(0.9) < 400
    distance,         -- @not_null @positive @less_than_or_equal_to(5000) @mean between 900 and 1200
    hour,             -- @in_range(0, 23)
    minute            -- @in_range(0, 59)
from {{ source('nyc', 'flights') }}

-- @row_count >= {{ var('min_flights') }}
-- @satisfies(origin <> dest) {name: leaves_for_somewhere_else}
-- @satisfies(sched_dep_time = hour * 100 + minute) {name: hour_and_minute_agree}
-- @satisfies_if(air_time is not null, dep_delay is not null) {name: who_flew_has_departed}
-- @speed_mph(distance, air_time) between 350 and 450
-- @expect(sum(distance) > 500000) {description: the day's flights go further than to the moon and back}

-- Fewer flights leave on Saturdays: a day is held against the same weekdays before it.
-- @anomaly(row_count, day_of_week) {severity: warn, direction: drop}
