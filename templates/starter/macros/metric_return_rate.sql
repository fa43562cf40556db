{# Share of the orders that came back, in [0, 1]; null without orders. #}
{% macro metric_return_rate(status) %}
    count_if({{ status }} = 'returned') / nullif(count(*), 0)
{% endmacro %}
