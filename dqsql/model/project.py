"""What loading produces: a project of check models with their annotations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dqsql.errors import DqsqlError, Span


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads relations: a node of dbt, or an exposure.

    Attributes:
        unique_id: dbt's.
        name: for people.
        kind: `model`, `snapshot`, `seed`, `source` or `exposure`.
        parents: the unique ids of what it reads.
        relation: what it is built as, as SQL text; None of exposures and ephemeral models.
        sql: its SELECT as Spark runs it; None where that is not known.
    """

    unique_id: str
    name: str
    kind: str
    parents: tuple[str, ...] = ()
    relation: str | None = None
    sql: str | None = None


# Options of a check that was a test of dbt: its unique id, and the name of the generic test.
DBT_TEST = "dbt_test"
DBT_TEST_NAME = "dbt_test_name"
# The rows of such a test's query where they are values and not the failing rows, and its limit.
DBT_VALUES = "dbt_values"
DBT_LIMIT = "dbt_limit"
# What is added to the name of a test's second check, which is about its threshold for warnings.
WARN_HALF = ":warn"
# Option of a check that is dbt's freshness of a source: `warn_after` or `error_after`.
DBT_FRESHNESS = "dbt_freshness"
# Tag of the checks that a contract stands for.
CONTRACT_TAG = "contract"


