{# Each character is deleted with a probability. Issue 9 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_character_deletion(fraction) %}
    array(array_join(transform(regexp_extract_all(value, '(?s).', 0), (c, i) -> case
        when pmod(xxhash64(seed, i), 1000000) < {{ fraction }} * 1000000 then '' else c
    end), ''))
{% endmacro %}
