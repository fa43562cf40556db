{# Days from the batch to the median date or time of a column; the batch is that of `batch`, an expression that is a date or time, else 1970-01-01. Range (-inf, inf), negative before the batch; null without values. As exact as `median`. #}
{% macro metric_days_to_median(column, batch='') -%}
    approx_percentile({{ days_from_batch(column, batch) }}, 0.5)
{%- endmacro %}
