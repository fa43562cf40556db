{# How well naive Bayes predicts the column from others: weighted F1 (or 'precision', 'recall') on held-out rows. Range [0, 1]; null without rows to learn from or to test. Deequ: Predictability. #}
{% macro metric_predictability(column, from, measure="'f1'", buckets=262144) -%}
    naive_bayes({{ column }}, {{ from }}, {{ measure }}, {{ buckets }})
{%- endmacro %}
