"""The warehouse tables that dqsql writes: the contract with BI. Columns are only ever added."""

from __future__ import annotations

from dataclasses import dataclass

_DDL = {"timestamp": "timestamp_ltz"}


@dataclass(frozen=True, slots=True)
class Table:
    """A warehouse table: its columns with Spark types, and the columns that identify a row.

    `scope` are the columns whose values name the part of the table that a write replaces: all rows
    of the part are exchanged for the new ones, so that writing twice is writing once. `partitions`
    are the columns by which tables in folders are laid out: what grows by models and batches.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    scope: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """The columns as a Spark schema string.

        What `timestamp` means there is a setting of the session (`spark.sql.timestampType`).
        """
        return ", ".join(f"`{name}` {_DDL.get(kind, kind)}" for name, kind in self.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(name for name, _ in self.columns)


RUNS = Table(
    "dq_runs",
    (
        ("run_id", "string"),
        ("project", "string"),
        ("target", "string"),
        ("arguments", "string"),
        ("started_at", "timestamp"),
        ("finished_at", "timestamp"),
        ("status", "string"),
        ("dqsql_version", "string"),
        ("spark_version", "string"),
        ("git_sha", "string"),
        ("ansi", "boolean"),
        ("models", "bigint"),
        ("checks", "bigint"),
        ("batches", "bigint"),
        ("scans", "bigint"),
        ("rows_scanned", "bigint"),
        ("bytes_read", "bigint"),
        ("versions", "string"),
    ),
    keys=("run_id",),
    scope=("run_id",),
)

MODELS = Table(
    "dq_models",
    (
        ("model", "string"),
        ("path", "string"),
        ("owner", "string"),
        ("description", "string"),
        ("tags", "array<string>"),
        ("batch_by", "string"),
        ("segment_by", "array<string>"),
        ("checksum", "string"),
        ("valid_from", "timestamp"),
        ("valid_to", "timestamp"),
    ),
    keys=("model", "valid_from"),
    scope=("model",),
)

CHECKS = Table(
    "dq_checks",
    (
        ("check_id", "string"),
        ("model", "string"),
        ("column_name", "string"),
        ("check_name", "string"),
        ("detector", "string"),
        ("expression", "string"),
        ("where", "string"),
        ("severity", "string"),
        ("owner", "string"),
        ("description", "string"),
        ("tags", "array<string>"),
        ("file", "string"),
        ("line", "bigint"),
        ("valid_from", "timestamp"),
        ("valid_to", "timestamp"),
    ),
    keys=("check_id", "valid_from"),
    scope=("model",),
)

BATCHES = Table(
    "dq_batches",
    (
        ("model", "string"),
        ("batch", "string"),
        ("status", "string"),
        ("rows", "bigint"),
        ("fingerprint", "string"),
        ("run_id", "string"),
        ("checked_at", "timestamp"),
        ("counted", "boolean"),
        ("metrics", "bigint"),
        ("results", "bigint"),
        ("states", "bigint"),
        ("versions", "string"),
    ),
    keys=("model", "batch"),
    scope=("model", "batch"),
)

METRICS = Table(
    "dq_metrics",
    (
        ("model", "string"),
        ("batch", "string"),
        ("segment", "string"),
        ("column_name", "string"),
        ("metric", "string"),
        ("parameters", "string"),
        ("scope", "string"),
        ("value", "double"),
        ("value_text", "string"),
        ("sample_size", "bigint"),
        ("run_id", "string"),
        ("computed_at", "timestamp"),
    ),
    keys=("model", "batch", "segment", "column_name", "metric", "parameters", "scope"),
    scope=("model", "batch"),
    partitions=("model",),
)

RESULTS = Table(
    "dq_results",
    (
        ("run_id", "string"),
        ("check_id", "string"),
        ("model", "string"),
        ("batch", "string"),
        ("segment", "string"),
        ("column_name", "string"),
        ("check_name", "string"),
        ("detector", "string"),
        ("observed", "double"),
        ("observed_text", "string"),
        ("lower_bound", "double"),
        ("upper_bound", "double"),
        ("score", "double"),
        ("status", "string"),
        ("severity", "string"),
        ("message", "string"),
        ("details", "string"),
        ("evaluated_at", "timestamp"),
    ),
    keys=("check_id", "batch", "segment"),
    scope=("model", "batch"),
    partitions=("model",),
)

FAILURES = Table(
    "dq_failures",
    (
        ("run_id", "string"),
        ("check_id", "string"),
        ("model", "string"),
        ("batch", "string"),
        ("segment", "string"),
        ("row", "string"),
        ("captured_at", "timestamp"),
    ),
    # A row may be there twice.
    keys=(),
    scope=("model", "batch"),
    partitions=("model",),
)

DISTRIBUTIONS = Table(
    "dq_distributions",
    (
        ("model", "string"),
        ("batch", "string"),
        ("segment", "string"),
        ("column_name", "string"),
        ("profile", "string"),
        ("parameters", "string"),
        ("quantiles", "array<double>"),
        ("labels", "array<string>"),
        ("counts", "array<double>"),
        ("other", "double"),
        ("run_id", "string"),
        ("computed_at", "timestamp"),
    ),
    keys=("model", "batch", "segment", "column_name", "profile", "parameters"),
    scope=("model", "batch"),
    partitions=("model",),
)

PROGRAMS = Table(
    "dq_programs",
    (
        ("model", "string"),
        ("check_id", "string"),
        ("column_name", "string"),
        ("detector", "string"),
        ("version", "bigint"),
        ("valid_from_batch", "string"),
        ("learned_from", "string"),
        ("learned_to", "string"),
        ("batches", "bigint"),
        ("fpr", "double"),
        ("program", "string"),
        ("description", "string"),
        ("evidence", "string"),
        ("run_id", "string"),
        ("valid_from", "timestamp"),
        ("valid_to", "timestamp"),
    ),
    keys=("check_id", "version"),
    scope=("model",),
)

REVIEWS = Table(
    "dq_reviews",
    (
        ("model", "string"),
        ("batch", "string"),
        ("verdict", "string"),
        ("reason", "string"),
        ("author", "string"),
        ("at", "timestamp"),
        ("run_id", "string"),
    ),
    keys=("model", "batch", "at"),
    scope=("model", "batch", "at"),
)

ALL_TABLES = (
    RUNS,
    MODELS,
    CHECKS,
    BATCHES,
    METRICS,
    DISTRIBUTIONS,
    RESULTS,
    FAILURES,
    PROGRAMS,
    REVIEWS,
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


def frequency_total_table_name(model: str) -> str:
    """The name of the table of how often values occur in all batches that count."""
    return f"dq_frequency_total__{model}"
