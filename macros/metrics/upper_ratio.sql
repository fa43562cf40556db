{# Share of the characters of the values, as text, that are letters A to Z. Range [0, 1], 0 without characters; null without values. #}
{% macro metric_upper_ratio(column) %} coalesce(sum(regexp_count(cast({{ column }} as string), '[A-Z]')) / nullif(sum(length(cast({{ column }} as string))), 0), case when count({{ column }}) > 0 then 0 end) {% endmacro %}
