{# Median: exact in batches of up to 10,000 rows, else within 0.03% of the value; `scope: cumulative` within 0.05%. NaN is left out. Null without values. #}
{% macro metric_median(column) %} approx_percentile({{ column }}, 0.5) {% endmacro %}
