{# A share of the values comes from the neighboring column of the same type. Issue 1 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_schema_change(fraction) %}
    array(case when u < {{ fraction }} then neighbor else value end)
{% endmacro %}
