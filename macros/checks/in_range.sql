{# Every value lies between low and high, both included; nulls pass, and a null bound is none. #}
{% macro check_in_range(column, low, high) -%}
    compliance({{ column }} is null or coalesce({{ column }} between {{ low }} and {{ high }}, true)) = 1
{%- endmacro %}
