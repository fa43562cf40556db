-- What each check model costs per day of runs.
select
    model,
    cast(started_at as date) as day,
    count(*) as runs,
    sum(seconds) as seconds,
    sum(scan_seconds) as scan_seconds,
    sum(scans) as scans,
    sum(rows) as rows_scanned,
    sum(bytes) as bytes_read,
    sum(batches) as batches
from dq_model_runs
group by model, cast(started_at as date)
