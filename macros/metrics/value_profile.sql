{# The 200 most frequent values (of equally frequent ones, any, but the same in each batch) with their numbers of rows, and the number of rows with other values, as JSON. Values of more than 64 characters are shortened to 32 characters and a hash, and with `hashed` all values are hashed (with the project's key). Null without values. Monitors compare batches by it; it is stored in dq_distributions. #}
{% macro metric_value_profile(column, hashed=false) -%}
    {%- set top = "max_by(struct(value, n), struct(n, xxhash64(value), value), 200)" -%}
    {%- set short = "left(sha2(concat('{project key}', e.value), 256), 32)" if (hashed | string | lower) == "true" else "if(length(e.value) > 64, concat(left(e.value, 32), '#', hex(xxhash64(e.value))), e.value)" -%}
    frequency(
        case when count(*) > 0 then to_json(named_struct(
            'values', transform({{ top }}, e -> {{ short }}),
            'counts', transform({{ top }}, e -> e.n),
            'other', sum(n) - aggregate({{ top }}, cast(0 as bigint), (total, e) -> total + e.n)
        )) end,
        {{ column }}
    )
{%- endmacro %}
