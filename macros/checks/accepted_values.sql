{# Every value is one of those listed; nulls pass (add @not_null). #}
{% macro check_accepted_values(column) -%}
    compliance({{ column }} is null or {{ column }} in ({{ varargs | join(", ") }})) = 1
{%- endmacro %}
