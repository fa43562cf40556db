{# Two metrics are equal up to `tolerance` (absolute) or a share of the second one (`relative`), whichever is larger. #}
{% macro check_reconciles(value, other, tolerance=0, relative=0) -%}
    {{ value }} = {{ other }} or abs({{ value }} - {{ other }}) <= greatest({{ tolerance }}, {{ relative }} * abs({{ other }}))
{%- endmacro %}
