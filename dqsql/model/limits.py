"""Settings that bound what a run does and keeps: of the model, else of the project.

Among them what `quarantine` says: whether rows are split, where to, and what is kept of private
values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dqsql.errors import ConfigError, Span
from dqsql.model.plan import Check
from dqsql.model.project import CheckModel, Project

_SETTINGS = ("begin", "lookback", "max_segments", "failures_limit", "store_failures")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """`begin` and `lookback` are about batches, `max_segments` and the rest about what is kept.

    Without a `failures_limit` all failing rows are kept, in a table of the model's own. `restated`
    says that what the model reads may have changed since it was checked, `rewritten` that it is
    known to have; a person has `reviewed` these batches. `lookback` counts those that have begun by
    `now`.
    """

    begin: str | None = None
    lookback: int = 0
    max_segments: int = 1_000
    failures_limit: int | None = 100
    store_failures: bool = False
    restated: bool = False
    rewritten: bool = False
    reviewed: frozenset[str] = frozenset()
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @property
    def keeps_all_failures(self) -> bool:
        """Whether failing rows are kept without a limit."""
        return self.failures_limit is None

    def samples(self, check: Check) -> bool:
        """Whether failing rows of a check are kept."""
        return bool(check.settings.options.get("store_failures", self.store_failures))


def limits_of(model: CheckModel, project: Project, *, store_failures: bool = False) -> RunLimits:
    """The limits of a model. `store_failures` is the wish of the command line."""
    given: dict[str, Any] = {
        name: settings[name]
        for settings in (project.settings, model.config.extra)
        for name in _SETTINGS
        if name in settings
    }
    if store_failures:
        given["store_failures"] = True
    return RunLimits(**given)


SETTING = "quarantine"
HASH, KEEP, DROP = "hash", "keep", "drop"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The tables that a model's rows are split into.

    `schema` and `warehouse` say where they live, as those of a target do; `private` is `hash`,
    `keep` or `drop`. With `whole_batches` all rows of a batch are quarantined that failed a check
    of severity error for which no single row is to blame.
    """

    schema: str
    warehouse: str | None
    good: str
    quarantined: str
    private: str = HASH
    whole_batches: bool = False

    @property
    def names(self) -> frozenset[tuple[str | None, str, str]]:
        """What identifies the two tables."""
        return frozenset((self.warehouse, self.schema, t) for t in (self.good, self.quarantined))


def quarantine_of(
    model: CheckModel, project: Project, wanted: bool | None = None
) -> Quarantine | None:
    """How a model's rows are split; None: they are not.

    `wanted` is the word of the command line: True switches it on where the model does not say no,
    False off everywhere.
    """
    own: Mapping[str, Any] = model.config.extra.get(SETTING) or {}
    given = {**(project.settings.get(SETTING) or {}), **own}
    enabled = given.get("enabled", False)
    if wanted is not None and own.get("enabled") is not False:
        enabled = wanted
    if not enabled or wanted is False:
        return None
    good, quarantined = (
        (given.get(kind) or f"{{model}}_{kind}").replace("{model}", model.name)
        for kind in ("good", "quarantined")
    )
    return Quarantine(
        given.get("schema") or f"{project.target.schema}_rows",
        _place(given.get("warehouse"), project),
        good,
        quarantined,
        given.get("private") or HASH,
        bool(given.get("whole_batches", False)),
    )


def refuse_shared_tables(
    models: Iterable[CheckModel], project: Project, wanted: bool | None
) -> None:
    """Raise ConfigError where two models would replace each other's rows, or a model its own."""
    owners: dict[tuple[str | None, str, str], str] = {}
    for model in models:
        quarantine = quarantine_of(model, project, wanted)
        if quarantine is None:
            continue
        if quarantine.good == quarantine.quarantined:
            raise ConfigError(
                f"the good and the quarantined rows of {model.name} would go to the same table,"
                f" {quarantine.good}",
                span=Span(model.path),
                hint="give `good` and `quarantined` of `quarantine` different names",
            )
        for name in quarantine.names:
            other = owners.setdefault(name, model.name)
            if other != model.name:
                raise ConfigError(
                    f"the rows of {other} and {model.name} would go to the same table, {name[2]}",
                    span=Span(model.path),
                    hint="write {model} in the names of `quarantine`",
                )


def _place(warehouse: str | None, project: Project) -> str | None:
    """Where the tables lie; a path that is not absolute is one below the project's folder."""
    if warehouse is None:
        return project.target.warehouse
    is_elsewhere = ":" in warehouse or warehouse.startswith("/")
    return warehouse if is_elsewhere else str(project.root / warehouse)
