{# Exact number of distinct values (or tuples); nulls, and tuples of nulls only, do not count. Range [0, inf). #}
{% macro metric_count_distinct(column) -%}
    frequency(count(*), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
