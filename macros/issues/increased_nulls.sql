{# A share of the values becomes the filler: '' for texts and 0 for numbers, as in issue 4 of "Auto-Validate by History" (KDD 2023), Appendix B, and null. #}
{% macro issue_increased_nulls(filler, fraction) %}
    array(case when u < {{ fraction }} then {{ filler }} else value end)
{% endmacro %}
