{# At least `share` of the known values of the delay `column` are at most `minutes`. #}
{% macro check_on_time(column, minutes=15, share=0.8) %}
    count_if({{ column }} <= {{ minutes }}) / nullif(count({{ column }}), 0) >= {{ share }}
{% endmacro %}
