-- The share of verdicts that passed, by check model and batch; skipped verdicts do not count.
select
    r.model, r.batch, b.batch_start,
    count(*) as verdicts,
    count(*) filter (where r.status = 'pass') as passed,
    count(*) filter (where r.status = 'pass') * 1.0 / count(*) as pass_rate
from dq_results as r
left join dq_batches as b on b.model = r.model and b.batch = r.batch
where r.status <> 'skipped'
group by r.model, r.batch, b.batch_start
