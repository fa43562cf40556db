{# Every value lies between low and high, both included; nulls pass. #}
{% macro check_in_range(column, low, high) -%}
    compliance({{ column }} is null or {{ column }} between {{ low }} and {{ high }}) = 1
{%- endmacro %}
