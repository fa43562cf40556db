"""Which batches a run is about."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.keys import check_batch_by
from dqsql.compiler.pruning import batch_moment, interval_condition, null_without_batch
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import column
from dqsql.engine.open_batches import usual_length, was_open
from dqsql.errors import ConfigError, Span, UsageError
from dqsql.model.batches import (
    Moment,
    batch_order,
    has_begun,
    has_place,
    instant_of,
    moment_reader,
    read_name,
    read_number,
)
from dqsql.model.limits import RunLimits
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.model.wording import first_of, plural

# So many batches are named in a command.
_SHOWN = 3
_START, _END = "--event-time-start", "--event-time-end"
_HINT = "write a date (2013-02-08), a timestamp (2013-02-08T06:00, in UTC) or a number"


@dataclass(frozen=True)
class BatchRequest:
    """What the user asked for: named batches, a half-open range, everything, or what is new."""

    batches: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    full_refresh: bool = False

    def check(self) -> None:
        """Refuse a range that no batch can lie in, and two choices at once. Raises UsageError."""
        others = {_START: self.start, _END: self.end, "--full-refresh": self.full_refresh}
        for flag, given in others.items() if self.batches else ():
            if given:
                raise UsageError(
                    f"--batch and {flag} are two choices of batches",
                    hint="name the batches, or give a range",
                )
        for flag, text in ((_START, self.start), (_END, self.end)):
            if text is not None and read_name(text) is None and read_number(text) is None:
                raise UsageError(f"{flag} is neither a time nor a number: {text!r}", hint=_HINT)
        for read in (read_name, read_number):
            start, end = (None if t is None else read(t) for t in (self.start, self.end))
            if start is not None and end is not None and start >= end:  # type: ignore[operator]
                raise UsageError(
                    f"{_START} {self.start} is not before {_END} {self.end}",
                    hint=f"the batch that {_END} names is left out",
                )


@dataclass(frozen=True)
class Period:
    """The batches of a model from `start` up to, without, `end`; None is unbounded.

    `batch_type` is the Spark type of `batch_by`. A period without an end has the rows without a
    batch, too: `with_unbatched`; `asked` tells the one that a user asked for from the model's own.
    The batches `also` belong to it wherever they lie.
    """

    model: CheckModel
    batch_type: str
    start: Moment | None = None
    end: Moment | None = None
    with_unbatched: bool = False
    asked: bool = False
    also: tuple[str, ...] = ()

    @property
    def bounded(self) -> bool:
        """Whether any batch can lie outside."""
        return self.start is not None or self.end is not None

    def condition(self, columns: Mapping[str, str]) -> exp.Expr | None:
        """What the rows of the period have in common, as far as SQL can say it."""
        batch_by = check_batch_by(self.model)
        if batch_by is None or not self.bounded:
            return None
        inside = interval_condition(batch_by, self.start, self.end, self.batch_type, columns)
        if inside is None or not self.with_unbatched:
            return inside
        # Of a column alone Spark also chooses files.
        name = null_without_batch(batch_by, columns)
        value = batch_by.copy() if name is None else column(name)
        absent = exp.Is(this=exp.Paren(this=value), expression=exp.Null())
        named = BatchFilter(self.also, self.batch_type, columns).condition(self.model)
        return exp.or_(exp.Paren(this=inside), absent, named if self.also else None, copy=False)

    def moment(self, batch: str) -> Moment | None:
        """When a batch begins, or its number; None when its text says neither."""
        batch_by = check_batch_by(self.model)
        if batch_by is None or moment_reader(self.batch_type) is read_number:
            return read_number(batch)
        return batch_moment(batch_by, batch) or instant_of(batch)

    def has(self, batch: str) -> bool | None:
        """Whether a batch lies in the period; None when its text is no time."""
        if batch in self.also:
            return True
        moment = self.moment(batch)
        if moment is None:
            return None
        after_start = self.start is None or moment >= self.start  # type: ignore[operator]
        return after_start and (self.end is None or moment < self.end)  # type: ignore[operator]


def period_of(
    request: BatchRequest, begin: str | None, model: CheckModel, batch_type: str
) -> Period:
    """The period that a run is about: what was asked for, else from the model's `begin` on.

    Batches that are asked for by name are taken whenever they are. Raises UsageError and
    ConfigError: the bounds do not fit the model's batches.
    """
    if request.batches:
        return Period(model, batch_type)
    start = _bound(request.start, _START, model, batch_type)
    if request.start is None and begin is not None:
        start = _bound(begin, "begin", model, batch_type)
    asked = request.start is not None or request.end is not None
    end = _bound(request.end, _END, model, batch_type)
    return Period(model, batch_type, start, end, with_unbatched=end is None, asked=asked)


def _bound(text: str | None, what: str, model: CheckModel, batch_type: str) -> Moment | None:
    if text is None:
        return None
    reader = moment_reader(batch_type)
    moment = reader(text) if reader is not None else None
    if moment is None:
        raise _unfit(model, what, f"{what} {text}", f"of type {batch_type}", _HINT)
    return moment


def _unfit(
    model: CheckModel, what: str, bound: str, batches: str, hint: str
) -> ConfigError | UsageError:
    """The error where batches cannot be compared with a bound; `hint` is about `begin`."""
    message = f"{bound} does not fit {model.name}, whose batches are {batches}"
    if what == "begin":
        return ConfigError(message, span=Span(model.path), hint=hint)
    return UsageError(message, hint="name batches with --batch, or leave the model out")


def batch_of_run(started: dt.datetime, ledger: Mapping[str, BatchRecord]) -> str:
    """The batch of a run of a model without `batch_by`: when it started, to the second.

    To the microsecond where a run before it started in the same second.
    """
    name = started.strftime("%Y-%m-%d %H:%M:%S")
    return started.strftime("%Y-%m-%d %H:%M:%S.%f") if name in ledger else name


@dataclass(frozen=True)
class BatchChoice:
    """The batches to check, those among them without any row, and what to tell the user.

    `newest` is the newest batch with rows, whether it is checked or not, where all were looked at
    for what is new. `sizes` are the numbers of rows of batches, where they were counted; without
    `batch_by` those that the run before found.
    `owed` are batches of earlier runs with checks that could not be computed, newest first.
    `gone` is how many batches were checked before of a model that has no rows at all now; None of
    one that has rows, or was not asked for all of them. `aged` says that nothing is new: the newest
    batch is checked again because of its age alone. `unbatched` rows belong to no batch, where the
    newest one is looked at. `unfinished` batches were being checked when a run was killed, and have
    no rows any more. `lost` are those that were checked and have none now. `unjudged` are checked
    ones that some monitors wait to judge. `reviewed` are those to check that a person has reviewed,
    and that have as many rows as then: they are settled unless their values have changed.
    """

    batches: tuple[str, ...]
    empty: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    newest: str | None = None
    gone: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    aged: bool = False
    owed: tuple[str, ...] = ()
    unbatched: int = 0
    unfinished: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    reviewed: tuple[str, ...] = ()

    def with_empty(self, batches: Sequence[str]) -> BatchChoice:
        """The choice and batches that have no rows any more."""
        notes = (*self.notes, *_empty_note(batches))
        return replace(self, batches=(*self.batches, *batches), empty=(*batches,), notes=notes)

    def parted(self, rest: Collection[str]) -> tuple[BatchChoice, BatchChoice]:
        """The choice in two parts: without the batches `rest`, and these."""
        first, then = (
            replace(
                self,
                batches=tuple(b for b in self.batches if (b in rest) is late),
                empty=tuple(b for b in self.empty if (b in rest) is late),
            )
            for late in (False, True)
        )
        return first, then


def choose_batches(
    request: BatchRequest,
    counts_by_batch: Mapping[str | None, int],
    ledger: Mapping[str, BatchRecord],
    period: Period | None = None,
    limits: RunLimits | None = None,
    *,
    has_older: bool = False,
) -> BatchChoice:
    """Choose among the batches in the data, by their `counts_by_batch`, by request and ledger.

    Those that were checked and have no rows any more are empty ones; where they are older than all
    others, unless the data `has_older` ones than the period, they may have been deleted for their
    age. Which are checked again where nothing is asked for is said by `_new_ones`.
    """
    present = [b for b in counts_by_batch if b is not None]
    if request.batches:
        empty = tuple(b for b in request.batches if b not in counts_by_batch)
        # Rows without a batch are told with the newest one.
        has_newest = bool(present) and max(present, key=batch_order) in request.batches
        unbatched = counts_by_batch.get(None, 0) if has_newest else 0
        return BatchChoice(request.batches, empty, unbatched=unbatched)
    notes: tuple[str, ...] = ()
    if period is not None and period.bounded:
        inside = {b: period.has(b) for b in present}
        unread = [b for b in present if inside[b] is None]
        if unread and len(unread) == len(present):
            what = _START if request.start else _END if request.end else "begin"
            hint = "leave begin out, or name batches by times"
            raise _unfit(period.model, what, what, f"called {unread[0]!r}", hint)
        notes = _unreadable_note(unread, period)
        present = [b for b in present if inside[b]]
    asked = bool(request.start or request.end)
    if not counts_by_batch and not asked:
        bounds = period if period is not None and period.bounded else None
        return BatchChoice((), gone=sum(bounds is None or bool(bounds.has(b)) for b in ledger))
    done = {b for b, r in ledger.items() if r.status is not BatchStatus.INCOMPLETE}
    lost = {b for b in done.difference(counts_by_batch) if ledger[b].rows or request.full_refresh}
    if asked:
        lost = {b for b in lost if period is None or period.has(b)}
    vanished = sorted(lost, key=batch_order) if has_older else _vanished(lost, present)
    unbatched = counts_by_batch.get(None, 0) if request.end is None else 0
    choice = BatchChoice(tuple(present), notes=notes, unbatched=unbatched)
    if asked:
        return choice.with_empty(vanished)
    unfinished = tuple(sorted(set(ledger).difference(done, counts_by_batch), key=batch_order))
    choice = replace(
        choice,
        notes=(*notes, *_unfinished_note(unfinished)),
        unfinished=unfinished,
        lost=tuple(lost),
    )
    if request.full_refresh:
        return choice.with_empty(vanished)
    return _new_ones(choice, counts_by_batch, ledger, vanished, limits or RunLimits())


def _new_ones(
    choice: BatchChoice,
    counts_by_batch: Mapping[str | None, int],
    ledger: Mapping[str, BatchRecord],
    vanished: Sequence[str],
    limits: RunLimits,
) -> BatchChoice:
    """Of a choice of all batches those that are new, and those to be checked again.

    The newest `lookback` batches that have begun are checked again if anything is new, or if rows
    are known to be restated; those that a person has reviewed, and that have as many rows as then,
    are to be looked at first (`reviewed` of the choice). Others are checked again if they were not
    over when they were checked, and have another number of rows now.
    """
    present = choice.batches
    checked = [b for b in present if b in ledger and ledger[b].status is not BatchStatus.INCOMPLETE]
    known = sorted([*present, *vanished], key=batch_order)
    begun = [b for b in known if has_begun(b, limits.now)]
    newest = set(begun[max(0, len(begun) - limits.lookback) :])
    empty = [b for b in vanished if b in newest]
    changed = {b for b in checked if counts_by_batch[b] != ledger[b].rows}
    usual = usual_length(ledger.values()) if changed else dt.timedelta()
    late, early = changed & newest, {b for b in changed if was_open(ledger[b], usual)}
    again = late | early
    # Of those that dbt has built again it has said which.
    if limits.restated or empty or again or any(b not in ledger for b in present):
        again |= newest.intersection(checked)
    settled = set(checked).difference(again)
    rewritten = limits.rewritten and not changed and not vanished and settled == {*present}
    owed = sorted((b for b in settled if ledger[b].uncomputed), key=batch_order, reverse=True)
    notes = (*choice.notes, *_again_note(late - early), *_early_note(early))
    choice = replace(
        choice,
        batches=tuple(b for b in present if b not in settled),
        notes=(
            *notes,
            *_changed_note(changed - again),
            *_rewritten_note(known if rewritten else ()),
        ),
        newest=max(present, key=batch_order, default=None),
        owed=tuple(owed),
        unjudged=tuple(b for b in checked if ledger[b].judged_from is not None),
        reviewed=tuple(b for b in present if b in (again & limits.reviewed) - changed),
    ).with_empty(empty)
    rest = [b for b in vanished if b not in newest]
    lost = _recheck_note(rest, "no rows any more", " ".join(batch_flags(rest)))
    return replace(choice, notes=(*choice.notes, *lost))


def _unreadable_note(batches: Sequence[str], period: Period) -> tuple[str, ...]:
    if not batches:
        return ()
    of = f"of {period.model.name}"
    left = plural(len(batches), f"batch {of} was", f"batches {of} were")
    return (f"{left} left out: {batches[0]!r} is not a time",)


def _again_note(again: set[str]) -> tuple[str, ...]:
    late = plural(len(again), "late batch is", "late batches are")
    return (f"{late} checked again (lookback)",) if again else ()


def _early_note(again: set[str]) -> tuple[str, ...]:
    if not again:
        return ()
    first = first_of(sorted(again, key=batch_order), 1)
    were, has = "was not over when it was", "has"
    if len(again) > 1:
        were, has = "were not over when they were", "have"
    return (f"{first} {were} checked, and {has} other rows now: checked again",)


def _changed_note(batches: set[str]) -> tuple[str, ...]:
    changed = sorted(batches, key=batch_order)
    if len(changed) <= _SHOWN:
        return _recheck_note(changed, "other rows now", " ".join(batch_flags(changed)))
    return _recheck_note(changed, "other rows now", onward_flags(changed[0], changed))


def _rewritten_note(known: Sequence[str]) -> tuple[str, ...]:
    """What to do about values that were replaced by others in as many rows."""
    if not known:
        return ()
    return (
        "files that it reads were written again, but no batch has another number of rows; check"
        f" values that were corrected with {batch_flags(known[-1:])[0]} and the like, or set"
        " `lookback`",
    )


def _vanished(lost: Collection[str], present: Sequence[str]) -> list[str]:
    """The batches without rows; older ones than all present may have been deleted for their age."""
    oldest = min(map(batch_order, present), default=None)
    found = (b for b in lost if oldest is not None and oldest < batch_order(b))
    return sorted(found, key=batch_order)


def _empty_note(batches: Sequence[str]) -> tuple[str, ...]:
    if not batches:
        return ()
    have = plural(len(batches), "checked batch has", "checked batches have")
    return (f"{have} no rows any more: {first_of(batches, 3)}; checked again as empty",)


def _unfinished_note(batches: Sequence[str]) -> tuple[str, ...]:
    if not batches:
        return ()
    were = plural(len(batches), "batch was", "batches were")
    names = " ".join(batch_flags(batches))
    return (f"{were} not checked to the end, and there are no rows any more: check with {names}",)


def _recheck_note(changed: Collection[str], what: str, flags: str) -> tuple[str, ...]:
    if not changed:
        return ()
    have = plural(len(changed), "checked batch has", "checked batches have")
    them = "it" if len(changed) == 1 else "them"
    return (f"{have} {what}; check {them} again with {flags}",)


def batch_flags(batches: Sequence[str]) -> list[str]:
    """The options of a command that name batches, of many the first ones."""
    shown = [f"--batch {shlex.quote(b)}" for b in batches[:_SHOWN]]
    return [*shown, "..."] if len(batches) > _SHOWN else shown


def onward_flags(first: str, later: Collection[str]) -> str:
    """The options of a command that name the `later` batches of one that was checked late."""
    if not has_place(first):
        # Its name says nothing about time.
        return " ".join(batch_flags(sorted(later, key=batch_order)))
    return f"--event-time-start {shlex.quote(first)}"


def outdated_note(
    before: Mapping[str, BatchRecord],
    sound: Collection[str],
    batches: Sequence[str],
    left_out: Collection[str] = (),
    what: str = "run",
) -> tuple[str, ...]:
    """Say when stored cumulative values of later batches were measured without these batches.

    `before` is the ledger before the run that checked `batches`, or before `what` changed which of
    them count; `left_out` are not measured again, or are measured in this run.
    """
    changed = [b for b in batches if b in sound or (b in before and before[b].counts)]
    later, flags = _later(before, changed, {*batches, *left_out})
    if not later:
        return ()
    return (
        f"the cumulative metrics of {later} were measured before this {what}; measure them again"
        f" with {flags}",
    )


def unlike_before_note(
    before: Mapping[str, BatchRecord],
    after: Mapping[str, BatchRecord],
    batches: Sequence[str],
    left_out: Collection[str] = (),
) -> tuple[str, ...]:
    """Say which later batches monitors judged by another history than they have now.

    `before` and `after` are the ledgers of before and after the run that checked `batches`;
    `left_out` are judged in this run, too.
    """
    # Other names say nothing of what comes first.
    named = filter(has_place, batches)
    changed = [b for b in named if _weight(before.get(b)) != _weight(after.get(b))]
    later, flags = _later(before, changed, {*batches, *left_out})
    if not later:
        return ()
    return (f"monitors judged {later} before this run; judge them again with {flags}",)


def _weight(record: BatchRecord | None) -> tuple[object, ...] | None:
    """What a batch is to monitors of later ones."""
    return None if record is None else (record.status is BatchStatus.ACCEPTED, record.rows)


def _later(
    before: Mapping[str, BatchRecord], changed: Sequence[str], tested: Collection[str]
) -> tuple[str, str]:
    """How many batches are behind the first of some, and the options that name them."""
    if not changed:
        return "", ""
    first = min(changed, key=batch_order)
    # Without rows, none is found by its time.
    known = [b for b, record in before.items() if record.rows and b not in tested]
    later = [b for b in known if batch_order(b) > batch_order(first)]
    if not later:
        return "", ""
    return plural(len(later), "later batch", "later batches"), onward_flags(first, later)
