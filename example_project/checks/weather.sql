{{ config(
    batch_by = 'observed_on',
    tags = ['daily'],
    description = 'Hourly weather at the three airports, one batch a day.'
) }}

select
    make_date(year, month, day) as observed_on,
    origin            -- @not_null @accepted_values('EWR', 'JFK', 'LGA')
    , time_hour       -- @not_null
    , temp            -- @not_null @in_range(-30, 120)
    , dewp            -- @less_than_or_equal_to(temp)
    , humid           -- @in_range(0, 100)
    , wind_dir        -- @completeness >= 0.9 @in_range(0, 360)
    /* 1048 miles an hour were measured at EWR on 12 February: a broken sensor, not a storm.
       @in_range(0, 200) {severity: warn} */
    , wind_speed
    , wind_gust       -- @greater_than_or_equal_to(wind_speed)
    , precip          -- @non_negative @sum < 10
    , pressure        -- @completeness >= 0.5 {severity: warn} @min > 950 @max < 1050
    , visib           -- @in_range(0, 10) @mean > 2
from {{ source('nyc', 'weather') }}

-- @row_count between 66 and 75
-- @approx_count_distinct(origin) = 3
-- @novelty {severity: warn, min_history: 30, description: a day unlike the days before it}
