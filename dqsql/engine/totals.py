"""Which batches cumulative metrics are about, and the running totals that may stand for them.

Which batches count is said in `BatchRecord.counts`. The running totals of a model
(`dq_total__<model>`, a row a segment; `dq_frequency_total__<model>`, a row a segment and value) are
of all counted batches up to `up_to`; `made_of` is a fingerprint of the ledger's entries of these
batches. So no crash, late batch, repeated or rejected batch needs
a protocol of its own: whenever the ledger says otherwise than the total, the total is built again
from the rows of the state table.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from dqsql.compiler import cumulative
from dqsql.compiler.counts import (
    COUNT_TYPES,
    counted_states,
    marks_query,
    tables_of,
    total_counts,
    with_counted,
)
from dqsql.compiler.meaning import Meaning
from dqsql.dialect import quoted, to_spark, to_sql
from dqsql.engine.execution import ModelExecution
from dqsql.engine.failures import translated
from dqsql.engine.feasible import Feasible
from dqsql.engine.measurement import Measurement
from dqsql.engine.selects import fetched, select
from dqsql.engine.session_use import put_view
from dqsql.engine.storage_base import COUNTS, STATES, TableFamily
from dqsql.engine.values import survives_arrow
from dqsql.errors import StorageError
from dqsql.model.batches import batch_order
from dqsql.model.plan import StateColumn
from dqsql.model.project import Scope
from dqsql.model.results import BatchRecord
from dqsql.model.wording import first_of, plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_BEFORE_ALL = -1


@dataclass(frozen=True)
class StateHistory:
    """The batches that cumulative metrics of a run are about.

    `counted` are batches checked before that count, in any order; `tested` those under test.
    `made_of` is the fingerprint of `counted`.
    """

    counted: tuple[str, ...]
    tested: tuple[str, ...]
    made_of: str

    @property
    def appends(self) -> bool:
        """Whether every tested batch lies behind all counted ones."""
        if not self.counted:
            return True
        last = max(batch_order(b) for b in self.counted)
        return all(batch_order(b) > last for b in self.tested)


@dataclass(frozen=True)
class Kept:
    """The history of one family of tables of a model, for statements that read the view `view`.

    `columns` are what a row holds besides batch and segment, with the types that they have in a
    total. A total of `few` rows is stored without a job of Spark's.
    """

    spark: SparkSession
    store: Store
    model: str
    family: TableFamily
    view: str
    columns: Mapping[str, str]
    few: bool = False

    def use(self, history: StateHistory, passed: frozenset[str]) -> bool:
        """Put the rows of `history` before the statements; `passed` tested batches count.

        Where all tested batches come after the running total, and it is up to date, it stands for
        the batches before: no other row that is kept by batch is read. Returns whether it does.
        """
        base = self._usable_total(history) if history.counted and history.appends else None
        earlier = () if base is not None else history.counted
        rows = self._placed((*earlier, *history.tested), history, passed)
        if base is not None:
            rows = base.unionByName(rows)
        put_view(rows, self.view)
        return base is not None

    def query(self, statement: exp.Expr) -> DataFrame:
        """What a statement over the view gives."""
        with translated(f"merging the states of {self.model} failed"):
            return self.spark.sql(to_spark(statement))

    def store_total(self, total: exp.Expr, counted: Sequence[str], made_of: str) -> None:
        """Store the running total of all that counts; `made_of` is the fingerprint of `counted`.

        `total` is the statement that merges what the view has.
        """
        last = max(counted, key=batch_order) if counted else None
        labels = pa.table(
            {
                "up_to": pa.array([last], pa.string()),
                "batches": pa.array([len(counted)], pa.int64()),
                "made_of": pa.array([made_of], pa.string()),
            }
        )
        with translated(f"merging the states of {self.model} failed"):
            rows = select(self.spark, to_spark(total))
            rows = rows.selectExpr("segment", *self._texts(rows))
            rows = rows.crossJoin(self.spark.createDataFrame(labels).hint("broadcast"))
            total_rows = fetched(rows) if self.few else rows
        self.store.replace_total(self.model, total_rows, self.family)

    # --- rows ----------------------------------------------------------------------------------

    def _usable_total(self, history: StateHistory) -> DataFrame | None:
        frame = self.store.read_total(self.model, self.family)
        if frame is None:
            return None
        with translated(f"cannot read the running total of {self.model}"):
            fingerprints = fetched(frame.select("made_of").distinct())["made_of"].to_pylist()
        if fingerprints != [history.made_of]:
            return None
        return frame.selectExpr(
            "cast(null as string) as batch",
            "segment",
            *self._texts(frame),
            f"{_BEFORE_ALL} as position",
            f"{_BEFORE_ALL} as block",
            "true as counts",
            "false as tested",
        )

    def _placed(
        self, batches: Sequence[str], history: StateHistory, passed: frozenset[str]
    ) -> DataFrame:
        """The state rows of some batches, each with its place and part."""
        ordered = sorted(batches, key=batch_order)
        size = max(1, math.isqrt(len(ordered)))
        tested = set(history.tested)
        places = pa.table(
            {
                "batch": ordered,
                "position": pa.array(range(len(ordered)), pa.int32()),
                "block": pa.array([i // size for i in range(len(ordered))], pa.int32()),
                "counts": [b not in tested or b in passed for b in ordered],
                "tested": [b in tested for b in ordered],
            }
        )
        rows = self.store.read_state(self.model, ordered, self.family)
        if rows is None:
            raise StorageError(
                f"the state of the checked batches of {self.model} is missing",
                hint="check all batches again with --full-refresh",
            )
        rows = rows.selectExpr("batch", "segment", *self._texts(rows))
        return rows.join(self.spark.createDataFrame(places).hint("broadcast"), "batch")

    def _texts(self, frame: DataFrame) -> list[str]:
        """The columns with the types of a total, as SQL; null where they were not computed."""
        have = set(frame.columns)
        texts = []
        for column, kind in self.columns.items():
            name = quoted(column)
            value = name if column in have else "null"
            texts.append(f"cast({value} as {kind}) as {name}")
        return texts


def total_type(state_type: str) -> str:
    """The type of a total over states of a type.

    Spark widens the sum of decimals by ten digits; once is enough for a total, however many
    batches are added one after another.
    """
    match = _DECIMAL.fullmatch(state_type)
    if match is None:
        return state_type
    return f"decimal({min(38, int(match[1]) + 10)},{match[2]})"


# Part of every fingerprint: a change of what totals hold makes the old ones void.
_FORMAT = "1"
# So many columns are named in a note.
_NAMED = 5


@dataclass
class CumulativeRun:
    """The cumulative metrics of one run of a model; `batches` are under test.

    `ledger` is the run's own, which changes as the run goes on. Batches that another `batch_by`
    made do not count, by `meaning`. `notes` are for people.
    """

    execution: ModelExecution
    part: Feasible
    ledger: Mapping[str, BatchRecord]
    batches: tuple[str, ...]
    meaning: Meaning = field(default_factory=Meaning)
    notes: tuple[str, ...] = ()
    _passed: frozenset[str] = frozenset()

    def measure(self, passed: Collection[str]) -> Measurement:
        """The cumulative metrics of the batches under test, of which `passed` count."""
        self._passed = good = frozenset(passed).intersection(self.batches)
        history = self._history(self._parts)
        states = self._states()
        if not states.use(history, good):
            self._note_left_out(self._never_computed(states, history), "these were not measured")
        query = cumulative.prefix_query(self._merged, len(self.batches), states.view)
        if self._counted:
            counts, of_counts = self._counts(), self._history(self._tables)
            if not counts.use(of_counts, good):
                missing = self._never_counted(counts, of_counts)
                self._note_left_out(missing, "these values were not counted")
            segmented = bool(self.execution.plan.model.config.segment_by)
            query = with_counted(
                query, self._counted, self.batches, counts.view, segmented=segmented
            )
        prefixes = states.query(query)
        measured = self.execution.measure_rows(self.part.of_scope(Scope.CUMULATIVE), prefixes)
        if any(outcome.holds is False for outcome in measured.outcomes):
            self.notes += self._uncounted_note(good)
        return measured

    def _uncounted_note(self, passed: Collection[str]) -> tuple[str, ...]:
        """Which totals are not those of all rows, where a check on one fails."""
        tested = set(self.batches)
        earlier = [r for r in self.ledger.values() if r.batch not in tested and r.rows]
        # A batch counts in its own total, whatever else failed.
        out = sum(not r.counts for r in earlier) + len({*self.batches[:-1]}.difference(passed))
        if not out:
            return ()
        of = plural(len(earlier) + len(tested), "batch", "batches")
        return (
            f"a cumulative check fails; cumulative metrics leave out {out:,} of {of} because other"
            " checks failed on them; `dqsql review list` shows what you can accept",
        )

    def store_total(self) -> None:
        """Store the totals of all that counts by the ledger, which has the verdicts of `batches`.

        `measure` must have been called before. Where other batches have come to count since, the
        next run builds the totals.
        """
        counted = self._counting(self.ledger.values())
        names = [r.batch for r in counted]
        if not counted or self._passed != frozenset(names).intersection(self.batches):
            return
        states = self._states()
        total = cumulative.total_query(self._merged, states.view)
        states.store_total(total, names, fingerprint(counted, self._parts))
        if self._counted:
            counts = self._counts()
            made_of = fingerprint(counted, self._tables)
            counts.store_total(total_counts(counts.view), names, made_of)

    @property
    def _merged(self) -> tuple[StateColumn, ...]:
        return cumulative.cumulative_states(self.part.states, self.part.metrics)

    @property
    def _counted(self) -> tuple[StateColumn, ...]:
        return counted_states(self.part.states, self.part.metrics)

    @property
    def _parts(self) -> list[str]:
        """What a total of states is made of, besides the batches."""
        ordered = sorted(self._merged, key=lambda s: s.name)
        return [f"{s.name}={to_sql(s.scan)}" for s in ordered]

    @property
    def _tables(self) -> list[str]:
        """What a total of counts is made of, besides the batches."""
        return sorted(tables_of(self._counted))

    def _states(self) -> Kept:
        types = {s.name: total_type(self.part.types[s.name]) for s in self._merged}
        return self._kept(STATES, "history", types)

    def _counts(self) -> Kept:
        return self._kept(COUNTS, "counts of values", COUNT_TYPES)

    def _kept(self, family: TableFamily, view: str, columns: Mapping[str, str]) -> Kept:
        model = self.execution.plan.model.name
        name = f"dqsql__{model}: {view}"
        segmented = bool(self.execution.plan.model.config.segment_by)
        few = not family.large and not segmented and all(map(survives_arrow, columns.values()))
        return Kept(self.execution.spark, self.execution.store, model, family, name, columns, few)

    def _history(self, parts: Iterable[str]) -> StateHistory:
        tested = set(self.batches)
        counted = self._counting(r for r in self.ledger.values() if r.batch not in tested)
        names = tuple(r.batch for r in counted)
        return StateHistory(names, self.batches, fingerprint(counted, parts))

    def _counting(self, records: Iterable[BatchRecord]) -> list[BatchRecord]:
        """The batches that count, in order."""
        same = (r for r in records if r.counts and self.meaning.same_batches(r.fingerprint))
        return sorted(same, key=lambda r: batch_order(r.batch))

    def _never_computed(self, states: Kept, history: StateHistory) -> int:
        """Of how many counted batches a state is missing, or all that was stored of them."""
        if not history.counted:
            return 0
        rows = fetched(
            states.query(cumulative.missing_query(self._merged, states.view))
        ).to_pylist()
        gone = len(history.counted) - int(rows[0][cumulative.BATCHES])
        return gone + cumulative.batches_without(rows[0], self._merged)

    def _never_counted(self, counts: Kept, history: StateHistory) -> int:
        """Of how many batches a table of values is missing; each counted batch has its mark."""
        marks = fetched(counts.query(marks_query(counts.view)))
        have = dict(zip(marks["counted"].to_pylist(), marks["batches"].to_pylist(), strict=True))
        wanted = len(history.counted)
        return max((wanted - have.get(table, 0) for table in self._tables), default=0)

    def _note_left_out(self, batches: int, why: str) -> None:
        """Say that checks came later than batches which their metrics are about."""
        if batches > 0:
            earlier = plural(batches, "earlier batch")
            self.notes += (
                f"cumulative metrics leave out {earlier}, in which {why} yet;"
                " --full-refresh checks all batches again",
            )


def fingerprint(counted: Iterable[BatchRecord], parts: Iterable[str]) -> str:
    """What a total is made of: the batches, the run that computed each, and `parts` of these."""
    digest = hashlib.sha256(_FORMAT.encode())
    for record in sorted(counted, key=lambda r: batch_order(r.batch)):
        digest.update(f"\n{record.batch}\t{record.run_id}".encode())
    for part in parts:
        digest.update(f"\n{part}".encode())
    return digest.hexdigest()


def meaning_notes(
    meaning: Meaning, before: Mapping[str, BatchRecord], batches: Collection[str]
) -> tuple[str, ...]:
    """What a model's batches and columns are made of otherwise than the newest batch before.

    `before` is the ledger of before the run, `batches` are those that are checked again.
    """
    # One without rows is not found to be checked again.
    known = (r for b, r in before.items() if b not in set(batches))
    earlier = [r for r in known if r.fingerprint and r.rows]
    if not earlier:
        return ()
    last = max(earlier, key=lambda r: batch_order(r.batch))
    again = "--full-refresh checks all batches again"
    notes = [
        f"{change}: cumulative metrics leave out earlier batches of it; {again}"
        for change in meaning.changes(last.fingerprint)
    ]
    if (segments := meaning.other_segments(last.fingerprint)) is not None:
        notes.append(f"{segments}: its segments begin anew; {again}")
    notes += [
        f"{change}: cumulative metrics have earlier batches as they were then; {again}"
        for change in meaning.other_rows(last.fingerprint)
    ]
    if watched := meaning.watched_otherwise(last.fingerprint):
        notes.append(
            f"the SELECT computes {first_of(watched, _NAMED)} by another expression than before:"
            f" monitors compare with earlier batches as they were then; {again}"
        )
    if meaning.same_batches(last.fingerprint) and meaning.made_otherwise(last.fingerprint):
        notes.append(
            f"the SELECT computes {meaning.batch_by} by another expression than before, and batches"
            f" whose names were checked before are not checked again; {again}"
        )
    return tuple(notes)
