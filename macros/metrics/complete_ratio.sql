{# Share of rows with a value, as "Auto-Validate by History" (KDD 2023) names completeness. Range [0, 1]; null without rows. #}
{% macro metric_complete_ratio(column) %} count({{ column }}) / nullif(count(*), 0) {% endmacro %}
