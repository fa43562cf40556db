{# Share of the most frequent type that values read as (integral, fractional, boolean, timestamp or string), among rows with a value. Range [0.2, 1]; null without values. After Deequ: DataType. #}
{% macro metric_type_consistency(column) -%}
    greatest(
        type_count({{ column }}, 'integral'), type_count({{ column }}, 'fractional'),
        type_count({{ column }}, 'boolean'), type_count({{ column }}, 'timestamp'),
        count({{ column }}) - type_count({{ column }}, 'integral') - type_count({{ column }}, 'fractional')
        - type_count({{ column }}, 'boolean') - type_count({{ column }}, 'timestamp')
    ) / nullif(count({{ column }}), 0)
{%- endmacro %}
