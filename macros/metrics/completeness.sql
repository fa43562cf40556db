{# Share of rows in which the column is not null. Range [0, 1]; null without rows. #}
{% macro metric_completeness(column) %} count({{ column }}) / nullif(count(*), 0) {% endmacro %}
