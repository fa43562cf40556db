"""Suggests checks for a relation: profile a sample, apply the rules, validate, write.

Candidates are learned from a sample of the rows (a tenth, chosen by a hash of the row, so that the
same data gives the same suggestions) and validated on all accepted batches; how far they hold on
the rows that were held out is told with each. Source: Schelter et al., VLDB 2018, 3.3 and 5.3.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.auto import features_of
from dqsql.compiler.catalog import Catalog
from dqsql.compiler.keys import identifier_table
from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.segments import batches_query
from dqsql.dialect import aliased, call, column, formula, literal, quoted, to_sql
from dqsql.engine.batches import BatchRequest, period_of
from dqsql.engine.discovery import find_batches
from dqsql.engine.ledger import read_ledgers
from dqsql.engine.measuring import Measurer, made_up_model
from dqsql.engine.relations import expression_types
from dqsql.engine.statements import drop_views, keep_in_memory, register_query, rows_of, union_sizes
from dqsql.engine.value_samples import sample_values
from dqsql.errors import QueryError, SourceNotFoundError, SqlSyntaxError, UsageError
from dqsql.model.batches import batch_order
from dqsql.model.limits import limits_of
from dqsql.model.project import Project, view_name
from dqsql.model.results import BatchStatus
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.lake_index import learning_index
from dqsql.monitors.subjects import Subject, Subjects, check_names, files_named
from dqsql.patterns.infer import LearnedPattern, infer_pattern, specified
from dqsql.patterns.regex import spark_regex
from dqsql.runner.compilation import Where
from dqsql.runner.profile import ProfileWithSketches, measured_profile
from dqsql.runner.warehouse import Step, open_warehouse, silent
from dqsql.separators import separator_note
from dqsql.suggestions import across, rules
from dqsql.suggestions.batches import (
    DayCounts,
    ProposedBatches,
    day_columns,
    proposed_batches,
    undecided_batches,
)
from dqsql.suggestions.existing import Existing
from dqsql.suggestions.names import unique_names
from dqsql.suggestions.outcomes import decide
from dqsql.suggestions.profiles import ColumnProfile, Kind, Profile, kind_of
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict, without_bounds
from dqsql.suggestions.validation import Rows, Validator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

# Shares that differ by less are one.
_SAME = 1e-9
# The sample has at least so many rows, as far as that is not more than half of the relation.
_ENOUGH = 1_000
_SHARE = 0.1
_PARTS = 1_000_000
# A sample of at most so many values is kept in memory, some hundred megabytes.
_KEPT_CELLS = 20_000_000
# Batches that no person and no check has spoken against.
_DOUBTFUL = frozenset({BatchStatus.FLAGGED, BatchStatus.REJECTED})
# Types that Spark does not hash.
_UNHASHED = ("map<", "variant")
_SAMPLE, _ACCEPTED = "__sample", "__accepted"


def suggest(
    where: Where,
    relation: str,
    *,
    sample: float | None = None,
    holdout: float | None = None,
    spark: SparkSession | None = None,
    step: Step = silent,
) -> Proposal:
    """Suggest checks for a check model, source, table or file.

    `sample` is the share of rows to learn from, in (0, 1]; a tenth by default, and more of a
    relation of few rows. `holdout` says the same by the share of the others, in [0, 1). Raises
    DqsqlError: there is no such relation, it has no rows, or the shares make no sense.
    """
    sample = _share_of(sample, holdout)
    project = where.project()
    files = files_named(project, [relation])
    with open_warehouse(project, spark, step, files) as (session, store):
        subjects = Subjects(project, session)
        subject = _about(project, subjects, relation)
        work = _Suggesting(project, session, store, subjects, subject, step)
        return work.propose(sample)


def _share_of(sample: float | None, holdout: float | None) -> float | None:
    """The share of rows to learn from, where one is given. Raises UsageError."""
    if sample is not None and not 0 < sample <= 1:
        raise UsageError(f"--sample {sample:g} is not in (0, 1]", hint="0.1 is a tenth of the rows")
    if holdout is None:
        return sample
    if not 0 <= holdout < 1:
        raise UsageError(f"--holdout {holdout:g} is not in [0, 1)")
    if sample is not None and abs(sample + holdout - 1) > _SAME:
        raise UsageError(
            f"--sample {sample:g} and --holdout {holdout:g} are not all rows together",
            hint="every row that is not learned from is held out: give one of the two",
        )
    return 1 - holdout


def _about(project: Project, subjects: Subjects, relation: str) -> Subject:
    """The relation; where a check model of its name reads it already, that model."""
    subject = subjects.find(relation)
    if subject.model is not None:
        return subject
    for model in project.models:
        same = model.name in check_names(subject.name)
        reads = subject.unique_id in model.depends_on or subject.reads in model.raw_sql
        if same and reads and model.config.enabled:
            return subjects.find(model.name)
    return subject


@dataclass
class _Suggesting:
    """One relation's suggestions, step by step."""

    project: Project
    spark: SparkSession
    store: Store
    subjects: Subjects
    subject: Subject
    step: Step
    notes: list[str] = field(default_factory=list)
    proposed: ProposedBatches | None = None
    undecided: bool = False

    def __post_init__(self) -> None:
        self.catalog: Catalog = catalog_of(self.project)

    def propose(self, sample: float | None) -> Proposal:
        name = self.subject.name
        self.step(f"{name}: counting rows")
        if self.subject.is_file:
            self.notes.append(
                f"no source names {name} yet; `dqsql suggest {name} --write` says how to declare it"
            )
        if (note := separator_note(list(self.subject.types))) is not None:
            self.notes.append(note)
        if self.subject.model is None:
            self.proposed = self._proposed_batches()
        if self.proposed is not None:
            self.subject = replace(self.subject, batch_by=self.proposed.batch_by)
        batches, batch_type, total = self._batches()
        if not total:
            learns = "suggestions are learned from batches without findings of severity error"
            raise UsageError(
                f"{name} has no rows to learn from",
                hint=f"{learns}, and accepted ones: see `dqsql review list`, or name the source"
                if self.subject.config.batch_by is not None
                else None,
            )
        share = sample if sample is not None else max(_SHARE, min(0.5, _ENOUGH / total))
        rows = self._split(share, batches, batch_type, total)
        try:
            measured = measured_profile(
                self._measurer(rows.view + _SAMPLE), self.subject, self.step
            )
            rows = replace(rows, learned=measured.profile.rows)
            if not rows.learned:
                raise UsageError(
                    f"a share of {share:g} of the {total:,} rows of {name} is none",
                    hint="learn from more of them: --sample 0.1",
                )
            candidates = self._candidates(measured, len(batches))
            decided = self._validated(candidates, rows)
        finally:
            drop_views(self.spark, [view_name(rows.view + s) for s in (_SAMPLE, _ACCEPTED)])
        return Proposal(
            self.subject,
            measured.profile,
            rows.total,
            rows.learned,
            rows.total - rows.learned,
            len(batches),
            tuple(decided),
            tuple(self.notes),
            self.proposed,
        )

    # --- batches -------------------------------------------------------------------------------

    def _proposed_batches(self) -> ProposedBatches | None:
        """The `batch_by` for a relation that no check model reads yet, by one pass over it."""
        private = self.subject.private
        public = {n: t for n, t in self.subject.types.items() if n.lower() not in private}
        columns = day_columns(self.subject.table, public)
        if not columns:
            return None
        metrics = {"rows": "count(*)"}
        for i, each in enumerate(columns):
            metrics[f"d{i}.count"] = each.known
            metrics[f"d{i}.days"] = f"approx_count_distinct({each.day})"
        values = self._measurer(self.subject.view).measure(metrics)
        counts = {
            c.name: DayCounts(int(values[f"d{i}.count"]), float(values[f"d{i}.days"] or 0))
            for i, c in enumerate(columns)
        }
        evidence = columns, counts, int(values["rows"])
        if (note := undecided_batches(*evidence)) is not None:
            self.undecided = True
            self.notes.append(note)
        return proposed_batches(*evidence)

    # --- rows ----------------------------------------------------------------------------------

    def _batches(self) -> tuple[tuple[str, ...], str, int]:
        """The accepted batches that a run looks at, the type of `batch_by`, and how many rows."""
        batch_by = self.subject.config.batch_by
        model = made_up_model(self.subject.view, {}, batch_by)
        if batch_by is None:
            count = exp.select(aliased(call("count", exp.Star()), "n"))
            count = count.from_(self._table)
            totals = rows_of(self.spark, count, f"cannot count the rows of {self.subject.name}")
            return (), "string", int(totals[0]["n"])
        table = to_sql(self._table)
        kind = expression_types(self.spark, table, [batch_by], self.subject.name)[0]
        query = batches_query(model, spark_type=kind)
        assert query is not None, "there is a batch_by"
        ledger = read_ledgers(self.store).get(self.subject.name, {})
        doubtful = {b for b, record in ledger.items() if record.status in _DOUBTFUL}
        rows = find_batches(self.spark, self.subject.name, query).rows
        accepted = {b: n for b, n in rows.items() if b is not None and b not in doubtful}
        if self.subject.model is not None:
            # No run checks what lies before `begin`.
            begin = limits_of(self.subject.model, self.project).begin
            period = period_of(BatchRequest(), begin, self.subject.model, kind)
            if period.bounded:
                accepted = {b: n for b, n in accepted.items() if period.has(b)}
        ordered = tuple(sorted(accepted, key=batch_order))
        return ordered, kind, sum(accepted.values())

    @property
    def _table(self) -> exp.Table:
        return identifier_table(view_name(self.subject.view))

    def _split(self, share: float, batches: Sequence[str], kind: str, total: int) -> Rows:
        """Register the sample as a view; the held-out rows are those of no part of it."""
        hashed = [
            column(n) for n, t in self.subject.types.items() if not any(u in t for u in _UNHASHED)
        ]
        place = call("pmod", call("xxhash64", *hashed), _PARTS)
        limit = round(share * _PARTS)
        accepted = self._accepted(batches, kind)
        whole = exp.select(exp.Star()).from_(self._table)
        if accepted is not None:
            whole = whole.where(accepted)
        sample = whole.copy()
        if hashed and share < 1:
            sample = sample.where(formula("{0} < {1}", place, literal(limit)))
        register_query(self.spark, whole, view_name(self.subject.view + _ACCEPTED))
        register_query(self.spark, sample, view_name(self.subject.view + _SAMPLE))
        if hashed and share * total * len(self.subject.types) <= _KEPT_CELLS:
            # Every pass over the sample would read all rows to find it.
            keep_in_memory(self.spark, view_name(self.subject.view + _SAMPLE))
        held_out = to_sql(formula("{0} >= {1}", place, literal(limit))) if share < 1 else None
        return Rows(self.subject.view, tuple(batches), kind, total, total, held_out)

    def _accepted(self, batches: Sequence[str], kind: str) -> exp.Expr | None:
        model = made_up_model(self.subject.view, {}, self.subject.config.batch_by)
        return BatchFilter(tuple(batches), kind, self.subject.types).condition(model)

    # --- candidates ----------------------------------------------------------------------------

    def _measurer(self, view: str) -> Measurer:
        return Measurer(self.spark, self.project, self.catalog, view)

    def _candidates(self, measured: ProfileWithSketches, batches: int) -> list[Suggestion]:
        profile = measured.profile
        volume = rules.volume_suggestion(batches)
        ordered = self.subject.model is None
        evidence = rules.ColumnEvidence(profile, self.subject.table, unique_names(), ordered)
        suggestions = [
            Suggestion(
                "RetainType",
                "schema",
                None,
                "schema",
                f"{len(profile.columns)} columns with their types",
                takes_column=False,
            ),
            *rules.column_suggestions(evidence),
            *self._patterns(profile),
            *self._foreign_keys(measured),
            *across.date_orders(profile),
            *self._dependencies(profile),
            *([volume] if volume is not None and not self._watches_volume() else []),
        ]
        if self.undecided:
            suggestions = [s for s in map(without_bounds, suggestions) if s is not None]
        order = {c.name: i for i, c in enumerate(profile.columns)}
        suggestions.sort(key=lambda s: order.get(s.column or "", len(order)))
        annotations = self.subject.model.annotations if self.subject.model is not None else ()
        return Existing.from_annotations(annotations).marked(suggestions)

    def _watches_volume(self) -> bool:
        """Whether `monitors` of the model asks for the number of rows already."""
        return self.subject.model is not None and "volume" in features_of(self.subject.model)

    def _patterns(self, profile: Profile) -> Iterator[Suggestion]:
        """Patterns of the index of the lake, or of the one that is shipped."""
        wanted = [c for c in profile.columns if rules.wants_pattern(c)]
        if not wanted:
            return
        self.step(f"{self.subject.name}: patterns")
        view = to_sql(identifier_table(view_name(self.subject.view + _SAMPLE)))
        samples = sample_values(self.spark, self.subject.name, view, [c.name for c in wanted])
        index = learning_index(self.store)
        for each in wanted:
            values = samples[each.name].spread()
            learned = infer_pattern(values, index)
            if not isinstance(learned, LearnedPattern):
                continue
            share = learned.nonconforming / max(1, learned.rows)
            why = f"all values match; the risk of a false alarm is about {learned.fpr:.1%}"
            wide = rules.pattern_suggestion(each, learned.pattern, learned.spark_regex, share, why)
            narrow = specified(learned.parsed, values)
            made = None
            if narrow != learned.parsed:
                why = f"all of {len(values):,} values have this form"
                made = rules.pattern_suggestion(
                    each, narrow.text, spark_regex(narrow), share, why, weaker=wide
                )
            if (suggested := made or wide) is not None:
                yield suggested

    def _foreign_keys(self, measured: ProfileWithSketches) -> Iterator[Suggestion]:
        """Inclusion by sketches; it is verified exactly with all other candidates."""
        keys = list(self._keys())
        pairs = across.foreign_key_pairs(measured.profile, self.subject.table, keys)
        sketches = [(measured.sketches[c.name], k.sketch) for c, k in pairs]
        sketches += [(k.sketch, k.sketch) for _, k in pairs]
        sizes = union_sizes(self.spark, sketches)
        unions, owns = sizes[: len(pairs)], sizes[len(pairs) :]
        yield from across.foreign_keys(self.subject.table, pairs, unions, owns)

    def _keys(self) -> Iterator[across.KeyColumn]:
        """The columns of the project's other relations that may be keys."""
        for name in self.subjects.others(self.subject):
            self.step(f"{self.subject.name}: keys of {name}")
            try:
                other = self.subjects.find(name)
            except (QueryError, SourceNotFoundError, SqlSyntaxError) as error:
                # It is not what suggestions were asked for.
                self.notes.append(f"{name} is not looked at for keys: {error.message}")
                continue
            yield from key_columns(self._measurer(other.view), other)

    def _dependencies(self, profile: Profile) -> list[Suggestion]:
        candidates = across.dependency_candidates(profile)
        sets = across.column_sets(candidates)
        if not sets:
            return []
        self.step(f"{self.subject.name}: dependencies")
        metrics = {
            f"d{i}": f"approx_count_distinct(struct({', '.join(quoted(n) for n in names)}))"
            for i, names in enumerate(sets)
        }
        values = self._measurer(self.subject.view + _SAMPLE).measure(metrics)
        distinct = {names: float(values[f"d{i}"]) for i, names in enumerate(sets)}
        return across.dependencies(profile, candidates, distinct)

    # --- validation ----------------------------------------------------------------------------

    def _validated(self, candidates: Sequence[Suggestion], rows: Rows) -> list[Suggestion]:
        self.step(f"{self.subject.name}: validating {len(candidates)} candidates")
        tried = {
            f"s{i}": c
            for i, c in enumerate(candidates)
            if c.verdict is not SuggestionVerdict.EXISTS and c.call not in ("schema", rules.MONITOR)
        }
        validator = Validator(
            self.spark,
            self.store,
            self.project,
            self.catalog,
            self.subject,
            rows,
            dt.datetime.now(dt.UTC),
        )
        outcomes = validator.outcomes(tried) if tried else {}
        suggestions: list[Suggestion] = []
        for i, candidate in enumerate(candidates):
            if f"s{i}" in tried:
                suggestions += decide(candidate, outcomes, f"s{i}")
            else:
                suggestions.append(candidate)
        return suggestions


def key_columns(measurer: Measurer, other: Subject) -> Iterator[across.KeyColumn]:
    """The columns of a relation that may be its key, with their sketches, by one pass."""
    wanted = {
        f"k{i}": (n, t)
        for i, (n, t) in enumerate(other.types.items())
        if kind_of(t) in (Kind.INTEGER, Kind.TEXT)
    }
    if not wanted:
        return
    metrics = {"rows": "count(*)"}
    for key, (name, _) in wanted.items():
        metrics[f"{key}.count"] = f"count({quoted(name)})"
        metrics[key] = f"approx_count_distinct({quoted(name)})"
    values = measurer.measure(metrics, sketches=True)
    for key, (name, kind) in wanted.items():
        profile = ColumnProfile(
            name, kind, int(values["rows"]), int(values[f"{key}.count"]), float(values[key] or 0)
        )
        if across.is_key(profile):
            distinct, sketch = float(values[key]), bytes(values[f"sketch:{key}"])
            yield across.KeyColumn(other.name, other.table, name, kind, distinct, sketch)
