"""`@row_anomalies`: rows that are unlike the rows of the accepted batches before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dqsql.compiler.keys import batch_columns
from dqsql.compiler.marked_rows import ROW_BATCH
from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.row_samples import ROW, RowSample, comparable, is_textual
from dqsql.compiler.scan import BatchFilter
from dqsql.decisions.row_anomalies import RowDetector, learn_rows, rows_at
from dqsql.errors import DecisionError, QueryError, UnknownNameError, nearest
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.project import Severity
from dqsql.model.results import Result, Status
from dqsql.model.tables import FAILURES
from dqsql.model.types import type_of
from dqsql.monitors.context import (
    MonitorContext,
    Workplace,
    derived_value,
    failed_status,
    finite,
    learning,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.kinds.row_anomalies.settings import (
    NAME,
    SETTINGS,
    RowSettings,
    column_named,
    lacking,
    learned_from,
    row_settings,
)
from dqsql.monitors.recompute import NOT_DECIDED, Compared, Recomputed, StoredVerdict, status_again

if TYPE_CHECKING:
    import pandas as pd

    from dqsql.engine.row_scores import OddRows

_SHARE = "row_anomaly_share"
# Rows that are kept of a batch, and columns that are named for a row.
_SHOWN_ROWS, _SHOWN_COLUMNS = 100, 5
# Fewer rows are no picture of what is usual.
_FEWEST_ROWS = 100


@dataclass
class _Unit:
    """One monitor, with the rows of batches that were sampled, and the model learned last.

    `odd` is what finds all odd rows of the batches that a model, `odd_by`, failed last.
    """

    monitor: Monitor
    settings: RowSettings
    columns: list[str]
    rows: dict[str, pa.Table] = field(default_factory=dict)
    learned: tuple[tuple[str, ...], RowDetector | DecisionError] | None = None
    odd: OddRows | None = None
    odd_by: RowDetector | None = None


@dataclass
class RowAnomalyDetector:
    """Decides on all `@row_anomalies` of one model."""

    place: Workplace
    context: MonitorContext
    units: list[_Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        defaults = self.context.defaults(NAME)
        for monitor in self.context.plan.monitors_of(NAME):
            settings = row_settings(monitor, defaults)
            self.units.append(_Unit(monitor, settings, self._columns(settings)))

    def prepare(self, batches: Sequence[str]) -> None:
        """Sample the batches of the run, and those before the first of them, in one statement."""
        for unit in self.units:
            if not batches or not unit.columns or self.context.plan.model.config.batch_by is None:
                continue
            reach = unit.settings.window + unit.settings.refit_every
            before = self.context.history.before(batches[0])[-reach:]
            # What Spark refuses is told where the batches are judged.
            with suppress(QueryError):
                self._sample(unit, list(dict.fromkeys([*before, *batches])))

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        return [self._verdict_or_error(unit, batch) for unit in self.units]

    def _verdict_or_error(self, unit: _Unit, batch: str) -> Result:
        try:
            return self._verdict(unit, batch)
        except QueryError as error:
            monitor = unit.monitor
            hint = f" ({error.hint})" if error.hint else ""
            text = f"{monitor.span}: {error.message}{hint}"
            return result_of(monitor, batch, Status.ERROR, text)

    def _verdict(self, unit: _Unit, batch: str) -> Result:
        monitor, settings = unit.monitor, unit.settings
        if self.context.plan.model.config.batch_by is None:
            text = "needs batch_by: rows of earlier runs are not stored, so there is no comparison"
            return result_of(monitor, batch, Status.SKIPPED, text)
        gone = lacking(settings.columns, self.place.types)
        if gone or not unit.columns:
            why = f"there is no column {gone[0]}" if gone else "no column can be compared"
            return result_of(monitor, batch, Status.ERROR, f"{monitor.span}: {why}")
        accepted = self.context.history.before(batch)
        if len(accepted) < settings.min_history:
            return learning(monitor, batch, len(accepted), settings.min_history, 0)
        # Of a batch that was far out, nothing is learned, unless that recurs.
        past = learned_from(accepted, settings)
        usual = self.context.history.usual(monitor.id, past, settings.window)
        past = usual if len(usual) >= settings.min_history else past
        self._sample(unit, [b for b in (*past, batch) if b not in unit.rows])
        there = [b for b in past if unit.rows[b].num_rows]
        number = sum(unit.rows[b].num_rows for b in there)
        if len(there) < settings.min_history or number < _FEWEST_ROWS:
            text = f"{number} rows of {len(there)} earlier batches are too few to compare with"
            return result_of(monitor, batch, Status.SKIPPED, text)
        detector = self._learned(unit, there)
        if isinstance(detector, DecisionError):
            hint = f" ({detector.hint})" if detector.hint else ""
            return result_of(monitor, batch, Status.SKIPPED, f"{detector.message}{hint}")
        return self._decided(unit, detector, batch, there)

    def _decided(
        self, unit: _Unit, detector: RowDetector, batch: str, past: Sequence[str]
    ) -> Result:
        scoring = self._scored(unit, detector, batch)
        monitor = unit.monitor
        if not scoring.rows:
            return result_of(monitor, batch, Status.NO_DATA, "the batch has no rows")
        limit, share = detector.limit(scoring.rows), scoring.odd / scoring.rows
        is_odd = limit is not None and share > limit
        where = monitor.settings.where or ""
        value = derived_value(monitor, batch, _SHARE, where, share, scoring.rows)
        self.context.derived.append(value)
        result = result_of(monitor, batch, Status.PASS, "")
        kept: Sequence[Mapping[str, Any]] = ()
        if is_odd:
            if self._keeps_rows(unit) and not scoring.worst:
                scoring = self._scored(unit, detector, batch, by_spark=True)
            kept = scoring.worst
            for worst in kept:
                about = {name: worst[name] for name in ("score", "reasons")}
                self.context.keep_row(monitor, batch, worst["row"], **about)
            self._note_odd(unit, detector, batch)
            status = failed_status(monitor.severity)
            result = replace(result, status=status, message=_message(scoring, limit or 0.0))
        return with_details(
            with_numbers(result, share, 0.0, limit, share / limit if limit else None),
            rows=scoring.rows,
            odd=scoring.odd,
            threshold=finite(detector.threshold),
            contamination=unit.settings.contamination,
            columns=scoring.columns,
            left_out=dict(detector.left_out),
            history=[past[0], past[-1], len(past)],
            **({"failures": {"table": FAILURES.name, "rows": len(kept)}} if kept else {}),
        )

    # --- rows ----------------------------------------------------------------------------------

    def _sample(self, unit: _Unit, batches: Sequence[str]) -> None:
        from dqsql.engine.row_scores import sampled_rows

        if not batches:
            return
        reader = self._reader(unit, batches, {b: self._size(b) for b in batches})
        statement = reader.sample(unit.settings.sample_size)
        sample = sampled_rows(self.place.spark, self.context.plan.model.name, statement)
        names = np.array(sample[ROW_BATCH].to_pylist(), dtype=object)
        for batch in batches:
            mine = sample.filter(pa.array(names == batch)) if len(names) else sample
            unit.rows[batch] = mine.drop_columns([ROW_BATCH])

    def _columns(self, settings: RowSettings) -> list[str]:
        """The columns that are compared: those named, or all that can be."""
        model = self.place.plan.model
        keys = {c.lower() for c in batch_columns(model)}
        columns = comparable(self.place.types, {*keys, *pii_columns(model)})
        wanted = {c.lower() for c in settings.columns}
        return [c for c in columns if not wanted or c.lower() in wanted]

    def _reader(self, unit: _Unit, batches: Sequence[str], sizes: Mapping[str, int]) -> RowSample:
        """Statements about the rows of some batches."""
        place, where = self.place, unit.monitor.settings.where
        chosen = BatchFilter(tuple(batches), place.batch_type, place.types)
        # How many rows are left of a batch by a condition is not known.
        known = sizes if where is None else {}
        return RowSample(place.plan, (), chosen, place.label, unit.columns, where, known)

    def _size(self, batch: str) -> int:
        """How many rows a batch has; 0 where that is not known."""
        record = self.place.ledger.get(batch)
        return self.context.rows.get(batch, 0 if record is None else record.rows)

    def _values(self, unit: _Unit, rows: pa.Table) -> dict[str, Any]:
        return {name: _values(rows[name], self._is_text(name)) for name in unit.columns}

    def _is_text(self, name: str) -> bool:
        return is_textual(type_of(name, self.place.types))

    def _learned(self, unit: _Unit, past: Sequence[str]) -> RowDetector | DecisionError:
        """What is usual in the rows of some batches; kept until there are others."""
        if unit.learned is None or unit.learned[0] != tuple(past):
            rows = pa.concat_tables([unit.rows[b] for b in past])
            places = np.repeat(np.arange(len(past)), [unit.rows[b].num_rows for b in past])
            rate = unit.settings.fpr or self.context.fpr(unit.monitor)
            try:
                outcome: RowDetector | DecisionError = learn_rows(
                    self._values(unit, rows), places, unit.settings.contamination, rate
                )
            except DecisionError as error:
                outcome = error
            unit.learned = (tuple(past), outcome)
        return unit.learned[1]

    # --- scores --------------------------------------------------------------------------------

    def _scored(
        self, unit: _Unit, detector: RowDetector, batch: str, *, by_spark: bool = False
    ) -> _Found:
        rows = unit.rows[batch]
        known = max(self._size(batch), rows.num_rows)
        if known > unit.settings.sample_size or by_spark:
            return self._scored_by_spark(unit, detector, batch)
        values = self._values(unit, rows)
        scores = detector.model.scores(values)
        outliers = np.flatnonzero(scores > detector.threshold)
        reasons = detector.reasons(rows_at(values, outliers)) if len(outliers) else []
        return _Found(rows.num_rows, len(outliers), _columns(reasons))

    def _scored_by_spark(self, unit: _Unit, detector: RowDetector, batch: str) -> _Found:
        from dqsql.engine.row_scores import scored_rows

        private = pii_columns(self.place.plan.model)
        shown = [c for c in self.place.types if c.lower() not in private]
        scorer = self._scorer(unit, detector)
        rows, outliers, worst = scored_rows(
            self.place.spark,
            self.context.plan.model.name,
            self._reader(unit, [batch], {}).whole(shown),
            scorer.scores,
            scorer.reasons,
            detector.threshold,
            _SHOWN_ROWS,
            ROW,
        )
        reasons = [json.loads(row["reasons"]) for row in worst]
        return _Found(rows, outliers, _columns(reasons), worst if self._keeps_rows(unit) else [])

    def _scorer(self, unit: _Unit, detector: RowDetector) -> RowScorer:
        return RowScorer(detector, tuple((c, self._is_text(c)) for c in unit.columns))

    # --- what is kept --------------------------------------------------------------------------

    def _keeps_rows(self, unit: _Unit) -> bool:
        own = unit.settings.store_failures
        return self.context.store_failures if own is None else own

    def _note_odd(self, unit: _Unit, detector: RowDetector, batch: str) -> None:
        """Say how odd rows of a batch are found, for a run that quarantines rows."""
        from dqsql.engine.row_scores import OddRows

        monitor, wanted = unit.monitor, unit.settings.quarantine
        if wanted is False:
            return
        if unit.odd is not None and unit.odd_by is detector:
            unit.odd.batches.append(batch)
            return
        scorer = self._scorer(unit, detector)
        unit.odd_by = detector
        unit.odd = OddRows(
            check=monitor.id,
            batches=[batch],
            columns=tuple(unit.columns),
            where=monitor.settings.where,
            score=scorer.scores,
            reasons=scorer.reasons,
            threshold=detector.threshold,
            routes=wanted or (wanted is None and monitor.severity is Severity.ERROR),
        )
        self.context.odd.append(unit.odd)


@dataclass(frozen=True)
class _Found:
    """What was found of a batch's rows.

    `columns` says how much each column has to do with it, as shares. `worst` are the oddest rows.
    """

    rows: int
    odd: int
    columns: Mapping[str, float]
    worst: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class RowScorer:
    """Scores rows that are frames of pandas; Spark's workers get a copy of it."""

    detector: RowDetector
    columns: tuple[tuple[str, bool], ...]

    def scores(self, rows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The score of each row."""
        return self.detector.model.scores(self._values(rows))

    def reasons(self, rows: pd.DataFrame) -> list[str]:
        """Why each row is odd, as JSON."""
        return [json.dumps(r) for r in self.detector.reasons(self._values(rows))]

    def _values(self, rows: pd.DataFrame) -> dict[str, Any]:
        return {
            name: [None if v is None or v != v else str(v) for v in rows[name]]  # noqa: PLR0124
            if is_text
            else rows[name].to_numpy(dtype=float, na_value=np.nan)
            for name, is_text in self.columns
        }


def _values(column: pa.ChunkedArray, is_text: bool) -> Any:
    if is_text:
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False).astype(float)


def _columns(reasons: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """The mean share of each column in the reasons of rows, largest first."""
    shares: dict[str, float] = {}
    for row in reasons:
        for reason in row:
            shares[reason["column"]] = shares.get(reason["column"], 0.0) + reason["share"]
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_COLUMNS]
    return {name: round(share / len(reasons), 3) for name, share in ordered}


def _message(scoring: _Found, limit: float) -> str:
    share = scoring.odd / scoring.rows
    # What has but a small part in it has nothing to do with it.
    least = max(scoring.columns.values(), default=0.0) / 4
    names = ", ".join([name for name, part in scoring.columns.items() if part >= least][:3])
    by = f", mostly by {names}" if names else ""
    kept = f"; the oddest {len(scoring.worst):,} are in dq_failures" if scoring.worst else ""
    return (
        f"{scoring.odd:,} of {scoring.rows:,} rows ({share:.2%}) are unlike the rows before{by};"
        f" expected at most {limit:.2%}{kept}"
    )


def _recomputed(stored: StoredVerdict) -> Recomputed:
    """Rows and what was learned of them are not stored: their count and its limit are."""
    row, details = stored.row, stored.details
    if "odd" not in details:
        return NOT_DECIDED
    share = details["odd"] / details["rows"]
    limit = row["upper_bound"]
    return Recomputed(
        (
            status_again(stored, broken=limit is not None and share > limit),
            Compared("share of odd rows", row["observed"], share),
        ),
        note="rows are not stored, so only another run can compute their scores again",
    )


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    known = use.model.columns
    unknown = [] if known is None else lacking(map(column_named, use.arguments), known)
    if known is not None and unknown:
        raise UnknownNameError(
            f"the model {use.model.name} has no column {unknown[0]!r}",
            span=use.annotation.span,
            hint=nearest(unknown[0], known) or f"its columns are {', '.join(known)}",
        )
    return [WatchedMetric(Family.ANY, "rows", "row_count()")]


def _reach(monitor: Monitor, defaults: Mapping[str, Any]) -> Reach:
    row_settings(monitor, defaults)
    # When a model is learned anew depends on how many batches were accepted in all.
    return Reach(None)


KIND = MonitorKind(
    MonitorSpec(name=NAME, settings=SETTINGS, watches=_watches, several=True, symptom="values"),
    detector=RowAnomalyDetector,
    order=60,
    reach=_reach,
    read=row_settings,
    recompute=_recomputed,
)
