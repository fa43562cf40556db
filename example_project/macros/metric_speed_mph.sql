{#
  Mean speed in the air in miles an hour, weighted by time: all miles over all hours of the flights
  that landed. Null where none did. `minutes` is the time in the air.
#}
{% macro metric_speed_mph(miles, minutes) %}
    60 * sum(case when {{ minutes }} is not null then {{ miles }} end) / nullif(sum({{ minutes }}), 0)
{% endmacro %}
