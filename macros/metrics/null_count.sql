{# Number of rows in which the column is null. Range [0, inf). #}
{% macro metric_null_count(column) %} count_if(({{ column }}) is null) {% endmacro %}
