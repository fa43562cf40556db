"""The warehouse tables that dqsql writes: the contract with BI. Columns are only ever added."""

from __future__ import annotations

from dqsql.model.table import Table, flag, real, reals, text, texts, time, whole

# Columns that mean the same wherever they stand.
_RUN_ID = text("run_id", "The run that wrote the row; joins `dq_runs`.")
_MODEL = text("model", "Name of the check model; joins `dq_models`.")
_BATCH = text("batch", "Name of the batch as `batch_by` gives it: `2024-01-31`, `2024-01-31 10`.")
_SEGMENT = text("segment", "Values of `segment_by` (`carrier=AA`); null: the whole batch.")
_CHECK_ID = text("check_id", "The check; joins `dq_checks`. Keeps its value over runs.")
_COLUMN = text("column_name", "The column that the row is about; null: the whole model.")
_CHECK_NAME = text("check_name", "The check as it is written, or its setting `name`.")
_DETECTOR = text(
    "detector",
    "What decided: `constraint` (a person wrote the bound), `anomaly`, `avh`, `novelty`,"
    " `pattern`, `schema` ..",
)
_SEVERITY = text(
    "severity", "`error`: the run exits with 1 if the check fails; `warn`: it does not."
)
_OWNER = text("owner", "Owner of the check model, from its settings.")
_TAGS = texts("tags", "Tags, from the settings.")
_DESCRIPTION = text("description", "Description, from the settings.")
_VALID_FROM = time("valid_from", "Start of the first run that saw this version.")
_VALID_TO = time("valid_to", "Start of the first run that no longer saw it; null: current.")
_PARAMETERS = text("parameters", "Arguments of the metric, and its `where`; null: none.")

RUNS = Table(
    "dq_runs",
    "One row for each run of `dqsql run` that checked at least one model.",
    (
        text("run_id", "Identifies the run (a UUID)."),
        text("project", "Name of the project."),
        text("target", "Target of the profile that was used."),
        text("arguments", "Arguments of the run, as JSON."),
        time("started_at", "When it began."),
        time("finished_at", "When all results were stored."),
        text("status", "`pass`, `fail` (exit code 1) or `error` (exit code 2)."),
        text("dqsql_version", "Version of dqsql."),
        text("spark_version", "Version of Spark."),
        text("git_sha", "Commit of the project's repository; null if there is none."),
        flag("ansi", "Whether Spark ran in ANSI mode."),
        whole("models", "Number of check models in the run."),
        whole("checks", "Number of their checks and monitors."),
        whole("batches", "Batches that were checked."),
        whole("scans", "Scans of source data."),
        whole("rows_scanned", "Rows of the checked batches."),
        whole("bytes_read", "Bytes that Spark read; null if unknown."),
        text("versions", "Versions of the tables when the run ended, as JSON."),
    ),
    keys=("run_id",),
)

MODELS = Table(
    "dq_models",
    "Check models, one row for each version (a slowly changing dimension).",
    (
        text("model", "Name of the check model."),
        text("path", "Its file, relative to the project."),
        _OWNER,
        _DESCRIPTION,
        _TAGS,
        text(
            "batch_by", "SQL expression that names the batch of a row; null: each run is a batch."
        ),
        texts("segment_by", "Columns that divide a batch into segments."),
        text(
            "checksum", "Hash of the model's text, with its annotations: macros are not part of it."
        ),
        _VALID_FROM,
        _VALID_TO,
    ),
    keys=("model", "valid_from"),
)

CHECKS = Table(
    "dq_checks",
    "Checks and monitors, one row for each version (a slowly changing dimension).",
    (
        text("check_id", "Identifies the check: model, column and a short form of the check."),
        _MODEL,
        _COLUMN,
        _CHECK_NAME,
        _DETECTOR,
        text("expression", "The annotation's expression."),
        text("where", "Predicate that restricts the rows; null: all rows."),
        _SEVERITY,
        _OWNER,
        _DESCRIPTION,
        _TAGS,
        text("file", "File that the check is written in."),
        whole("line", "Line in that file, from 1."),
        _VALID_FROM,
        _VALID_TO,
    ),
    keys=("check_id", "valid_from"),
)

