"""All kinds of monitors: the only place that imports the files about them.

They are found in the package `kinds`: each module or folder there has one `KIND`. Other packages
that are installed add theirs by entry points of the group `dqsql.monitors`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from dqsql.errors import ConfigError, DecisionError
from dqsql.model.monitors import forget_spec, register_spec
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord
from dqsql.monitors import kinds
from dqsql.monitors.context import MonitorContext, Workplace
from dqsql.monitors.kind import BeforeScan, MonitorKind
from dqsql.monitors.programs import ProgramBook
from dqsql.monitors.recompute import Recomputed, StoredVerdict
from dqsql.monitors.replay import Learner, Replayer

_GROUP = "dqsql.monitors"
"""The group of entry points by which packages add kinds."""

_KINDS: dict[str, MonitorKind] = {}


def register(kind: MonitorKind) -> None:
    """Make a kind known, here and to what lies below."""
    _KINDS[kind.name] = kind
    register_spec(kind.spec)


def forget(name: str) -> None:
    """Make a kind unknown again."""
    _KINDS.pop(name, None)
    forget_spec(name)


def load_kinds() -> None:
    """Make known what is in the package `kinds`, and what installed packages add.

    Raises ConfigError: a package's kind cannot be loaded, or has a name that is taken.
    """
    for module in iter_modules(kinds.__path__, f"{kinds.__name__}."):
        register(import_module(module.name).KIND)
    shipped = frozenset(_KINDS)
    for point in entry_points(group=_GROUP):
        kind = _installed(point)
        if kind.name in shipped:
            raise ConfigError(
                f"the package of {point.value} calls a monitor @{kind.name}, which dqsql has",
                hint="update or uninstall the package",
            )
        register(kind)


def _installed(point: EntryPoint) -> MonitorKind:
    try:
        kind = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the monitor {point.name} ({point.value}) of an installed package cannot be loaded:"
            f" {error}",
            hint="update or uninstall the package",
        ) from error
    if not isinstance(kind, MonitorKind):
        raise ConfigError(
            f"{point.value} is a {type(kind).__name__}, and an entry point of {_GROUP} names a"
            " MonitorKind",
            hint="see docs/monitors.md, Your own kinds of monitors",
        )
    return kind


load_kinds()


def find(name: str) -> MonitorKind | None:
    """The kind of that name, or None."""
    return _KINDS.get(name)


def kinds_of(plan: Plan) -> Iterator[MonitorKind]:
    """The kinds of a plan's monitors, in their order."""
    named = {m.kind for m in plan.monitors}
    return (kind for kind in all_kinds() if kind.name in named)


def all_kinds() -> tuple[MonitorKind, ...]:
    """All kinds, in their order."""
    return tuple(sorted(_KINDS.values(), key=lambda kind: (kind.order, kind.name)))


def learners() -> Mapping[str, Callable[[Workplace, MonitorContext], Learner]]:
    """What learns beside runs, by kind."""
    return {k.name: k.learner for k in all_kinds() if k.learner is not None}


def replayers() -> Mapping[str, Callable[[Workplace, MonitorContext], Replayer]]:
    """What can be replayed, by kind."""
    return {k.name: k.replayer for k in all_kinds() if k.replayer is not None}


def learns_before_scan(plan: Plan) -> bool:
    """Whether a monitor of the plan learns before batches are scanned."""
    return any(kind.before_scan is not None for kind in kinds_of(plan))


def learn_before_scan(place: Workplace, before: BeforeScan) -> bool:
    """Let monitors learn what is due; whether another thing is to be counted from now on.

    Raises DqsqlError.
    """
    hooks = [k.before_scan for k in kinds_of(place.plan) if k.before_scan is not None]
    return any([hook(place, before) for hook in hooks])


def looks_back(plan: Plan) -> bool:
    """Whether verdicts of the plan's monitors rest on earlier batches, and not on names alone."""
    return any(k.reach is not None and not k.by_names for k in kinds_of(plan))


def is_due(plan: Plan, ledger: Mapping[str, BatchRecord], now: dt.datetime) -> bool:
    """Whether monitors want the newest batch to be decided on again though nothing is new."""
    return any(k.is_due is not None and k.is_due(plan, ledger, now) for k in kinds_of(plan))


def with_learned(plan: Plan, book: ProgramBook) -> Plan:
    """The plan with what is counted of all that its monitors have learned."""
    for kind in kinds_of(plan):
        if kind.with_learned is not None:
            plan = kind.with_learned(plan, book)
    return plan


def recompute(stored: StoredVerdict) -> Recomputed:
    """Decide on a stored verdict again, as far as its kind allows it."""
    kind = find(stored.row["detector"])
    if kind is None:
        return Recomputed(note="nothing to compute again: its bounds are written in the check")
    if kind.recompute is None:
        return Recomputed(
            note=f"@{kind.name} is not computed again: its message and details say what it compared"
        )
    try:
        return kind.recompute(stored)
    except (KeyError, TypeError) as error:
        return Recomputed(
            note=f"its details lack what is needed ({error}); an older version wrote them"
        )
    except DecisionError as error:
        return Recomputed(note=f"it cannot be computed again: {error.message}")
