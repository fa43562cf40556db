{# Two metrics are equal up to `tolerance` (absolute) or a share of the second one (`relative`), whichever is larger. #}
{% macro check_reconciles(value, other, tolerance=0, relative=0) -%}
    {#- The difference of two decimals of 38 digits has a digit less than they have: Spark rounds it. -#}
    {{ value }} = {{ other }}
    {%- if (tolerance | string, relative | string) != ('0', '0') %} or abs({{ value }} - {{ other }}) <= greatest({{ tolerance }}, {{ relative }} * abs({{ other }})){% endif %}
{%- endmacro %}
