{# Mean number of characters of the values as text. Range [0, inf); null without values. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_str_len(column) %} avg(length(cast({{ column }} as string))) {% endmacro %}
