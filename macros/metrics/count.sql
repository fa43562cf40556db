{# Number of rows in which the expression is not null. Range [0, inf). #}
{% macro metric_count(column="*") %} count({{ column }}) {% endmacro %}
