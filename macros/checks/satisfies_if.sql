{# Every row that meets the first condition also meets the second. #}
{% macro check_satisfies_if(premise, condition) -%}
    compliance(not coalesce({{ premise }}, false) or coalesce({{ condition }}, false)) = 1
{%- endmacro %}
