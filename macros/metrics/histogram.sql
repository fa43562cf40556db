{# How often each value (or tuple) occurs, as JSON: the 100 most frequent ones under "values", the rows of all others under "other"; as a number, how many distinct values there are. Null without values. #}
{% macro metric_histogram(column) -%}
    {%- set top = "max_by(struct(value, n), struct(n, value), 100)" -%}
    frequency(
        case when count(*) > 0 then named_struct(
            'value', count(*),
            'text', to_json(named_struct(
                'values', map_from_entries({{ top }}),
                'other', sum(n) - aggregate({{ top }}, cast(0 as bigint), (total, e) -> total + e.n)
            ))
        ) end,
        {{ ([column] + varargs | list) | join(", ") }}
    )
{%- endmacro %}
