{# Number of rows beyond the first of each value (or tuple). Range [0, inf); null without values. #}
{% macro metric_duplicate_count(column) -%}
    frequency(sum(n - 1), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
