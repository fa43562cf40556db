{# What most values read as: integral, fractional, boolean, timestamp (dates too) or string; the first of these where two are as frequent. Null without values. After Deequ: DataType. #}
{% macro metric_data_type(column) -%}
    {%- set types = ["integral", "fractional", "boolean", "timestamp"] -%}
    case
        {% for type in types -%}
        when type_count({{ column }}, '{{ type }}') > 0
            and type_count({{ column }}, '{{ type }}') / nullif(count({{ column }}), 0) >= type_consistency({{ column }})
            then '{{ type }}'
        {% endfor -%}
        when count({{ column }}) > 0 then 'string'
    end
{%- endmacro %}
