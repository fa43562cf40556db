{# Number of columns of the model. Range [1, inf). #}
{% macro metric_column_count() %} fact('column_count') {% endmacro %}
