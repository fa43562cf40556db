-- Findings that are not resolved, the worst and newest first, with the file and line of their check.
select
    f.finding_id, f.model, f.column_name, f.check_name, f.check_id, f.status, f.severity, f.state,
    f.message, f.first_batch, f.last_batch, f.batch_count, f.opened_at, f.last_seen_at,
    f.muted_until, f.assigned_to, f.author, f.reason, f.impact, c.owner, c.file, c.line, c.tags
from dq_findings as f
left join dq_checks as c on c.check_id = f.check_id and c.valid_to is null
where f.resolved_at is null
order by
    case f.status when 'error' then 1 when 'fail' then 2 when 'warn' then 3 else 4 end,
    f.last_seen_at desc, f.batch_count desc
