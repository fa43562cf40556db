{# Difference of the largest and the smallest value, in the column's unit. Range [0, inf); null without values, and where the column's type cannot hold it (127 - -128 does not fit into a tinyint: cast the column). #}
{% macro metric_range(column) %} try_subtract(max({{ column }}), min({{ column }})) {% endmacro %}
