{# Share of rows whose value (or tuple) has no match among the keys of another check model, source or table; rows with a null do not count as such. Range [0, 1]; null without rows. #}
{% macro metric_orphan_ratio(column, relation, key) -%}
    count_if(is_orphan({{ column }}, {{ relation }}, {{ key }})) / nullif(count(*), 0)
{%- endmacro %}
