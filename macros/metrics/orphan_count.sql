{# Number of rows whose value (or tuple) has no match among the keys of another check model, source or table; rows with a null do not count as such. Range [0, inf); null without rows. #}
{% macro metric_orphan_count(column, relation, key) -%}
    case when count(*) > 0 then count_if(is_orphan({{ column }}, {{ relation }}, {{ key }})) end
{%- endmacro %}
