{# Number of distinct values that are not among those listed; to a listed number, 1, 1.0 and 1.00 are the same. Range [0, inf); null without rows. #}
{% macro metric_other_value_count(column) -%}
    {%- set numbers = varargs | map("float", none) | select("number") | list -%}
    case when count(*) > 0 then frequency(count_if(not (
        value in ({% for v in varargs %}cast({{ v }} as string){{ ", " if not loop.last }}{% endfor %})
        {%- if numbers %}
        {#- Decimals are rounded, and doubles tell no large whole numbers apart. #}
        or coalesce(try_cast(value as decimal(38, 10)) in (null{% for v in varargs if v | float(none) is not none %}, {{ v }}{% endfor %})
            and try_cast(value as double) in (null{% for v in varargs if v | float(none) is not none %}, {{ v }}{% endfor %}), false)
        {%- endif %}
    )), {{ column }}) end
{%- endmacro %}
