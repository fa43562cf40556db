{# The model has as many rows as another check model, source or table (in the same batch, where both have batches). #}
{% macro check_equal_row_count(relation) %} row_count() = row_count_of({{ relation }}) {% endmacro %}
