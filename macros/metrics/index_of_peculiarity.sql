{# How unusual the trigrams of a column's texts are, given its bigrams: garbage and typos raise it. form 'batch' (default): root mean square of 1/2 (ln n(xy) + ln n(yz)) - ln n(xyz) over all trigrams xyz of the batch; 'text': mean over texts of each text's root mean square, which reads the column twice. The first 1,000 characters of a text count. Range [0, inf); null where no text has three characters. After Redyuk et al. (EDBT 2021), section 3.1. #}
{% macro metric_index_of_peculiarity(column, form="'batch'") -%}
    {%- if form == "'text'" -%}
    frequency(sum(n * peculiarity) / sum(n), trigrams({{ column }}, {{ form }}))
    {%- else -%}
    frequency(sqrt(sum(n * peculiarity * peculiarity) / sum(n)), trigrams({{ column }}, {{ form }}))
    {%- endif -%}
{%- endmacro %}
