{# Mutual information of two columns in nats, over rows in which both have a value. Range [0, inf); null without such rows. #}
{% macro metric_mutual_information(column, other) -%}
    {%- set both = "filter (where " ~ column ~ " is not null and " ~ other ~ " is not null)" -%}
    {%- set found = "entropy(" ~ column ~ ") " ~ both ~ " + entropy(" ~ other ~ ") " ~ both
        ~ " - entropy(" ~ column ~ ", " ~ other ~ ") " ~ both -%}
    {#- Entropies of columns that say nothing of each other differ by rounding. #}
    case when {{ found }} < 0 then 0 else {{ found }} end
{%- endmacro %}
