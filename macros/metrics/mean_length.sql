{# Mean length of the values in characters. Null without values. #}
{% macro metric_mean_length(column) %} avg(length({{ column }})) {% endmacro %}
