{# Hours from the latest value to the start of the run; dates count from midnight UTC. In models with batches, its checks are about the newest batch, which each run checks again. Range (-inf, inf), negative for values in the future; null without values. #}
{% macro metric_freshness(column) -%}
    (unix_micros(fact('run_started')) - unix_micros(cast(max({{ column }}) as timestamp_ltz))) / 3600000000
{%- endmacro %}
