-- The verdicts of each check on its newest batch, with its owner; without checks that are gone.
with ranked as (
    select
        r.*,
        b.batch_start,
        rank() over (
            partition by r.check_id order by b.batch_start desc nulls last, r.batch desc
        ) as place
    from dq_results as r
    left join dq_batches as b on b.model = r.model and b.batch = r.batch
)
select
    r.model, r.column_name, r.check_name, r.check_id, r.segment, r.batch, r.batch_start, r.status,
    r.severity, r.observed, r.lower_bound, r.upper_bound, r.message, r.evaluated_at,
    c.owner, c.file, c.line, c.tags
from ranked as r
left join dq_checks as c on c.check_id = r.check_id and c.valid_to is null
where
    r.place = 1
    and (c.check_id is not null or r.check_id not in (select g.check_id from dq_checks as g))
