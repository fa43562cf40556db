{# Mean number of letters A to Z, of both cases, in the values as text. Range [0, inf); null without values. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_char_len(column) %} avg(regexp_count(cast({{ column }} as string), '[A-Za-z]')) {% endmacro %}
