{# Two metrics are equal up to `tolerance` (absolute) or a share of the second one (`relative`), whichever is larger. #}
{% macro check_reconciles(value, other, tolerance=0, relative=0) -%}
    {#- The difference of two decimals of 38 digits has a digit less than they have: Spark rounds it. -#}
    {{ value }} = {{ other }}
    {%- set difference = 'abs(try_subtract(' ~ value ~ ', ' ~ other ~ '))' %}
    {%- set is_relative = relative | string != '0' %}
    {%- set limit = 'greatest(' ~ tolerance ~ ', abs(' ~ relative ~ ' * ' ~ other ~ '))' if is_relative else tolerance %}
    {%- if limit | string != '0' %}
        {#- A difference that its type cannot hold is null, or below 0; what is infinite or NaN is within no limit. -#}
        {{- ' ' }}or ({{ difference }} is not null and {{ difference }} between 0 and {{ limit }}
        {%- if is_relative %} and {{ limit }} < double('infinity'){% endif %})
    {%- endif %}
{%- endmacro %}