# How dqsql reaches Spark, and the formats that it keeps its tables in.
METHODS = ("session", "connect")
DELTA = "delta"
TABLE_FORMATS = (DELTA, "iceberg")
# What gives other rows to other runs.
_CHANGING = re.compile(r"\b(var|env_var|now)\s*\(|\b(current|local)_?(date|time)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Severity(StrEnum):
    """What a failing check means for the run: `error` makes it exit 1, `warn` does not."""

    WARN = "warn"
    ERROR = "error"


class NoData(StrEnum):
    """What a check means whose metric is null because there was nothing to measure."""

    WARN = "warn"
    ERROR = "error"
    IGNORE = "ignore"


class Scope(StrEnum):
    """Which rows a metric is about: one batch, or all accepted batches up to and including it."""

    DELTA = "delta"
    CUMULATIVE = "cumulative"


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The settings behind an annotation's expression: `@mean > 3 {severity: warn}`.

    `severity` None means: the model's, else the project's. `where` is a SQL predicate that
    restricts the rows of every aggregate in the check. `fpr` is the monitor's false-positive rate
    in (0, 1). `options` holds settings that a monitor defines for itself.
    """

    severity: Severity | None = None
    where: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    enabled: bool = True
    scope: Scope = Scope.DELTA
    pii: bool = False
    no_data: NoData | None = None
    fpr: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Annotation:
    """One `@expression {settings}` found in a comment.

    `expression` is SQL text as written (after Jinja). `column` is the output column that the
    annotation is about, or None when it is about the model. `candidates` is not empty when the
    annotation stands on a line with several projections: it must then name one of them itself.
    `unbound` says what is wrong, and what to do, where the line has no name of a column (`*`).
    """

    expression: str
    settings: CheckSettings
    span: Span
    column: str | None = None
    candidates: tuple[str, ...] = ()
    unbound: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """One output column of a check model's SELECT. `name` is None for `*` and the like."""

    name: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The settings of a check model, from `config(..)` and from the project file.

    `batch_by` is a SQL expression over the output columns; its value names the batch. Without it,
    each run is one batch. `segment_by` are output columns. `extra` holds settings for monitors
    (for example `avh`), by name.
    """

    batch_by: str | None = None
    segment_by: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    severity: Severity | None = None
    no_data: NoData | None = None
    enabled: bool = True
    owner: str | None = None
    description: str | None = None
    pii: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """An input relation named in a sources file.

    `relation` is the SQL text that `{{ source(..) }}` renders to. For a file source `path` is the
    absolute path and `file_format` the Spark format; the engine registers it as a temporary view.
    """

    name: str
    table: str
    relation: str
    span: Span
    path: str | None = None
    file_format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def unique_id(self) -> str:
        """`source.<name>.<table>`, as dbt writes it."""
        return f"source.{self.full_name}"

    @property
    def full_name(self) -> str:
        """`<name>.<table>`, as people write it."""
        return f"{self.name}.{self.table}"


@dataclass(frozen=True, slots=True)
class CheckModel:
    """One SQL file: a SELECT whose output is checked, and the annotations in its comments.

    `sql` is the text after Jinja and is what Spark runs, verbatim. `line_map[i]` is the 1-based
    line in the file that rendered line `i + 1` came from. `columns` is None when the projections
    are not closed (`select *`). A model that could not be read has no text. For a model, seed,
    snapshot or source of dbt, `relation` is what dbt built (SQL text): `sql` reads that relation,
    and nothing upstream of it. `unchecked` is what its contract promises, and no check is about.
    """

    name: str
    path: str
    raw_sql: str
    sql: str
    config: ModelConfig
    projections: tuple[Projection, ...]
    annotations: tuple[Annotation, ...]
    line_map: tuple[int, ...]
    depends_on: tuple[str, ...] = ()
    checksum: str = ""
    relation: str | None = None
    unchecked: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the output columns in order, or None when they are not known from the text."""
        names = tuple(p.name for p in self.projections if p.name is not None)
        return names if names and len(names) == len(self.projections) else None

    @property
    def reads_all_rows(self) -> bool:
        """Whether each run reads all rows anew: no batches, nor variables or times in the text.

        What dbt built is read as it is. A stream gives other rows to each run, whatever the text.
        """
        changes = self.relation is None and _CHANGING.search(self.raw_sql) is not None
        return self.config.batch_by is None and not changes

    @property
    def annotated(self) -> tuple[str, ...]:
        """The columns that annotations stand beside."""
        return tuple(dict.fromkeys(a.column for a in self.annotations if a.column))

    @property
    def dbt(self) -> Mapping[str, Any]:
        """What dbt says of it; nothing of a model that is none of dbt's."""
        return self.config.extra.get("dbt") or {}

    @property
    def unique_id(self) -> str:
        """`model.<name>`."""
        return f"model.{self.name}"


def models_read_anew(models: Iterable[CheckModel]) -> frozenset[str]:
    """The names of those of which each run reads all rows anew, as far as their texts say."""
    return frozenset(model.name for model in models if model.reads_all_rows)


def models_upstream(models: Iterable[CheckModel]) -> dict[str, frozenset[str]]:
    """The names of the models that each reads, itself or by others; `models` are upstream first."""
    upstream: dict[str, frozenset[str]] = {}
    names: dict[str, str] = {}
    for model in models:
        read = [names[uid] for uid in model.depends_on if uid in names]
        upstream[model.name] = frozenset(read).union(*(upstream[name] for name in read))
        names[model.unique_id] = model.name
    return upstream


def view_name(model: CheckModel | str) -> str:
    """The temporary view that holds a check model's SELECT."""
    return f"dqsql__{model if isinstance(model, str) else model.name}"


@dataclass(frozen=True, slots=True)
class MacroFile:
    """A file of Jinja macros: shipped, of the project, or of a package."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """One output of a profile: how to reach Spark and where the warehouse tables live.

    `method` is `session` (embedded or by `spark_conf`) or `connect`. `warehouse` is the root of
    path-based tables, absolute, or None when tables live in the session's catalog, in the format
    `table_format`. `schema` is the schema (or folder) of dqsql's tables. `threads` is how many
    models are checked at a time; None leaves it to the run. `dbt_schemas` are the schemas in which
    dbt builds, by the name of the target, where the profile is dbt's. `source_formats` are the
    table formats of the project's file sources, for which Spark needs jars.
    """

    name: str
    profile: str
    method: str = "session"
    master: str | None = None
    url: str | None = None
    schema: str = "dq"
    warehouse: str | None = None
    table_format: str = DELTA
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    ansi: bool = False
    threads: int | None = None
    dbt_schemas: Mapping[str, str] = field(default_factory=dict)
    source_formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftTest:
    """A test of dbt that dqsql does not adopt, and why; dbt goes on running it.

    `unique_id` is the test's; for a freshness that dqsql cannot judge, the source's.
    """

    unique_id: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded project. `root` is absolute; every other path in it is relative to `root`.

    `warnings` are what a person should know about the project's files. `left_tests` are the tests
    of a dbt project that were not adopted. `broken` are the errors of models whose comments or
    settings cannot be read, by the model's name: the rest of the project stands without them.
    `readers` are dbt's nodes and exposures, upstream first. `unasked` are the names of dbt's tests
    that this command was not asked to adopt: what earlier ones have stored of them stands.
    """

    name: str
    root: Path
    target: Target
    models: tuple[CheckModel, ...]
    sources: tuple[Source, ...]
    macros: tuple[MacroFile, ...]
    vars: Mapping[str, Any] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    target_path: str = "target"
    severity: Severity = Severity.ERROR
    no_data: NoData = NoData.WARN
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    left_tests: tuple[LeftTest, ...] = ()
    broken: Mapping[str, tuple[DqsqlError, ...]] = field(default_factory=dict)
    readers: tuple[Reader, ...] = ()
    unasked: frozenset[str] = frozenset()

    def leaves_alone(self, check_name: str) -> bool:
        """Whether a stored check is a test of dbt that this command was not asked to adopt."""
        return check_name.removesuffix(WARN_HALF) in self.unasked

    def known_checks(
        self, ids: Collection[str] | None, findings: Iterable[Mapping[str, Any]]
    ) -> Collection[str] | None:
        """The ids of a model's checks, with those of open findings that are left alone."""
        if ids is None:
            return None
        open_findings = (r for r in findings if r["resolved_at"] is None)
        return {*ids, *(r["check_id"] for r in open_findings if self.leaves_alone(r["check_name"]))}

    @property
    def target_dir(self) -> Path:
        """The folder of dqsql's artefacts, absolute."""
        return self.root / self.target_path

    @property
    def log_dir(self) -> Path:
        """The folder of what Spark says of itself, absolute."""
        return self.target_dir / "logs"


def local_path(warehouse: str) -> Path | None:
    """A warehouse that is a folder of this machine; None where it is elsewhere."""
    root = warehouse.removeprefix("file://")
    if root.startswith("file:"):
        root = root.removeprefix("file:")
    return None if _SCHEME.match(root) else Path(root)


def local_folder(target: Target) -> Path | None:
    """The folder of the tables on this machine; None where they are elsewhere."""
    root = None if target.warehouse is None else local_path(target.warehouse)
    return None if root is None else root / target.schema
