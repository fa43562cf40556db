{# Share of rows that meet the condition; a condition that is null is not met. Range [0, 1]; null without rows. #}
{% macro metric_compliance(condition) %} count_if({{ condition }}) / nullif(count(*), 0) {% endmacro %}
