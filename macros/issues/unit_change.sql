{# A share of the numbers is multiplied by a factor. Issue 2 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_unit_change(factor, fraction) %}
    array(case when u < {{ fraction }} then value * {{ factor }} else value end)
{% endmacro %}
