{# Number of distinct values (or tuples) over the number of rows with a value. Range (0, 1]; null without values. Deequ: Distinctness. #}
{% macro metric_distinctness(column) -%}
    frequency(count(*) / sum(n), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
