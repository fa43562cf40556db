{# Arithmetic mean of the values. Null without values. #}
{% macro metric_mean(column) %} avg({{ column }}) {% endmacro %}
