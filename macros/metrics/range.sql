{# Difference of the largest and the smallest value, in the column's unit. Range [0, inf); null without values. #}
{% macro metric_range(column) %} max({{ column }}) - min({{ column }}) {% endmacro %}
