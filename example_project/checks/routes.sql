-- Where the flights go: a check model is any query, so a join is how to check that two tables
-- belong together.
{{ config(batch_by = 'flight_date', tags = ['daily', 'reference']) }}

with places as (
    select faa, name, radians(lat) as lat, radians(lon) as lon
    from {{ source('nyc', 'airports') }}
)

select
    f.flight_date,
    f.dest,
    d.name as dest_name,     -- @completeness >= 0.95 {description: airports in the Caribbean are not in the list} @min_length >= 3
    f.distance as miles,     -- @in_range(50, 5000)

    -- The great circle between the two airports, on a sphere with the earth's mean diameter.
    -- @positive
    7917.5 * asin(sqrt(
        power(sin((d.lat - o.lat) / 2), 2)
        + cos(o.lat) * cos(d.lat) * power(sin((d.lon - o.lon) / 2), 2)
    )) as great_circle_miles
from {{ source('nyc', 'flights') }} as f
join places as o on o.faa = f.origin
left join places as d on d.faa = f.dest

-- @row_count >= {{ var('min_flights') }}
-- @satisfies(abs(miles - great_circle_miles) < 10) {where: dest_name is not null, name: distance_is_true}
-- @approx_count_distinct(dest) between 70 and 100
