{# Sample variance (n - 1). Range [0, inf); null below two values. #}
{% macro metric_variance(column) %} var_samp({{ column }}) {% endmacro %}
