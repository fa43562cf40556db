{# Share of rows whose value (or tuple) occurs once, among rows with a value. Range [0, 1]; null without values. Deequ: Uniqueness. #}
{% macro metric_uniqueness(column) -%}
    frequency(count_if(n = 1) / sum(n), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
