{# A share of the texts changes its case: `to` is upper or lower. Issue 3 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_casing_change(to, fraction) %}
    array(case when u < {{ fraction }} then {{ to }}(value) else value end)
{% endmacro %}
