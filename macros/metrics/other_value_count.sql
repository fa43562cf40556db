{# Number of distinct values that are not among those listed. Range [0, inf); null without values. #}
{% macro metric_other_value_count(column) -%}
    frequency(count_if(not value in ({% for v in varargs %}cast({{ v }} as string){{ ", " if not loop.last }}{% endfor %})), {{ column }})
{%- endmacro %}
