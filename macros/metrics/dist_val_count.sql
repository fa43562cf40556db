{# Number of distinct values, exact. Range [0, inf). After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_dist_val_count(column) %} frequency(count(*), {{ column }}) {% endmacro %}
