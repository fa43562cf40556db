{# Number of values that read as integral, fractional, boolean or timestamp (date or timestamp); each value is of one type, or a string. Range [0, inf). After Deequ: DataType. #}
{% macro metric_type_count(column, type) -%}
    {%- set patterns = {
        "integral": "^[+-]? ?[0-9]+$",
        "fractional": "^[+-]? ?[0-9]+([.][0-9]+|([.][0-9]+)?[eE][+-]?[0-9]+)$",
        "boolean": "^(true|false)$",
        "timestamp": "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?( ?(Z|[+-][0-9]{2}:?[0-9]{2}))?)?$",
    } -%}
    count_if(cast({{ column }} as string) rlike '{{ patterns[type | replace("'", "")] }}')
{%- endmacro %}
