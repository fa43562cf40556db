{# Every value (or tuple) is among the keys of another check model, source or table; nulls pass. #}
{% macro check_references(column, relation, key) -%}
    orphan_count({{ column }}, {{ relation }}, {{ key }}) = 0
{%- endmacro %}
