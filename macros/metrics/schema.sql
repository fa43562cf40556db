{# The columns of the model with their types, as JSON in their order; as a number, how many there are. #}
{% macro metric_schema() %} named_struct('value', fact('column_count'), 'text', fact('schema')) {% endmacro %}
