{# Every value is one of those listed; nulls pass (add @not_null). #}
{% macro check_accepted_values(column, value) -%}
    compliance({{ column }} is null or {{ column }} in ({{ ([value] + varargs | list) | join(", ") }})) = 1
{%- endmacro %}