BATCHES = Table(
    "dq_batches",
    "The ledger: batches that were checked. A batch without a row has not been checked.",
    (
        _MODEL,
        _BATCH,
        text(
            "status",
            "`accepted` (monitors learn from it), `flagged` (a check of severity error failed),"
            " `rejected` (by a person), `incomplete` (checked again by the next run) or `retired`"
            " (from an earlier `batch_by` of the model).",
        ),
        whole("rows", "Rows of the batch."),
        text(
            "fingerprint",
            "What made the batch and its cumulative metrics when it was checked, as JSON.",
        ),
        _RUN_ID,
        time(
            "checked_at",
            "Start of the run that checked it; runs that only check its age again do not count.",
        ),
        flag("counted", "Whether it belongs to the cumulative metrics of later batches."),
        whole("metrics", "Rows of the batch in `dq_metrics`; null: to be checked again."),
        whole("results", "Rows of the batch in `dq_results`; null: to be checked again."),
        whole("states", "Rows of the batch in the model's state table; null: to be checked again."),
        text("versions", "Versions of the tables that have these rows, as JSON."),
        time("batch_start", "When the batch begins; null if its name is not a time."),
        time("batch_end", "When the next batch would begin; null if the length is not known."),
        whole("quarantined", "Rows that were quarantined; null: rows were not split."),
        whole("uncomputed", "Verdicts of status `error`; later runs try these checks again."),
        time("grown_at", "Start of the run that first found about as many rows as it has now."),
        whole("grown_rows", "Rows of the batch then."),
        time(
            "lacked_at", "Start of a run that found ten elevenths at most; null: it has not grown."
        ),
        time(
            "judged_from",
            "When monitors judge it that wait until it has all of its rows; null: they do not.",
        ),
    ),
    keys=("model", "batch"),
)

METRICS = Table(
    "dq_metrics",
    "Values of metrics, one row for each batch and segment.",
    (
        _MODEL,
        _BATCH,
        _SEGMENT,
        _COLUMN,
        text("metric", "Name of the metric: `mean`, `null_rate`, `row_count` .."),
        _PARAMETERS,
        text("scope", "`delta`: of this batch; `cumulative`: of all batches up to it."),
        real("value", "The number (truth values as 0 and 1); null: nothing to measure, or a text."),
        text(
            "value_text", "The value of dates, texts, and decimals that no double holds; else null."
        ),
        whole("sample_size", "Rows of the batch and segment, with those that `where` leaves out."),
        _RUN_ID,
        time("computed_at", "Start of the run that computed it."),
    ),
    keys=("model", "batch", "segment", "column_name", "metric", "parameters", "scope"),
    partitions=("model",),
)

RESULTS = Table(
    "dq_results",
    "The latest verdict of each check on each batch and segment.",
    (
        _RUN_ID,
        _CHECK_ID,
        _MODEL,
        _BATCH,
        _SEGMENT,
        _COLUMN,
        _CHECK_NAME,
        _DETECTOR,
        real("observed", "The number that was judged."),
        text("observed_text", "What was judged, if it is not a number."),
        real(
            "lower_bound",
            "What the value must not be below, written or learned; null: no bound. With `>` the"
            " bound itself fails.",
        ),
        real(
            "upper_bound",
            "What the value must not be above, written or learned; null: no bound. With `<` the"
            " bound itself fails.",
        ),
        real("warn_lower_bound", "Smallest value that does not warn, if it differs."),
        real("warn_upper_bound", "Largest value that does not warn, if it differs."),
        real(
            "score",
            "How unusual, in the detector's own unit (standard deviations of `anomaly`); null"
            " for constraints.",
        ),
        text(
            "status",
            "`pass`, `warn`, `fail`, `no_data` (nothing to measure), `error` (could not be"
            " evaluated) or `skipped`.",
        ),
        _SEVERITY,
        text("message", "What was measured, and what is wrong with it if the check did not pass."),
        text("details", "What `dqsql explain` needs to compute the verdict again, as JSON."),
        time("evaluated_at", "Start of the run that decided."),
    ),
    keys=("check_id", "batch", "segment"),
    partitions=("model",),
)

FAILURES = Table(
    "dq_failures",
    "Samples of rows that failed a check (`store_failures`).",
    (
        _RUN_ID,
        _CHECK_ID,
        _MODEL,
        _BATCH,
        _SEGMENT,
        text("row", "The row as JSON; personal columns are left out."),
        time("captured_at", "Start of the run that took the sample."),
        real(
            "score",
            "How different it is from other rows (`@row_anomalies`); null: it failed a check.",
        ),
        text(
            "reasons",
            "The columns that make it different, as JSON: share, value, and a usual value.",
        ),
    ),
    # A row may be there twice.
    keys=(),
    partitions=("model",),
)

