{# Sample standard deviation (n - 1), as stddev in Spark. Range [0, inf); null below two values. #}
{% macro metric_stddev(column) %} stddev_samp({{ column }}) {% endmacro %}
