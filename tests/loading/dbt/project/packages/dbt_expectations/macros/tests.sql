{% macro expression_is_true(model, expression, row_condition) %}
select * from (
    select {{ expression }} as expression from {{ model }}
    {% if row_condition %} where {{ row_condition }} {% endif %}
)
where not(expression = true)
{% endmacro %}

{% macro bounds(expression, min_value, max_value, strictly) %}
{% set equal = '' if strictly else '=' %}
(1=1
{% if min_value is not none %} and {{ expression }} >{{ equal }} {{ min_value }}{% endif %}
{% if max_value is not none %} and {{ expression }} <{{ equal }} {{ max_value }}{% endif %})
{% endmacro %}

{% test expect_column_values_to_be_between(model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.expression_is_true(model, dbt_expectations.bounds(column_name, min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_mean_to_be_between(model, column_name, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.expression_is_true(model, dbt_expectations.bounds('avg(' ~ column_name ~ ')', min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_values_to_be_in_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
select v.value_field
from (select {{ column_name }} as value_field from {{ model }}
      {% if row_condition %} where {{ row_condition }} {% endif %}) as v
left join (
    {% for value in value_set %}
    select {% if quote_values %}cast('{{ value }}' as string){% else %}{{ value }}{% endif %} as value_field
    {% if not loop.last %}union all{% endif %}
    {% endfor %}
) as s on v.value_field = s.value_field
where s.value_field is null
{% endtest %}

{% test expect_table_row_count_to_be_between(model, min_value=none, max_value=none, group_by=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.expression_is_true(model, dbt_expectations.bounds('count(*)', min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_value_lengths_to_be_between(model, column_name, min_value=none, max_value=none, row_condition=none, strictly=false) %}
{{ dbt_expectations.expression_is_true(model, dbt_expectations.bounds('length(' ~ column_name ~ ')', min_value, max_value, strictly), row_condition) }}
{% endtest %}

{% test expect_column_to_exist(model, column_name) %}
select 1 from {{ model }} where false
{% endtest %}

{% test expect_column_distinct_values_to_be_in_set(model, column_name, value_set, quote_values=true, row_condition=none) %}
select v.value_field
from (select distinct {{ column_name }} as value_field from {{ model }}
      {% if row_condition %} where {{ row_condition }} {% endif %}) as v
left join (
    {% for value in value_set %}
    select {% if quote_values %}cast('{{ value }}' as string){% else %}{{ value }}{% endif %} as value_field
    {% if not loop.last %}union all{% endif %}
    {% endfor %}
) as s on v.value_field = s.value_field
where s.value_field is null
{% endtest %}

{% test expect_column_values_to_be_unique(model, column_name, row_condition=none) %}
select {{ column_name }}, count(*) as n
from {{ model }}
where {{ column_name }} is not null {% if row_condition %} and {{ row_condition }} {% endif %}
group by {{ column_name }}
having count(*) > 1
{% endtest %}
