{# Approximate number of distinct values, by a HyperLogLog sketch; relative_sd is its relative standard error (1.6% where it is left out). Range [0, inf). #}
{% macro metric_approx_count_distinct(column, relative_sd=none) -%}
    approx_count_distinct({{ column }}{{ ", " ~ relative_sd if relative_sd is not none }})
{%- endmacro %}
