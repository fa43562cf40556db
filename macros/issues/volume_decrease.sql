{# A share of the rows is left. Issue 5 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_volume_decrease(fraction) %}
    slice(array(value), 1, case when u < {{ fraction }} then 1 else 0 end)
{% endmacro %}
