{# Shannon entropy of the values (or tuples) in nats. Range [0, ln(number of distinct values)]; null without values. #}
{% macro metric_entropy(column) -%}
    frequency(ln(sum(n)) - sum(n * ln(n)) / sum(n), {{ ([column] + varargs | list) | join(", ") }})
{%- endmacro %}
