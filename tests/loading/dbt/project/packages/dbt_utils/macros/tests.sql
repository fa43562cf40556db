{% test accepted_range(model, column_name, min_value=none, max_value=none, inclusive=true) %}
{% set equal = '=' if inclusive else '' %}
select * from {{ model }}
where false
{% if min_value is not none %} or not {{ column_name }} >{{ equal }} {{ min_value }}{% endif %}
{% if max_value is not none %} or not {{ column_name }} <{{ equal }} {{ max_value }}{% endif %}
{% endtest %}

{% test expression_is_true(model, expression, column_name=none) %}
select 1 as failing from {{ model }}
where not({{ column_name if column_name is not none else '' }} {{ expression }})
{% endtest %}

{% test not_null_proportion(model, column_name, at_least, at_most=1.0, group_by_columns=[]) %}
select * from (
    select
        sum(case when {{ column_name }} is null then 0 else 1 end)
        / cast(count(*) as {{ dbt.type_numeric() }}) as proportion
    from {{ model }}
)
where proportion < {{ at_least }} or proportion > {{ at_most }}
{% endtest %}

{% test not_empty_string(model, column_name, trim_whitespace=true) %}
select 1 as failing from {{ model }}
where {{ 'trim(' ~ column_name ~ ')' if trim_whitespace else column_name }} = ''
{% endtest %}

{% test unique_combination_of_columns(model, combination_of_columns, quote_columns=false) %}
select {{ combination_of_columns | join(', ') }} from {{ model }}
group by {{ combination_of_columns | join(', ') }}
having count(*) > 1
{% endtest %}

{% test at_least_one(model, column_name, group_by_columns=[]) %}
select count({{ column_name }}) as n from {{ model }} having count({{ column_name }}) = 0
{% endtest %}

{% test not_constant(model, column_name, group_by_columns=[]) %}
select count(distinct {{ column_name }}) as n from {{ model }}
having count(distinct {{ column_name }}) = 1
{% endtest %}

{% test equal_rowcount(model, compare_model, group_by_columns=[]) %}
{{ config(fail_calc = 'sum(coalesce(diff_count, 0))') }}
select abs(a.n - b.n) as diff_count
from (select count(*) as n from {{ model }}) as a
cross join (select count(*) as n from {{ compare_model }}) as b
{% endtest %}

{% test fewer_rows_than(model, compare_model, group_by_columns=[]) %}
{{ config(fail_calc = 'sum(coalesce(row_count_delta, 0))') }}
select case when a.n > b.n then a.n - b.n when a.n = b.n then 1 else 0 end as row_count_delta
from (select count(*) as n from {{ model }}) as a
cross join (select count(*) as n from {{ compare_model }}) as b
{% endtest %}

{% test recency(model, field, datepart, interval, ignore_time_component=false, group_by_columns=[]) %}
{% set threshold = 'cast(' ~ dbt.dateadd(datepart, interval * -1, dbt.current_timestamp()) ~ ' as timestamp)' %}
select * from (select max({{ field }}) as most_recent from {{ model }})
where most_recent < {{ threshold }}
{% endtest %}

{% test relationships_where(model, column_name, to, field, from_condition="1=1", to_condition="1=1") %}
select child.id from
    (select {{ column_name }} as id from {{ model }}
     where {{ column_name }} is not null and {{ from_condition }}) as child
left join
    (select {{ field }} as id from {{ to }}
     where {{ field }} is not null and {{ to_condition }}) as parent
on child.id = parent.id
where parent.id is null
{% endtest %}

{% test cardinality_equality(model, column_name, to, field) %}
with a as (select {{ column_name }} as v, count(*) as n from {{ model }} group by 1),
b as (select {{ field }} as v, count(*) as n from {{ to }} group by 1)
(select * from a except select * from b) union all (select * from b except select * from a)
{% endtest %}

{% test sequential_values(model, column_name, interval=1) %}
select * from (
    select {{ column_name }} as v, lag({{ column_name }}) over (order by {{ column_name }}) as p
    from {{ model }}
)
where not(v = p + {{ interval }})
{% endtest %}
