{# Mean number of digits in the values as text. Range [0, inf); null without values. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_digit_len(column) %} avg(regexp_count(cast({{ column }} as string), '[0-9]')) {% endmacro %}
