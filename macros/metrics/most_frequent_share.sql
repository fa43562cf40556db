{# Share of the most frequent value (or tuple) among all rows, with or without a value. Range [0, 1]; null without rows. As in Redyuk et al. (EDBT 2021), section 4. #}
{% macro metric_most_frequent_share(column) -%}
    coalesce(frequency(max(n), {{ ([column] + varargs | list) | join(", ") }}), 0) / nullif(count(*), 0)
{%- endmacro %}
