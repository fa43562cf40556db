{# Number of rows of another check model, source or table: of the same batch, where both have batches. Range [0, inf). #}
{% macro metric_row_count_of(relation) %} relation_rows({{ relation }}) {% endmacro %}
