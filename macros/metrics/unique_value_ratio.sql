{# Number of values (or tuples) that occur once over the number of distinct ones. Range [0, 1]; null without values. Deequ: UniqueValueRatio. #}
{% macro metric_unique_value_ratio(column) -%}
    frequency(count_if(n = 1) / nullif(count(*), 0), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
