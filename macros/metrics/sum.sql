{# Sum of the values. Null without values. #}
{% macro metric_sum(column) %} sum({{ column }}) {% endmacro %}
