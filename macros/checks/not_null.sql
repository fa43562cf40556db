{# Every row has a value. #}
{% macro check_not_null(column) %} completeness({{ column }}) = 1 {% endmacro %}
