{# The largest values are left, a share of all. Issue 6 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_distribution_last(fraction) %}
    slice(array(value), 1, case when position > 1 - {{ fraction }} then 1 else 0 end)
{% endmacro %}
