{# Days from the batch to the earliest date or time of a column; the batch is that of `batch`, an expression that is a date or time, else 1970-01-01. Range (-inf, inf), negative before the batch; null without values. #}
{% macro metric_days_to_min(column, batch='') -%}
    min({{ days_from_batch(column, batch) }})
{%- endmacro %}

{# Days from the batch to one value. #}
{% macro days_from_batch(column, batch) -%}
    (unix_micros(cast({{ column }} as timestamp))
        {%- if batch %} - coalesce(unix_micros(try_cast({{ batch }} as timestamp)), 0){% endif %}) / 86400000000
{%- endmacro %}
