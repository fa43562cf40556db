{# Approximate median, by a KLL sketch (k = 400, rank error about 1 %). Null without values. #}
{% macro metric_median(column) %} approx_percentile({{ column }}, 0.5) {% endmacro %}
