{# Number of rows. Range [0, inf). #}
{% macro metric_row_count() %} count(*) {% endmacro %}
