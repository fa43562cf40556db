{# Length in characters of the shortest value. Range [0, inf); null without values. #}
{% macro metric_min_length(column) %} min(length({{ column }})) {% endmacro %}
