{# Every row occurs several times. Issue 5 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_volume_increase(factor) %}
    array_repeat(value, {{ factor }})
{% endmacro %}
