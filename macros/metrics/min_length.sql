{# Length in characters of the shortest value. Null without values. #}
{% macro metric_min_length(column) %} min(length({{ column }})) {% endmacro %}
