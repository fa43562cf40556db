"""`@cadence`: batches that should be there and are not, between others or after the newest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from sqlglot import exp

from dqsql.compiler.keys import batch_columns
from dqsql.decisions import cadence
from dqsql.dialect import parse_statement, to_sql
from dqsql.errors import AnnotationError, CompileError
from dqsql.model.batches import are_numbers, batch_order, has_begun, wall_time_of
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor, Plan
from dqsql.model.project import CheckModel, Severity
from dqsql.model.results import BatchRecord, Result, Status
from dqsql.model.settings import as_rate, as_text, at_least
from dqsql.model.wording import NO_TIME, plural, still_learning
from dqsql.monitors import recompute
from dqsql.monitors.context import (
    MonitorByMonitor,
    failed_status,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.demands import missing_status
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.settings import literal_value, read_settings

_NAME = "cadence"
_SETTINGS = {"fpr": as_rate, "min_history": at_least(2), "grace": as_text, "cadence": as_text}
# Older batches say nothing of the rhythm of now.
_WINDOW, _LONGEST = 200, 2_000


@dataclass(frozen=True)
class _Rules:
    """What one `@cadence` says; `text` is the declared rhythm, `zones` those of the model.

    `clock` is the zone whose times are the names of batches; None for UTC.
    """

    text: str | None
    fpr: float | None
    min_history: int
    grace: dt.timedelta | None
    zones: tuple[str, ...] = ()
    clock: str | None = None

    def details(self) -> dict[str, Any]:
        """What it takes to decide by the rules again; the grace is in seconds."""
        return {
            "cadence": self.text,
            "fpr": self.fpr,
            "min_history": self.min_history,
            "grace": None if self.grace is None else self.grace.total_seconds(),
            "zones": list(self.zones),
            "clock": self.clock,
        }

    def shown(self, moment: dt.datetime) -> dt.datetime:
        """What the clock shows that batches are named by."""
        return cadence.shown(moment, self.clock)

    @property
    def declared(self) -> cadence.Cadence | None:
        """The declared rhythm."""
        return None if self.text is None else cadence.read_cadence(self.text)


class CadenceDetector(MonitorByMonitor):
    """Decides on all `@cadence` of one model."""

    kind: ClassVar[str] = _NAME

    @cached_property
    def _zones(self) -> tuple[tuple[str, ...], str | None]:
        return _zones_of(self.context.plan.model)

    @cached_property
    def _newest(self) -> str | None:
        """The newest batch that has begun, and that is not known to be empty."""
        ledger, now = self.place.ledger, self.context.now
        known = reversed(self.context.history.known)
        return next((b for b in known if _tells_of_now(b, ledger.get(b), now)), None)

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        rules, start = rules_of(monitor), wall_time_of(batch)
        earlier = [b for b in self.context.history.known if batch_order(b) < batch_order(batch)]
        known = earlier[-_LONGEST:]
        if start is None or are_numbers([*known[-rules.min_history :], batch]):
            text = f"{NO_TIME}: {batch!r}"
            if rules.text is None:
                return result_of(monitor, batch, Status.SKIPPED, text)
            # Who declares a rhythm wants to hear that gaps are not found.
            status = missing_status(monitor, self.context.plan.model.config.no_data)
            hint = "date_format(.., 'yyyy-MM-dd') in batch_by names them so"
            return result_of(monitor, batch, status, f"{text}; {hint}")
        zones, clock = self._zones
        fpr = rules.fpr or self.context.fpr(monitor)
        rules = replace(rules, fpr=fpr, zones=zones, clock=clock)
        known = known[-max(_window(rules.fpr), cadence.newest_days(_times(known))) :]
        past, delays = _times(known), None
        if batch == self._newest:
            # Of others than the newest nothing can be late.
            delays = _delays_of(rules, [*past, start], self.place.ledger)
        before = None if self.context.end is None else wall_time_of(self.context.end)
        decided = _decided(rules, past, start, delays, rules.shown(self.context.now), before)
        details = {
            **recompute.rests_on(self.context.history, known),
            **rules.details(),
            **decided.details(),
        }
        if decided.is_late:
            # Else the tables would say which batch was the newest of a run.
            details["delays"] = [d.total_seconds() for d in delays or ()]
            if before is not None:
                details["looked_until"] = self.context.end
            details[cadence.MISSES_NEXT] = decided.told_gap is None
        if decided.missing:
            result = result_of(monitor, batch, failed_status(monitor.severity), decided.words)
            return with_details(with_numbers(result, len(decided.missing)), **details)
        if decided.gap is None:
            text = still_learning(len(past), rules.min_history, "batches in a rhythm")
            return result_of(monitor, batch, Status.SKIPPED, text)
        return with_details(result_of(monitor, batch, Status.PASS, ""), **details)


@dataclass(frozen=True)
class _CadenceVerdict:
    """What is missing before a batch and after it, and the rhythm that says so."""

    rules: _Rules
    start: dt.datetime
    rhythm: cadence.Cadence | None
    gap: cadence.Gap | None
    late: cadence.Lateness | None

    @property
    def is_late(self) -> bool:
        """Whether a batch is missing behind this one, the newest."""
        return self.late is not None and self.late.late

    @property
    def told_gap(self) -> cadence.Gap | None:
        """The gap before this batch, where it is told of."""
        return self.gap if self.gap is not None and self.gap.alarm else None

    @property
    def missing(self) -> tuple[dt.datetime, ...]:
        """The batches that are told of: those before this one, and those behind it."""
        before = () if self.told_gap is None else self.told_gap.missing
        return (*before, *(self.late.missing if self.late is not None and self.is_late else ()))

    @property
    def words(self) -> str:
        """The finding."""
        words = []
        if self.told_gap is not None:
            words.append(_gap_words(self.told_gap, self.rhythm, self.rules.declared))
        if self.late is not None and self.is_late:
            words.append(
                f"no batch has come since {self.start:%Y-%m-%d %H:%M}: {self.late.words} should"
                f" have come; the first was due by {self._due(self.late)}"
            )
        return "; ".join(words)

    def _due(self, late: cadence.Lateness) -> str:
        return f"{late.due:%Y-%m-%d %H:%M} {self.rules.clock or 'UTC'}"

    def details(self) -> dict[str, Any]:
        """What was decided, for the tables."""
        gap, basis = self.gap, "as declared"
        if gap is not None and self.rules.declared is None:
            basis = f"as of {gap.history:,} expected batches before"
        rhythm = None if self.rhythm is None else f"one {self.rhythm.words}, {basis}"
        compared = {
            "rhythm": rhythm,
            "missing": None if gap is None or not gap.missing else gap.words,
            "due by": self._due(self.late) if self.late and self.is_late else None,
        }
        return {
            "missing": [m.isoformat(" ") for m in self.missing],
            "chance": None if gap is None or not gap.missing else gap.chance,
            "compared_with": {name: text for name, text in compared.items() if text is not None},
        }


def _decided(
    rules: _Rules,
    past: Sequence[dt.datetime],
    start: dt.datetime,
    delays: Sequence[dt.timedelta] | None,
    now: dt.datetime,
    before: dt.datetime | None = None,
) -> _CadenceVerdict:
    """What is missing, by the time that the clock of the batches shows.

    `past` are when the batches before began, oldest first; `delays` how long after their end
    batches came, None where nothing can be late. Only batches `before` a time were looked for.
    """
    how = rules.declared, rules.min_history, rules.zones
    gap = cadence.gap_before(past, start, rules.fpr or 0.0, *how)
    late = _lateness(rules, [*past, start], delays, now, before)
    return _CadenceVerdict(rules, start, rules.declared or cadence.learn_cadence(past), gap, late)


def _recomputed(stored: recompute.StoredVerdict) -> recompute.Recomputed:
    """Decide again by the names of the batches and the stored delays."""
    details, start = stored.details, wall_time_of(stored.batch)
    if "cadence" not in details or start is None:
        return recompute.NOT_DECIDED
    rules = _Rules(
        details["cadence"],
        details["fpr"],
        details["min_history"],
        None if details["grace"] is None else dt.timedelta(seconds=details["grace"]),
        tuple(details.get("zones") or ()),
        details.get("clock"),
    )
    delays = details.get("delays")
    waits = None if delays is None else [dt.timedelta(seconds=d) for d in delays]
    now = rules.shown(stored.row["evaluated_at"])
    until = details.get("looked_until")
    before = None if until is None else wall_time_of(until)
    decided = _decided(rules, _times(stored.past), start, waits, now, before)
    again = decided.details()
    return recompute.Recomputed(
        (
            recompute.status_again(stored, broken=bool(decided.missing)),
            *recompute.compared_by(("missing", "chance"), details, again),
            *recompute.compared_by(
                ("rhythm", "missing", "due by"), details["compared_with"], again["compared_with"]
            ),
        )
    )


def _times(batches: Sequence[str]) -> list[dt.datetime]:
    return [t for b in batches if (t := wall_time_of(b)) is not None]


def _gap_words(
    gap: cadence.Gap, rhythm: cadence.Cadence | None, declared: cadence.Cadence | None
) -> str:
    number = plural(len(gap.missing), "batch is", "batches are")
    words = rhythm.words if rhythm is not None else ""
    basis = "as declared" if declared is not None else f"judging by {gap.history:,} expected ones"
    return f"{number} missing before this one: {gap.words}; one comes {words}, {basis}"


def rules_of(monitor: Monitor) -> _Rules:
    """What the annotation says. Raises AnnotationError."""
    given = read_settings(monitor, _SETTINGS, positional=True)
    arguments = [*map(literal_value, monitor.positional), given.get("cadence")]
    values = [s for s in arguments if s is not None]
    try:
        text = str(values[0]) if values else None
        if text is not None:
            cadence.read_cadence(text)
    except cadence.CadenceError as error:
        raise AnnotationError(
            f"@cadence takes {error}", span=monitor.span, hint="@cadence('daily')"
        ) from error
    grace = None
    if "grace" in given:
        try:
            grace = cadence.read_cadence(given["grace"]).step
        except cadence.CadenceError as error:
            message = f"grace is a time such as '2 hours', not {given['grace']!r}"
            hint = "@cadence('daily') {grace: '2 hours'}"
            raise AnnotationError(message, span=monitor.span, hint=hint) from error
    return _Rules(text, given.get("fpr"), given.get("min_history", 7), grace)


def _zones_of(model: CheckModel) -> tuple[tuple[str, ...], str | None]:
    """The zones that a model names, and the one whose times name its batches, if it is one."""
    batch_by = str(model.config.batch_by)
    zones = cadence.zones_in(f"{model.sql}\n{batch_by}")
    query = parse_statement(model.sql) if zones else None
    if query is None:
        return zones, None
    named = {name.lower() for name in batch_columns(model)}
    made = (to_sql(a.this) for a in query.find_all(exp.Alias) if a.alias.lower() in named)
    clocks = cadence.clocks_in("\n".join((batch_by, *made)))
    return zones, clocks[0] if len(clocks) == 1 else None


def _window(fpr: float | None) -> int:
    """How many batches say how often one is missing: enough that one gap can be so rare."""
    return min(max(_WINDOW, cadence.history_for(fpr)), _LONGEST) if fpr else _WINDOW


def _delays_of(
    rules: _Rules, times: Sequence[dt.datetime], ledger: Mapping[str, BatchRecord]
) -> list[dt.timedelta] | None:
    """How long after their end batches came; None where there is no rhythm to be late in."""
    rhythm = rules.declared or cadence.learn_cadence(times)
    if rhythm is None or not times:
        return None
    step = rhythm.after(times[-1]) - times[-1]
    known = sorted(ledger.values(), key=lambda r: batch_order(r.batch))
    # When a batch is complete the rhythm says: of a column of times nothing else does.
    checked = [
        (rhythm.after(start), rules.shown(seen))
        for r in known
        # A batch that is checked again has come when it had about as many rows first.
        if (seen := r.grown_at or r.checked_at) is not None
        and (start := wall_time_of(r.batch)) is not None
    ]
    return cadence.live_delays(checked, step)


def _tells_of_now(batch: str, record: BatchRecord | None, now: dt.datetime) -> bool:
    """Whether a batch says that rows came until it began."""
    return has_begun(batch, now) and (record is None or record.rows > 0)


def _lateness(
    rules: _Rules,
    times: Sequence[dt.datetime],
    delays: Sequence[dt.timedelta] | None,
    now: dt.datetime,
    before: dt.datetime | None = None,
) -> cadence.Lateness | None:
    if delays is None:
        return None
    declared, grace, zones = rules.declared, rules.grace, rules.zones
    return cadence.lateness(times, delays, now, declared, grace, zones, before)


def _is_due(plan: Plan, ledger: Mapping[str, BatchRecord], now: dt.datetime) -> bool:
    """Whether a batch is late: the newest one is then decided on again."""
    names = sorted((b for b, r in ledger.items() if _tells_of_now(b, r, now)), key=batch_order)
    times = _times(names)
    if len(times) < len(names):
        return False
    times = times[-max(_WINDOW, cadence.newest_days(times)) :]
    try:
        every = [rules_of(m) for m in KIND.of(plan)]
        zones, clock = _zones_of(plan.model) if every else ((), None)
        rules = [replace(r, zones=zones, clock=clock) for r in every]
        arrivals = [_lateness(r, times, _delays_of(r, times, ledger), r.shown(now)) for r in rules]
    except AnnotationError:
        # Told where the model is checked.
        return False
    return any(late is not None and late.late for late in arrivals)


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    if use.model.config.batch_by is None:
        raise CompileError(
            "@cadence is about batches, and this model has none",
            span=use.annotation.span,
            hint="config(batch_by = 'day')",
        )
    if use.annotation.settings.where is not None:
        raise CompileError(
            "where chooses rows, and @cadence looks at the names of batches only",
            span=use.annotation.span,
            hint="leave {where: ..} out",
        )
    return [WatchedMetric(Family.ANY, "row_count", "row_count()", None)]


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        configurable=False,
        symptom="freshness",
        # The batch itself is fine.
        severity=Severity.WARN,
    ),
    detector=CadenceDetector,
    order=20,
    reach=lambda monitor, defaults: Reach(0),
    read=rules_of,
    recompute=_recomputed,
    is_due=_is_due,
    by_names=True,
)
