{# Every row has a value in each column, and no tuple occurs twice. #}
{% macro check_primary_key(column) -%}
    {% for c in [column] + varargs | list %}completeness({{ c }}) = 1 and {% endfor %}
    duplicate_count({{ ([column] + varargs | list) | join(", ") }}) = 0
{%- endmacro %}
