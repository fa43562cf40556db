{# Number of values that read as integral, fractional, boolean or timestamp (date or timestamp); each value is of one type, or a string. Range [0, inf). After Deequ: DataType. #}
{% macro metric_type_count(column, type) -%}
    {%- set patterns = {
        "integral": "^[+-]? ?[0-9]+$",
        "fractional": "^[+-]? ?([0-9]+[eE][+-]?[0-9]+|([0-9]+[.][0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?)$",
        "boolean": "^(true|false)$",
        "timestamp": "^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?( ?(Z|[+-][0-9]{2}:?[0-9]{2}))?)?$",
    } -%}
    {#- What every match begins with, which is told sooner than by the pattern. #}
    {%- set beginnings = {
        "integral": "{0} >= ' ' and {0} < ':'",
        "fractional": "{0} >= ' ' and {0} < ':'",
        "boolean": "(startswith({0}, 'true') or startswith({0}, 'false'))",
        "timestamp": "{0} >= '0' and {0} < ':' and substring({0}, 5, 1) = '-'",
    } -%}
    {%- set kind = type | replace("'", "") -%}
    {%- set text = "cast(" ~ column ~ " as string)" -%}
    count_if({{ beginnings[kind].format(text) }} and {{ text }} rlike '{{ patterns[kind] }}')
{%- endmacro %}
