{# Mean length of the values in characters. Range [0, inf); null without values. #}
{% macro metric_mean_length(column) %} avg(length({{ column }})) {% endmacro %}
