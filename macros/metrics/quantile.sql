{# Approximate quantile at rank in [0, 1], by a KLL sketch (k = 400, rank error about 1 %). NaN is left out. Null without values. #}
{% macro metric_quantile(column, rank) %} approx_percentile({{ column }}, {{ rank }}) {% endmacro %}
