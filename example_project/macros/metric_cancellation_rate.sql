{#
  Share of the flights that never left, in [0, 1]; null without rows.
  `departure` is the time of departure, null for a flight that was cancelled.
#}
{% macro metric_cancellation_rate(departure) %}
    count_if({{ departure }} is null) / nullif(count(*), 0)
{% endmacro %}
