-- All verdicts, including those that were replaced when a batch was checked again.
select
    run_id, check_id, model, batch, segment, column_name, check_name, detector, observed,
    lower_bound, upper_bound, status, severity, message, evaluated_at, true as latest
from dq_results
union all
select distinct
    run_id, check_id, model, batch, segment, column_name, check_name, detector, observed,
    lower_bound, upper_bound, status, severity, message, evaluated_at, false as latest
from dq_result_history
