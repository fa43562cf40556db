{# Every value of the histogram of the column is one of those listed; nulls pass. #}
{% macro check_histogram_values(column) -%}
    other_value_count({{ column }}, {{ varargs | join(", ") }}) = 0
{%- endmacro %}
