{# Every row that meets the first condition also meets the second. #}
{% macro check_satisfies_if(premise, condition) -%}
    compliance(case when {{ premise }} then {{ condition }} else true end) = 1
{%- endmacro %}
