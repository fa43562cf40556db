{# Every row meets the condition; a condition that is null is not met. #}
{% macro check_satisfies(condition) %} compliance({{ condition }}) = 1 {% endmacro %}
