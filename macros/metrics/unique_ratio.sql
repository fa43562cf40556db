{# Distinct values per row with a value, by an HLL sketch (exact for few values, else about 2 %). Range [0, about 1]; null without values. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_unique_ratio(column) %} approx_count_distinct({{ column }}) / nullif(count({{ column }}), 0) {% endmacro %}
