{# The columns of the model with their types, as JSON in their order; the number is that of the columns. #}
{% macro metric_schema() %} named_struct('value', fact('column_count'), 'text', fact('schema')) {% endmacro %}
