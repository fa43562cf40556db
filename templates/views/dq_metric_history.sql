-- What each check saw in each batch, and the bounds that it was compared with.
select
    r.model, r.column_name, r.check_name, r.check_id, r.detector, r.segment, r.batch,
    b.batch_start, b.batch_end, r.observed, r.lower_bound, r.upper_bound, r.score, r.status
from dq_results as r
left join dq_batches as b on b.model = r.model and b.batch = r.batch
where r.observed is not null
