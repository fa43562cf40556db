{# Mutual information of two columns in nats, over rows in which both have a value (of a list of columns, each of them). Range [0, inf); null without such rows. #}
{% macro metric_mutual_information(column, other) -%}
    {%- set others = [other] if other is string else other | list -%}
    {%- set both = "filter (where " ~ ([column] + others) | join(" is not null and ") ~ " is not null)" -%}
    {%- set others = others | join(", ") -%}
    {%- set found = "entropy(" ~ column ~ ") " ~ both ~ " + entropy(" ~ others ~ ") " ~ both
        ~ " - entropy(" ~ column ~ ", " ~ others ~ ") " ~ both -%}
    {#- Entropies of columns that say nothing of each other differ by rounding. #}
    case when {{ found }} < 0 then 0 else {{ found }} end
{%- endmacro %}