DISTRIBUTIONS = Table(
    "dq_distributions",
    "Quantiles and frequent values of columns, one row for each batch and segment.",
    (
        _MODEL,
        _BATCH,
        _SEGMENT,
        _COLUMN,
        text("profile", "Kind of the profile."),
        _PARAMETERS,
        reals("quantiles", "Quantiles at equal steps from the smallest to the largest value."),
        texts("labels", "The most frequent values."),
        reals("counts", "How often each of `labels` occurs."),
        real("other", "How many rows have another value than `labels`."),
        _RUN_ID,
        time("computed_at", "Start of the run that computed it."),
    ),
    keys=("model", "batch", "segment", "column_name", "profile", "parameters"),
    partitions=("model",),
)

PROGRAMS = Table(
    "dq_programs",
    "What monitors have learned, one row for each version.",
    (
        _MODEL,
        _CHECK_ID,
        _COLUMN,
        _DETECTOR,
        whole("version", "Counts up from 1 for each check."),
        text(
            "valid_from_batch",
            "First batch that the version judged. Within a version `@avh` learns its bounds again"
            " for each batch: the row has the newest ones, `dqsql explain` those of a verdict.",
        ),
        text("learned_from", "First batch that it learned from."),
        text("learned_to", "Last batch that it learned from."),
        whole("batches", "How many batches it learned from."),
        real("fpr", "False-positive rate on these batches, from 0 to 1."),
        text("program", "The bounds, as JSON."),
        text("description", "The bounds in words."),
        text("evidence", "What the choice of bounds is based on, as JSON."),
        _RUN_ID,
        _VALID_FROM,
        _VALID_TO,
    ),
    keys=("check_id", "version"),
)

INPUTS = Table(
    "dq_inputs",
    "Files that check models last read: shows whether anything can be new.",
    (
        _MODEL,
        text(
            "fingerprint",
            "Hash of the model's definition, and hash of the files' names, sizes and times.",
        ),
        whole("files", "How many files there were."),
        whole("bytes", "How large they were together, in bytes."),
        text("run_id", "The run that saw them."),
        time("seen_at", "When that run began."),
    ),
    keys=("model",),
)

REVIEWS = Table(
    "dq_reviews",
    "Decisions of people on batches with findings (`dqsql review`); the newest counts.",
    (
        _MODEL,
        _BATCH,
        text("verdict", "`accept`: the batch is good; `reject`: it is not."),
        text("reason", "Why."),
        text("author", "Who."),
        time("at", "When."),
        text("run_id", "The run that had checked the batch."),
    ),
    keys=("model", "batch", "at"),
)

MODEL_RUNS = Table(
    "dq_model_runs",
    "What each run did for each check model, and what it cost.",
    (
        text("run_id", "The run; joins `dq_runs`."),
        _MODEL,
        text("status", "The worst verdict: `pass`, `warn`, `fail`, `error` or `skipped`."),
        time("started_at", "When the run began."),
        whole("batches", "Batches that were checked."),
        whole("checks", "Checks and monitors."),
        whole("metrics", "Metric values that were computed."),
        whole("findings", "Verdicts that are neither `pass` nor `skipped`."),
        whole(
            "scans", "Scans of source data; one for several models counts for the first of them."
        ),
        whole("rows", "Rows of the checked batches."),
        whole("bytes", "Bytes that Spark read; null if unknown, or if models overlap."),
        real(
            "seconds",
            "Seconds of the model's own phases: compile, discovery, scan and decide together.",
        ),
        real(
            "start_seconds",
            "Seconds until Spark was ready; of the whole run, the same for each model.",
        ),
        real("compile_seconds", "Seconds spent registering and analysing the model's SQL."),
        real("discovery_seconds", "Seconds spent looking for new batches."),
        real("scan_seconds", "Seconds spent scanning and measuring."),
        real(
            "decide_seconds",
            "Seconds spent on decisions: checks, monitors, samples of failing rows.",
        ),
        real(
            "write_seconds",
            "Seconds spent writing tables; of the whole run, the same for each model.",
        ),
        text("error", "Why it, or some of its checks, could not be checked; null: all were."),
    ),
    keys=("run_id", "model"),
)

