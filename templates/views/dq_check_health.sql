-- How often each check that is not gone found something, and how often its verdict changed (flakiness).
-- A batch that was repaired and checked again counts as one in which the check found something.
with attempts as (
    select check_id, model, column_name, check_name, batch, status
    from dq_results
    union all
    select check_id, model, column_name, check_name, batch, status
    from dq_result_history
    where status in ('warn', 'fail')
),

verdicts as (
    select
        r.check_id, r.model, r.column_name, r.check_name, r.batch, b.batch_start,
        max(case when r.status = 'pass' then 0 else 1 end) as bad
    from attempts as r
    left join dq_checks as c on c.check_id = r.check_id and c.valid_to is null
    left join dq_batches as b on b.model = r.model and b.batch = r.batch
    where
        r.status <> 'skipped'
        and (c.check_id is not null or r.check_id not in (select g.check_id from dq_checks as g))
    group by r.check_id, r.model, r.column_name, r.check_name, r.batch, b.batch_start
),

changes as (
    select
        *,
        lag(bad) over (partition by check_id order by batch_start nulls first, batch) as before
    from verdicts
)

select
    check_id, model, column_name, check_name,
    count(*) as batches,
    sum(bad) as findings,
    sum(case when before <> bad then 1 else 0 end) as flips,
    sum(case when before <> bad then 1 else 0 end) * 1.0 / count(*) as flakiness
from changes
group by check_id, model, column_name, check_name
