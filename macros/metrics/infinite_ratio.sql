{# Share of rows whose number is infinite, of either sign. Range [0, 1]; null without rows. #}
{% macro metric_infinite_ratio(column) %} count_if(abs({{ column }}) = double('infinity')) / nullif(count(*), 0) {% endmacro %}
