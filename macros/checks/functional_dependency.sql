{# Rows with the same determinant (a column or a list) have the same value; rows that lack any of them pass. #}
{% macro check_functional_dependency(column, determinant) -%}
    dependency_violations({{ column }}, {{ determinant if determinant is string else "determinant => [" ~ determinant | join(", ") ~ "]" }}) = 0
{%- endmacro %}
