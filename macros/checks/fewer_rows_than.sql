{# The model has fewer rows than another check model, source or table (in the same batch, where both have batches). #}
{% macro check_fewer_rows_than(relation) %} row_count() < row_count_of({{ relation }}) {% endmacro %}
