{# Number of distinct values, exact. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_dist_val_count(column) %} frequency(count(*), {{ column }}) {% endmacro %}
