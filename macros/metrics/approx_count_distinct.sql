{# Approximate number of distinct values, by a HyperLogLog sketch (relative standard error 1.6 %). Range [0, inf). #}
{% macro metric_approx_count_distinct(column) %} approx_count_distinct({{ column }}) {% endmacro %}
