-- The worst verdict of each check model on each day of its batches.
select
    r.model,
    cast(b.batch_start as date) as day,
    count(distinct r.batch) as batches,
    count(*) filter (where r.status in ('fail', 'error')) as failures,
    count(*) filter (where r.status = 'warn') as warnings,
    count(*) filter (where r.status = 'no_data') as without_data,
    case
        when count(*) filter (where r.status = 'error') > 0 then 'error'
        when count(*) filter (where r.status = 'fail') > 0 then 'fail'
        when count(*) filter (where r.status in ('warn', 'no_data')) > 0 then 'warn'
        else 'pass'
    end as health
from dq_results as r
inner join dq_batches as b on b.model = r.model and b.batch = r.batch
where b.batch_start is not null
group by r.model, cast(b.batch_start as date)
