{# Share of the most frequent value (or tuple) among rows with a value. Range (0, 1]; null without values. #}
{% macro metric_most_frequent_ratio(column) -%}
    frequency(max(n) / sum(n), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
