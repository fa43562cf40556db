{# Share of rows whose number is below zero. Range [0, 1]; null without rows. #}
{% macro metric_negative_ratio(column) %} count_if({{ column }} < 0) / nullif(count(*), 0) {% endmacro %}
