{# Length in characters of the longest value. Range [0, inf); null without values. #}
{% macro metric_max_length(column) %} max(length({{ column }})) {% endmacro %}
