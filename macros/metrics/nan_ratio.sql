{# Share of rows whose number is NaN, which is a value to Spark. Range [0, 1]; null without rows. #}
{% macro metric_nan_ratio(column) %} count_if(isnan({{ column }})) / nullif(count(*), 0) {% endmacro %}
