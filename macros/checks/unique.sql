{# No value (or tuple) occurs twice; rows without any value pass. #}
{% macro check_unique(column) -%}
    duplicate_count({{ ([column] + varargs | list) | join(", ") }}) = 0
{%- endmacro %}
