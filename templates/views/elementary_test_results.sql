-- Verdicts in the shape of elementary's table of this name.
select
    concat(r.run_id, '.', r.check_id, '.', r.batch, '.', coalesce(r.segment, '')) as id,
    r.check_id as test_unique_id,
    concat('model.', r.model) as model_unique_id,
    r.run_id as invocation_id,
    r.evaluated_at as detected_at,
    r.model as table_name,
    r.column_name,
    case when r.detector = 'constraint' then 'dbt_test' else 'anomaly_detection' end as test_type,
    r.detector as test_sub_type,
    r.message as test_results_description,
    c.owner as owners,
    r.check_name as test_name,
    r.severity,
    case r.status when 'no_data' then 'warn' else r.status end as status,
    c.expression as test_results_query
from dq_results as r
left join dq_checks as c on c.check_id = r.check_id and c.valid_to is null
