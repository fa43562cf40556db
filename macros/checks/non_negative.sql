{# Every value is not negative; nulls pass. #}
{% macro check_non_negative(column) %} compliance({{ column }} is null or {{ column }} >= 0) = 1 {% endmacro %}
