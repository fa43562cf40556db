-- How many columns of each check model have a check.
select
    model, owner,
    count(*) as columns,
    count(*) filter (where checks > 0) as checked,
    count(*) filter (where checks > 0) * 1.0 / count(*) as coverage
from dq_columns
where valid_to is null
group by model, owner
