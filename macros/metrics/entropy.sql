{# Shannon entropy of the values (or tuples) in nats. Range [0, ln(number of distinct values)], exactly 0 for a single value; null without values. #}
{% macro metric_entropy(column) -%}
    {#- Of a single value the two terms are equal, but for the last digit of a division. #}
    frequency(
        case when count(*) = 1 then 0 else ln(sum(n)) - sum(n * ln(n)) / sum(n) end,
        {{ ([column] + varargs | list) | join(", ") }}
    )
{%- endmacro %}
