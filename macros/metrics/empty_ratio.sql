{# Share of rows whose value, as text, is empty or only spaces; nulls are not empty. Range [0, 1]; null without rows. #}
{% macro metric_empty_ratio(column) %} count_if(trim(cast({{ column }} as string)) = '') / nullif(count(*), 0) {% endmacro %}
