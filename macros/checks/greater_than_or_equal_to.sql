{# Every value is greater than or equal to the other value or column; rows where either is null pass. #}
{% macro check_greater_than_or_equal_to(column, other) -%}
    compliance({{ column }} is null or {{ other }} is null or {{ column }} >= {{ other }}) = 1
{%- endmacro %}
