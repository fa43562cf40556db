{{ config(meta = {'dqsql': {'severity': 'warn'}}) }}

with source as (

    select
        id as customer_id,
        case when id % 10 = 0 then null else concat('Customer ', id) end as name,
        case when id % 7 = 0 then '' else 'de' end as country
    from range(1, 101)

),

renamed as (

    select
        customer_id,  -- @unique @not_null
        name,         -- @completeness >= 0.85
        country
    from source

)

select * from renamed
-- @row_count between 90 and 110
