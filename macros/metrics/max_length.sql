{# Length in characters of the longest value. Null without values. #}
{% macro metric_max_length(column) %} max(length({{ column }})) {% endmacro %}
