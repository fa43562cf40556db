{# Every value matches a pattern such as '<letter>{3}-<digit>+' as a whole; nulls pass. #}
{% macro check_pattern(column, pattern) -%}
    compliance({{ column }} is null or {{ column }} rlike {{ pattern_regex(pattern) }}) = 1
{%- endmacro %}
