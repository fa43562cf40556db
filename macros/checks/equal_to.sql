{# Every value is equal to the other value or column; rows where either is null pass. #}
{% macro check_equal_to(column, other) -%}
    compliance({{ column }} is null or {{ other }} is null or {{ column }} = {{ other }}) = 1
{%- endmacro %}
