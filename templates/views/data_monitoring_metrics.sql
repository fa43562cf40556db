-- Metric values in the shape of elementary's table of this name.
select
    concat(
        m.model, '.', coalesce(m.column_name, ''), '.', m.metric, '(', coalesce(m.parameters, ''), ').',
        m.scope, '.', m.batch, case when m.segment is null then '' else concat('/', m.segment) end
    ) as id,
    m.model as full_table_name,
    m.column_name,
    m.metric as metric_name,
    m.metric as metric_type,
    m.value as metric_value,
    b.batch_start as bucket_start,
    b.batch_end as bucket_end,
    m.computed_at as updated_at,
    m.segment as dimension,
    m.segment as dimension_value
from dq_metrics as m
left join dq_batches as b on b.model = m.model and b.batch = m.batch
where m.value is not null
