{# Every value is greater than zero; nulls pass. #}
{% macro check_positive(column) %} compliance({{ column }} is null or {{ column }} > 0) = 1 {% endmacro %}
