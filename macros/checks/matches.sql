{# Some part of every value matches the regular expression (anchor it with ^ and $); nulls pass. #}
{% macro check_matches(column, regex) -%}
    compliance({{ column }} is null or {{ column }} rlike {{ regex }}) = 1
{%- endmacro %}
