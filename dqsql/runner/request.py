"""What a run is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from dqsql.engine.batches import BatchRequest
from dqsql.errors import UsageError
from dqsql.model.project import Project
from dqsql.model.wording import texts_of
from dqsql.runner.compilation import CompileResult, Where
from dqsql.runner.retry import kept_variables

# Where a run says which micro-batch it was about.
STREAM = "stream"


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked for, in the words of the command line; `dqsql.run` explains them.

    `labels` name the batches of models without `batch_by`, by model; `stream` says which
    micro-batch of which query they are.
    """

    where: Where
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    full_refresh: bool = False
    fail_fast: bool = False
    batches: tuple[str, ...] = ()
    event_time_start: str | None = None
    event_time_end: str | None = None
    store_failures: bool = False
    quarantine: bool | None = None
    only_new: bool = False
    dbt_tests: bool | None = None
    state: str | PathLike[str] | None = None
    selector: str | None = None
    threads: int | None = None
    batches_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    stream: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Refuse what cannot be. Raises UsageError."""
        self._of_all.check()
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"threads is {self.threads}; it must be 1 or more")

    @property
    def _of_all(self) -> BatchRequest:
        times = self.event_time_start, self.event_time_end
        return BatchRequest(self.batches, *times, self.full_refresh)

    def batches_for(self, model: str) -> BatchRequest:
        """The batches of a model that are to be checked."""
        own = self.batches_of.get(model)
        return BatchRequest(texts_of(own)) if own else self._of_all

    def compiled(self) -> CompileResult:
        """The project, compiled. Raises DqsqlError."""
        return self.where.compile(
            select=self.select,
            exclude=self.exclude,
            dbt_tests=self.dbt_tests,
            state=self.state,
            selector=self.selector,
            default_selector=True,
        )

    def arguments(self, project: Project) -> dict[str, Any]:
        """What is kept of the request: variables by their hashes."""
        where = self.where
        return {
            "select": list(self.select),
            "exclude": list(self.exclude),
            "selector": self.selector,
            "target": where.target,
            "profile": where.profile,
            "profiles_dir": None if where.profiles_dir is None else str(where.profiles_dir),
            "vars": kept_variables(where.vars, project),
            "full_refresh": self.full_refresh,
            "fail_fast": self.fail_fast,
            "batches": list(self.batches),
            "event_time_start": self.event_time_start,
            "event_time_end": self.event_time_end,
            "store_failures": self.store_failures,
            "quarantine": self.quarantine,
            "only_new": self.only_new,
            "dbt_tests": self.dbt_tests,
            **({} if self.stream is None else {STREAM: dict(self.stream)}),
        }
