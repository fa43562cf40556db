{# Every value is greater than the other value or column; rows where either is null pass. #}
{% macro check_greater_than(column, other) -%}
    compliance({{ column }} is null or {{ other }} is null or {{ column }} > {{ other }}) = 1
{%- endmacro %}
