{# A share of the texts gets a space at the end. Issue 10 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_padding_trailing(fraction) %}
    array(case when u < {{ fraction }} then concat(value, ' ') else value end)
{% endmacro %}
