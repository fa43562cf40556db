{# A share of the characters becomes another one of the same kind: digit, lower case, upper case. Issue 7 of "Auto-Validate by History" (KDD 2023), Appendix B. #}
{% macro issue_character_perturbation(fraction) %}
    array(array_join(transform(regexp_extract_all(value, '(?s).', 0), (c, i) -> case
        when pmod(xxhash64(seed, i), 1000000) >= {{ fraction }} * 1000000 then c
        when c rlike '[0-9]' then cast(pmod(ascii(c) - 47 + pmod(xxhash64(seed, i, 1), 9), 10) as string)
        when c rlike '[a-z]' then chr(97 + pmod(ascii(c) - 96 + pmod(xxhash64(seed, i, 1), 25), 26))
        when c rlike '[A-Z]' then chr(65 + pmod(ascii(c) - 64 + pmod(xxhash64(seed, i, 1), 25), 26))
        else c
    end), ''))
{% endmacro %}