FINDINGS = Table(
    "dq_findings",
    "Findings: one row from the first batch on which a check fails until it passes again.",
    (
        text("finding_id", "Identifies the finding: `check_id@` and the batch that opened it."),
        _CHECK_ID,
        _MODEL,
        _COLUMN,
        _CHECK_NAME,
        _SEVERITY,
        text("status", "The worst verdict: `error`, `fail`, `warn` or `no_data`."),
        text("state", "`open`, `acknowledged`, `muted` or `resolved`."),
        text("message", "What is wrong in the newest of its batches."),
        texts(
            "segments", "The segments that have it in one of its batches; empty: only whole ones."
        ),
        text("first_batch", "The oldest batch that it is about."),
        text("last_batch", "The newest batch that it is about."),
        texts("batches", "All batches that it is about, oldest first."),
        whole("batch_count", "How many batches it is about."),
        time("opened_at", "Start of the run that opened it."),
        time("last_seen_at", "Start of the last run that saw it."),
        time("acknowledged_at", "When somebody acknowledged it; null: nobody has."),
        text("acknowledged_by", "Who acknowledged or muted it, whoever resolved it later."),
        time("muted_until", "Until when no messages are sent; null: not muted."),
        time("resolved_at", "When it was resolved; null: not resolved."),
        text("resolved_batch", "First batch that passed again; null: it was resolved otherwise."),
        text("author", "Who acknowledged, muted or resolved it; `dqsql`: a run resolved it."),
        text("reason", "The reason that this person gave, or a run where no batch has passed."),
        time("notified_at", "When a message about its opening was sent; null: none was sent."),
        time(
            "resolution_notified_at",
            "When a message about its resolution was sent; null: none was sent.",
        ),
        time(
            "undelivered_at",
            "When a message about it, to be sent again, could not be delivered; null: all were.",
        ),
        texts(
            "undelivered_to",
            "What single routes are sent again: `opened` or `resolved`, the route.",
        ),
        text("assigned_to", "Who it is assigned to; null: nobody."),
        text("impact", "Number of dbt models and exposures that read the affected data."),
        texts("readers", "Names of these models and exposures."),
    ),
    keys=("finding_id",),
    partitions=("model",),
)

RESULT_HISTORY = Table(
    "dq_result_history",
    "Verdicts that were replaced because their batch was checked again. Rows are only added.",
    (*RESULTS.fields, time("replaced_at", "Start of the run that replaced the verdict.")),
    keys=("check_id", "batch", "segment", "run_id"),
    partitions=("model",),
)

COLUMNS = Table(
    "dq_columns",
    "All columns of the check models' results, checked or not, one row for each version.",
    (
        text("column_id", "Identifies the column: `model.column`."),
        _MODEL,
        text("column_name", "Name of the column."),
        text("data_type", "Its Spark type."),
        whole("position", "Its place in the SELECT, from 1."),
        whole("checks", "Number of checks and monitors that use it."),
        _OWNER,
        _VALID_FROM,
        _VALID_TO,
    ),
    keys=("column_id", "valid_from"),
    partitions=("model",),
)

PATTERN_INDEX = Table(
    "dq_pattern_index",
    "The patterns of the lake's columns that `dqsql index` has read, by relation and in total.",
    (
        text("relation", "Relation whose columns were read; `*`: all relations together."),
        text("pattern", "A pattern that values match; null: the sums of the relation."),
        whole("coverage", "Number of columns with a value that matches."),
        whole("impurity", "Sum over these columns of the share of other rows, in millionths."),
        whole("trials_one", "Rehearsals in columns that began with one distinct value."),
        whole("alarms_one", "How many of them ended in a false alarm."),
        whole("trials_few", "Rehearsals in columns that began with two or three."),
        whole("alarms_few", "How many of them ended in a false alarm."),
        whole("trials_many", "Rehearsals in columns that began with more."),
        whole("alarms_many", "How many of them ended in a false alarm."),
        whole("columns", "Number of string columns that were read; null for a pattern."),
        whole("value_bytes", "Size of the values that were read; null for a pattern."),
        text("settings", "How values become patterns, as JSON; of the sums of all relations."),
    ),
    keys=("relation", "pattern"),
)

# What a run writes.
ALL_TABLES = (
    RUNS,
    MODEL_RUNS,
    MODELS,
    CHECKS,
    COLUMNS,
    BATCHES,
    METRICS,
    DISTRIBUTIONS,
    RESULTS,
    RESULT_HISTORY,
    FINDINGS,
    FAILURES,
    PROGRAMS,
    REVIEWS,
    INPUTS,
)


def state_table_name(model: str) -> str:
    """The name of a check model's state table."""
    return f"dq_state__{model}"


def total_table_name(model: str) -> str:
    """The name of the table of a check model's running totals."""
    return f"dq_total__{model}"


def frequency_table_name(model: str) -> str:
    """The name of the table of how often values occur in the batches of a check model."""
    return f"dq_frequency__{model}"


def failures_table_name(model: str) -> str:
    """The name of the table of all failing rows of a check model (`failures_limit: all`)."""
    return f"dq_failures__{model}"


def frequency_total_table_name(model: str) -> str:
    """The name of the table of how often values occur in all batches that count."""
    return f"dq_frequency_total__{model}"
