{# Mean number of ASCII punctuation characters in the values as text. Range [0, inf); null without values. After "Auto-Validate by History" (KDD 2023). #}
{% macro metric_punc_len(column) %} avg(regexp_count(cast({{ column }} as string), '[!-~&&[^A-Za-z0-9]]')) {% endmacro %}
