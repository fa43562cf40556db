{# Days from the batch to the latest date or time of a column; the batch is that of `batch`, an expression that is a date or time, else 1970-01-01. Range (-inf, inf), negative before the batch; null without values. #}
{% macro metric_days_to_max(column, batch='') -%}
    max({{ days_from_batch(column, batch) }})
{%- endmacro %}
