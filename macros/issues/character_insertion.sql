{# Before each character, a random one of the alphabet is inserted with a probability. Issue 8 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_character_insertion(fraction, alphabet) %}
    array(array_join(transform(regexp_extract_all(value, '(?s).', 0), (c, i) -> case
        when pmod(xxhash64(seed, i), 1000000) < {{ fraction }} * 1000000
            then concat(substr({{ alphabet }}, cast(1 + pmod(xxhash64(seed, i, 1), length({{ alphabet }})) as int), 1), c)
        else c
    end), ''))
{% endmacro %}
