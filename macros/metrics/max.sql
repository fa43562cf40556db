{# Largest value. Null without values; NaN is larger than any number, as in Spark. #}
{% macro metric_max(column) %} max({{ column }}) {% endmacro %}
