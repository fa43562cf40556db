{# At least `share` of the orders are paid. #}
{% macro check_mostly_paid(status, share=0.5) %}
    count_if({{ status }} = 'paid') / nullif(count(*), 0) >= {{ share }}
{% endmacro %}
