{# Number of values beyond the first one of each determinant (a column or a list): 0 if the determinant determines the value. Rows that lack any of them do not count. Range [0, inf); null without rows that count. #}
{% macro metric_dependency_violations(column, determinant) -%}
    {%- set keys = [determinant] if determinant is string else determinant -%}
    {%- set there -%}
        {%- for key in keys + [column] %}({{ key }}) is not null{{ " and " if not loop.last }}{% endfor -%}
    {%- endset -%}
    frequency(case when count(*) > 0 then count(*) end, {{ keys | join(", ") }}, {{ column }}) filter (where {{ there }})
    - frequency(count(*), {{ keys | join(", ") }}) filter (where {{ there }})
{%- endmacro %}
