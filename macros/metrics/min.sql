{# Smallest value. Null without values. #}
{% macro metric_min(column) %} min({{ column }}) {% endmacro %}
