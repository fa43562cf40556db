"""What a run is asked for, what it keeps of that, and what `dqsql retry` does again of it.

A run keeps the names of `--vars` and hashes of their values, unless the project says more. A retry
is about the models and batches that the last run was not content with.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from dqsql.engine.batches import BatchRequest
from dqsql.engine.project_key import project_key
from dqsql.errors import UsageError
from dqsql.json_text import Shape, read_json, to_json
from dqsql.loading import parse_vars
from dqsql.model.project import Project
from dqsql.model.wording import texts_of
from dqsql.runner.compilation import CompileResult, Variables, Where

# Where a run says which micro-batch it was about.
STREAM = "stream"
_STORE_VARS = "store_vars"
_HASH = re.compile(r"hmac-sha256:[0-9a-f]{16}")
_SWITCHES = ("full_refresh", "fail_fast", "store_failures", "quarantine", "only_new", "dbt_tests")
# What the last run was told, and a retry is told again.
_ARGUMENTS: Mapping[str, Shape] = {
    **dict.fromkeys(("target", "profile", "profiles_dir"), str),
    "vars": (dict, str),
    **dict.fromkeys(_SWITCHES, bool),
    "batches": [str],
    **dict.fromkeys(("event_time_start", "event_time_end"), str),
}
# What is kept of a request as it is.
_KEPT = ("selector", "event_time_start", "event_time_end", *_SWITCHES)
_SHAPE: Shape = {
    "results": [
        {
            "status": str,
            "adapter_response": {
                "dqsql": {
                    "model": str,
                    "failed_batches?": [str],
                    "left_out?": bool,
                    "unreviewed_batches?": int,
                }
            },
        }
    ],
    "args?": {f"{name}?": shape for name, shape in _ARGUMENTS.items()},
}
_REPEATED = ("error", "fail", "skipped")


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
        for name in _SWITCHES:
            if not isinstance(value := getattr(self, name), bool | None):
                # A text such as 'False' would be true.
                raise UsageError(f"{name} is {value!r}, and must be True or False")
        if self.threads is not None and not isinstance(self.threads, int):
            raise UsageError(f"threads is {self.threads!r}, and must be a number")
        if not isinstance(self.batches_of, Mapping):
            raise UsageError(
                f"batches_of is {self.batches_of!r}", hint="batches by model: {'orders': ['1']}"
            )
        self._of_all.check()
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"threads is {self.threads}; it must be 1 or more")

    def check_models(self, project: Project) -> None:
        """Refuse batches of models that there are not. Raises UsageError."""
        unknown = sorted(map(str, {*self.batches_of} - {m.name for m in project.models}))
        if unknown:
            raise UsageError(f"batches_of names {unknown[0]!r}, which is no check model")

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
        where, dirs = self.where, self.where.profiles_dir
        lists = {name: list(getattr(self, name)) for name in ("select", "exclude", "batches")}
        return {
            **lists,
            **{name: getattr(self, name) for name in _KEPT},
            "target": where.target,
            "profile": where.profile,
            "profiles_dir": None if dirs is None else str(dirs),
            "vars": kept_variables(where.vars, project),
            **({} if self.stream is None else {STREAM: dict(self.stream)}),
        }


def kept_variables(given: Variables, project: Project) -> dict[str, Any] | None:
    """What dq_runs and run_results.json say of the variables that a run was given.

    A hash with the project's key by name; the values themselves with `store_vars: true`.
    """
    values = parse_vars(given) if isinstance(given, str) else given
    if not values:
        return None
    if project.settings.get(_STORE_VARS) is True:
        return dict(values)
    key = project_key(project.root).encode()
    return {name: _hash(key, value) for name, value in sorted(values.items())}


def _hash(key: bytes, value: object) -> str:
    digest = hmac.new(key, to_json(value).encode(), hashlib.sha256).hexdigest()
    return f"hmac-sha256:{digest[:16]}"


def is_kept_hash(value: object) -> bool:
    """Whether this is what `kept_variables` keeps in place of a value."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


@dataclass(frozen=True)
class Retry:
    """The models to check again, with the batches that failed; none: those that are new.

    `has_unreviewed` says whether batches that were flagged before the run waited for a review.
    """

    batches: Mapping[str, tuple[str, ...]]
    has_unreviewed: bool
    arguments: Mapping[str, Any] = field(default_factory=dict)


def refuse_other_variables(
    before: Mapping[str, Any] | None, given: Variables, project: Project
) -> None:
    """Refuse to retry with other variables than those whose hashes the last run has kept.

    Raises UsageError.
    """
    kept = {name for name, value in (before or {}).items() if is_kept_hash(value)}
    if not kept or before == kept_variables(given, project):
        return
    raise UsageError(
        f"the last run had other values for {', '.join(sorted(kept))}, which are not stored",
        hint="give the same --vars again, or set store_vars: true in dqsql_project.yml",
    )


def read_retry(file: Path) -> Retry:
    """What the run that wrote a `run_results.json` leaves to do. Raises UsageError."""
    if not file.is_file():
        raise UsageError(f"there is no {file}", hint="`dqsql run` writes it")
    try:
        data = read_json(file, _SHAPE)
        results = [(r["status"], r["adapter_response"]["dqsql"]) for r in data["results"] or ()]
        arguments = data.get("args") or {}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{file} does not come from a run of dqsql", hint="run `dqsql run`"
        ) from error
    batches: dict[str, dict[str, None]] = {}
    for status, own in results:
        failed = own.get("failed_batches") or ()
        # Models after one that failed fast were skipped; those without new batches, too.
        unreached = status == "skipped" and own.get("left_out") is True
        if status in _REPEATED and (failed or unreached or status == "error"):
            batches.setdefault(str(own["model"]), {}).update(dict.fromkeys(failed))
    kept = {key: arguments[key] for key in _ARGUMENTS if arguments.get(key) not in (None, [])}
    has_unreviewed = any(own.get("unreviewed_batches") for _, own in results)
    return Retry({model: tuple(b) for model, b in batches.items()}, has_unreviewed, kept)
