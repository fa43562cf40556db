{# The 200 most frequent pattern strings of the values (each digit as d, each letter as l, each punctuation character as a full stop), as `value_profile` gives values. Null without values. After "Auto-Validate by History" (KDD 2023), Appendix C. #}
{% macro metric_pattern_profile(column) -%}
    {%- set text = "cast(" ~ column ~ " as string)" -%}
    {%- set marked = "regexp_replace(regexp_replace(" ~ text ~ ", '[!-~&&[^A-Za-z0-9]]', '.'), '[A-Za-z]', 'l')" -%}
    value_profile(regexp_replace({{ marked }}, '[0-9]', 'd'))
{%- endmacro %}
