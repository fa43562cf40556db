{# Mutual information of two columns in nats, over rows in which both have a value. Range [0, inf); null without such rows. #}
{% macro metric_mutual_information(column, other) -%}
    entropy({{ column }}) filter (where {{ column }} is not null and {{ other }} is not null)
    + entropy({{ other }}) filter (where {{ column }} is not null and {{ other }} is not null)
    - entropy({{ column }}, {{ other }}) filter (where {{ column }} is not null and {{ other }} is not null)
{%- endmacro %}
