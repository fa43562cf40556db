{# How many rows lie in each of `bins` equal parts of the range from low to high, as `histogram` writes it: 1 is the first part, 0 what lies below, bins + 1 what lies at high or above. Null without values. #}
{% macro metric_histogram_binned(column, low, high, bins=10) -%}
    histogram(width_bucket({{ column }}, {{ low }}, {{ high }}, {{ bins }}))
{%- endmacro %}
