"""Predictability: how well naive Bayes tells a column from others (Deequ, VLDB 2018, section 3.1).

`naive_bayes(target, (columns), measure, buckets)` is an aggregate of dqsql's own. Its state is an
array of counted entries, of three kinds:

| g | k | c | t | n |
|---|---|---|---|---|
| 0 | hash of c | class | empty | training rows of the class |
| 1 | hash of the bucket | class | one bucket | its occurrences in training rows of the class |
| 2 | hash of c and t | class | buckets of a row, sorted | held-out rows with this class and these |

A class is a value of the target as text; buckets are hashes of the columns' tokens. A state merges
by adding the counts of equal entries. Of each kind the entries with the least (k, c, t) are kept,
up to a number: an entry that is among the least of a union is among those of every part, so that
merging loses nothing that a single count would have kept.

Every fifth row of equal rows (in target and columns) is held out; where the fives begin is told by
a hash of what is in them. So the split depends on the rows only, not on their order, and rows that
occur once are held out with probability 1/5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.aggregates import base
from dqsql.compiler.aggregates.frequency_scan import TABLE, unpivoted
from dqsql.compiler.keys import BATCH, SEGMENT, not_null, row_number, segment_label, union_all
from dqsql.compiler.trees import has_aggregate, parts_of, where_met
from dqsql.dialect import aliased, as_type, call, column, formula, literal, parse_query, to_sql
from dqsql.errors import UnsupportedExpressionError, nearest
from dqsql.model.plan import StateColumn, StateSource

if TYPE_CHECKING:
    from dqsql.compiler.scan import Scan

_NAIVE_BAYES = "naive_bayes"
_SCORE = "naive_bayes_score"
MEASURES = ("f1", "precision", "recall")

# Bounds of memory and time; docs/predictability.md names them.
MAX_TOKENS = 100
_MAX_COUNTS = 100_000
_MAX_HELD_OUT = 5_000
_MAX_CLASSES = 1_000
_MAX_BUCKETS = 1 << 24
_ONE_IN = 5
# Logarithms are added as whole numbers of 1e-12: the sum does not depend on the order, so that
# equal classes stay equal and two runs predict the same.
_UNITS = "1e12"

_CLASS = "dqsql_class"
_TEXTS = "dqsql_texts"
_ENTRY = ("g", "k", "c", "t", "n")


# --- the aggregate -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Classification(StateSource):
    """What predicts the target from features: SQL expressions over the rows that meet `where`.

    Tokens of the features are hashed to so many `buckets`.
    """

    target: exp.Expr
    features: tuple[exp.Expr, ...]
    buckets: int
    where: exp.Expr | None = None

    @property
    def over_rows(self) -> tuple[exp.Expr, ...]:
        """The expressions over the model's rows."""
        where = () if self.where is None else (self.where,)
        return (self.target, *self.features, *where)

    @property
    def identity(self) -> tuple[object, ...]:
        """Buckets, and what they are of."""
        return (self.buckets, len(self.features), *self.over_rows)

    def rewritten(self, change: Callable[[exp.Expr], exp.Expr]) -> Classification:
        """The same of changed expressions."""
        where = None if self.where is None else change(self.where)
        features = tuple(change(f) for f in self.features)
        return Classification(change(self.target), features, self.buckets, where)


def _naive_bayes(aggregate: base.AggregateCall, relations: base.Relations) -> base.Lowering:
    learned = _classification(aggregate.args, aggregate.where)
    measure = _measure(aggregate.args)
    component = base.Component(
        "nb", exp.Null(), lambda name, group: formula(_MERGE, column(name)), source=learned
    )
    # `_with_scores` replaces the word by the measure of the state column.
    return base.Lowering(
        (component,), lambda states: call(_SCORE, states[0].copy(), measure, learned.buckets)
    )


def _classification(args: Sequence[exp.Expr], where: exp.Expr | None) -> Classification:
    if len(args) != 4:
        raise UnsupportedExpressionError(
            "a prediction needs a target, columns, a measure and a number of buckets",
            hint="for example: @predictability(country, from => (zip, city)) >= 0.9",
        )
    target, given, _, buckets = args
    features = tuple(p.copy() for p in parts_of(given))
    if not features or not all(f.find(exp.Column) for f in features):
        raise UnsupportedExpressionError(
            f"from => {to_sql(given)} names no columns", hint="for example: from => (zip, city)"
        )
    if any(f == target for f in features):
        raise UnsupportedExpressionError(
            f"{to_sql(target)} would be predicted from itself", hint="leave it out of from => (..)"
        )
    if aggregates := [f for f in (target, *features) if has_aggregate(f)]:
        raise UnsupportedExpressionError(
            f"{to_sql(aggregates[0])} is not a value of a row",
            hint="predict columns, or expressions of them",
        )
    return Classification(target.copy(), features, _bucket_count(buckets), where)


def _measure(args: Sequence[exp.Expr]) -> str:
    name = args[2].name or to_sql(args[2])
    if name.lower() not in MEASURES:
        raise UnsupportedExpressionError(
            f"predictability has no measure {name!r}",
            hint=nearest(name, MEASURES) or f"one of {', '.join(MEASURES)}",
        )
    return name.lower()


def _bucket_count(node: exp.Expr) -> int:
    text = node.this if isinstance(node, exp.Literal) and not node.is_string else ""
    if not str(text).isdigit() or not 1 <= int(text) <= _MAX_BUCKETS:
        raise UnsupportedExpressionError(
            f"buckets => {to_sql(node)} is not a whole number from 1 to {_MAX_BUCKETS:,}"
        )
    return int(text)


# Equal entries are neighbours after sorting: `p` has the places where a new one begins.
_SAME = "get(s, a).{f} = get(s, a - 1).{f}"
_SUMMED = (
    "transform(array(filter(sequence(0, size(s) - 1), a -> a = 0 or not ("
    + " and ".join(_SAME.replace("{f}", f) for f in ("g", "k", "c", "t"))
    + "))), p -> transform(p, (a, j) -> named_struct("
    + ", ".join(f"'{f}', get(s, a).{f}" for f in ("g", "k", "c", "t"))
    + ", 'n', aggregate(sequence(a, coalesce(get(p, j + 1), size(s)) - 1), cast(0 as bigint),"
    " (total, i) -> total + get(s, i).n))))"
)
_LEAST = ", ".join(
    f"slice(filter(s, e -> e.g = {g}), 1, {most})"
    for g, most in enumerate((_MAX_COUNTS, _MAX_COUNTS, _MAX_HELD_OUT))
)
_MERGE = (
    "get(transform(transform(array(array_sort(flatten(collect_list({0})))), s ->"
    f" case when size(s) = 0 then s else get({_SUMMED}, 0) end), s -> concat({_LEAST})), 0)"
)


# --- the scan ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _NaiveBayesScan:
    """Computes the states of all predictabilities of a model in one pass over its rows.

    Rows with equal target and columns are counted first, as in a frequency table; only what differs
    is cut into tokens.
    """

    scan: Scan
    states: tuple[StateColumn, ...]

    def query(self) -> exp.Select:
        """One row per batch and segment, as `Scan.query` gives it."""
        counts = self._counts()
        if not self.scan.segments:
            return self._gathered(counts, ())
        whole = _totals(counts, (BATCH, TABLE, _CLASS, _TEXTS), "n")
        return union_all(self._gathered(counts, (SEGMENT,)), self._gathered(whole, ()))

    @property
    def _tables(self) -> list[Classification]:
        return [s.source for s in self.states if isinstance(s.source, Classification)]

    def _counts(self) -> exp.Select:
        """How often each class and texts of columns occur together: keys, class, texts, n."""
        segments = self.scan.segments
        query = exp.select(aliased(self.scan.batch_key, BATCH))
        if segments:
            query = query.select(aliased(segment_label(segments), SEGMENT))
        keys = (BATCH, SEGMENT) if segments else (BATCH,)
        rows = [(literal(i), _class(t), _texts(t)) for i, t in enumerate(self._tables)]
        entries = unpivoted(
            lambda pairs: self.scan.from_batches(query.select(*pairs)),
            rows,
            (TABLE, _CLASS, _TEXTS),
            keys,
        )
        entries = entries.where(not_null(column(_CLASS)))
        return _totals(entries, (*keys, TABLE, _CLASS, _TEXTS))

    def _gathered(self, counts: exp.Select, segment: Sequence[str]) -> exp.Select:
        """The entries of each state, sorted, from the counts."""
        keys = (BATCH, *segment)
        query = exp.select(self.scan.batch_column)
        query = query.select(column(SEGMENT) if segment else aliased(segment_label(()), SEGMENT))
        entry = ", ".join(f"'{f}', {f}" for f in _ENTRY)
        for number, state in enumerate(self.states):
            mine = f"filter (where {TABLE} = {number})"
            entries = formula(f"array_sort(collect_list(named_struct({entry})) {mine})")
            query = query.select(aliased(entries, state.name), copy=False)
        query = query.from_(self._least(counts, keys).subquery("entries"))
        return query.group_by(*map(column, keys))

    def _least(self, counts: exp.Select, keys: Sequence[str]) -> exp.Select:
        """The entries that are kept."""
        names = (*keys, TABLE, *_ENTRY[:-1])
        entries = _totals(self._entries(counts, keys), names, "n")
        rank = row_number((*keys, TABLE, "g"), *map(column, ("k", "c", "t")))
        ranked = exp.select(*map(column, (*names, "n")), aliased(rank, "place"))
        ranked = ranked.from_(entries.subquery("summed"))
        query = exp.select(*map(column, (*names, "n"))).from_(ranked.subquery("ranked"))
        return query.where(
            formula(f"place <= case g when 2 then {_MAX_HELD_OUT} else {_MAX_COUNTS} end")
        )

    def _entries(self, counts: exp.Select, keys: Sequence[str]) -> exp.Select:
        names = (*keys, TABLE)
        buckets = [t.buckets for t in self._tables]
        split = exp.select(
            *map(column, names),
            aliased(column(_CLASS), "class"),
            aliased(formula(_bag(buckets)), "bag"),
            aliased(formula(_HELD_OUT), "held"),
            column("n"),
        )
        split = split.from_(counts.copy().subquery("counts"))
        each = formula(f"inline({_ENTRIES})")
        return exp.select(*map(column, names), each).from_(split.subquery("split"))


_HELD_OUT = (
    f"cast(floor((n + pmod(xxhash64({_CLASS}, {_TEXTS}), {_ONE_IN})) / {_ONE_IN}) as bigint)"
)
_ENTRIES = (
    "filter(concat("
    "array(named_struct('g', 0, 'k', xxhash64(class), 'c', class, 't', slice(bag, 1, 0),"
    " 'n', n - held)),"
    " transform(bag, b -> named_struct('g', 1, 'k', xxhash64(b), 'c', class, 't', array(b),"
    " 'n', n - held)),"
    " array(named_struct('g', 2, 'k', xxhash64(class, bag), 'c', class, 't', bag, 'n', held))"
    "), e -> e.n > 0)"
)


def _bag(buckets: Sequence[int]) -> str:
    """SQL of the sorted buckets of a row's tokens: words in lower case, apart by column."""
    number = str(buckets[0])
    if len(set(buckets)) > 1:
        number = f"get(array({', '.join(map(str, buckets))}), {TABLE})"
    # `split` compiles a regular expression anew for every row, unless it is a single character.
    spaced = r"regexp_replace(lower(coalesce(f, '')), '(?U)\\s+', ' ')"
    words = f"filter(split({spaced}, ' '), w -> w <> '')"
    hashed = f"transform({words}, w -> pmod(hash(i, w), {number}))"
    return f"array_sort(slice(flatten(transform({_TEXTS}, (f, i) -> {hashed})), 1, {MAX_TOKENS}))"


def _class(table: Classification) -> exp.Expr:
    """The class of a row, null where the row takes no part."""
    return where_met(table.where, as_type(table.target.copy(), "string"))


def _texts(table: Classification) -> exp.Expr:
    return call("array", *(as_type(f.copy(), "string") for f in table.features))


def _totals(rows: exp.Select, keys: Sequence[str], counted: str | None = None) -> exp.Select:
    """The number of rows by `keys`, or the sum of the column `counted`, as n."""
    total = formula("sum({0})", column(counted)) if counted else formula("count(*)")
    query = exp.select(*map(column, keys), aliased(total, "n"))
    return query.from_(rows.copy().subquery("totalled")).group_by(*map(column, keys))


# --- from states to measures -------------------------------------------------------------------
#
# score(class | row) = ln(rows of the class) + sum over the row's tokens of
# ln((count of the token in the class + 1) / (tokens of the class + buckets)); the first class by
# name of those with the highest score is predicted. Classes and rows to predict meet in the buckets
# that they share, and all of them in the bucket -1, which none of the tokens has: there the score
# has what does not depend on the row's tokens. One pass without joins: each would read the states
# anew.

_KEYS = "batch, part, metric"
_SCORES = f"""
with entries as (
  select {_KEYS}, inline(counted) from (
    select batch, coalesce(concat('s', segment), '') as part,
      posexplode(array(`dqsql_states`)) as (metric, counted)
    from `dqsql_relation`
  ) as states
),
classed as (
  select *,
    sum(case when g = 0 then n else 0 end) over (partition by {_KEYS}, c) as class_rows,
    sum(case when g = 1 then n else 0 end) over (partition by {_KEYS}, c) as class_tokens
  from entries
),
met as (
  select {_KEYS}, bucket,
    slice(array_sort(collect_list(
      case when g < 2
        then named_struct('place', -class_rows, 'c', c, 'gain', gain, 'norm', norm) end
    )), 1, {_MAX_CLASSES}) as known,
    collect_list(
      case when g = 2 then named_struct('id', k, 'truth', c, 'n', n, 'length', length) end
    ) as held
  from (
    select {_KEYS}, g, k, c, n, class_rows, size(t) as length,
      explode(case g when 0 then array(-1) when 1 then t else concat(array(-1), t) end) as bucket,
      cast(round(ln(case g when 0 then class_rows else n + 1 end) * {_UNITS}) as bigint) as gain,
      case when g = 0 then cast(round(
        ln(class_tokens + get(array(`dqsql_buckets`), metric)) * {_UNITS}) as bigint) else 0 end
        as norm
    from classed where g = 2 or class_rows > 0
  ) as tokens
  group by {_KEYS}, bucket
),
pairs as (
  select {_KEYS}, bucket, one, inline(known) from (
    select {_KEYS}, bucket, known, explode(held) as one from met where size(known) > 0
  ) as each
),
scored as (
  select {_KEYS}, one.id as id, any_value(one.truth) as truth, any_value(one.n) as n, c,
    sum(gain - one.length * norm) as score
  from pairs group by {_KEYS}, one.id, c having count_if(bucket = -1) > 0
),
predicted as (
  select {_KEYS}, any_value(truth) as truth, any_value(n) as n,
    min(named_struct('score', -score, 'c', c)).c as guess
  from scored group by {_KEYS}, id
),
tally as (
  select {_KEYS}, c, sum(support) as support, sum(guesses) as guesses, sum(hits) as hits
  from (
    select {_KEYS}, inline(array(
      named_struct('c', truth, 'support', n, 'guesses', 0, 'hits', 0),
      named_struct('c', guess, 'support', 0, 'guesses', n, 'hits', if(guess = truth, n, 0))
    )) from predicted
  ) as counted group by {_KEYS}, c
),
measures as (
  select {_KEYS},
    sum(2 * support * hits / (guesses + support)) / sum(support) as f1,
    sum(case when guesses > 0 then support * hits / guesses else 0 end) / sum(support)
      as `precision`,
    sum(hits) / sum(support) as recall
  from tally group by {_KEYS}
)
select batch, part from measures group by batch, part
"""


@dataclass(frozen=True)
class _Asked:
    """A measure that a finish asks of a state column."""

    state: str
    measure: str
    buckets: int

    @classmethod
    def of(cls, node: exp.Expr) -> _Asked | None:
        """What a word of a finish asks; None for any other expression."""
        if not isinstance(node, exp.Anonymous) or node.this != _SCORE:
            return None
        state, measure, buckets = node.expressions
        return cls(state.name, measure.name, int(buckets.name))


def _with_scores(finishes: base.Finishes, relation: exp.Expr) -> tuple[base.Finishes, exp.Expr]:
    """The relation of state rows with a column for each measure of a state that finishes read."""
    candidates = (_Asked.of(c) for finish in finishes for c in finish.find_all(exp.Anonymous))
    asked = list(dict.fromkeys(a for a in candidates if a is not None))
    if not asked:
        return finishes, relation
    used = {a.state: a.buckets for a in asked}
    names = {a: f"dqsql_{a.measure}_{list(used).index(a.state)}" for a in asked}

    def finished(node: exp.Expr) -> exp.Expr:
        wanted = _Asked.of(node)
        return node if wanted is None else column(names[wanted])

    measures = _measures(used, relation)
    for wanted, name in names.items():
        mine = literal(list(used).index(wanted.state))
        value = formula("max(case when metric = {0} then {1} end)", mine, column(wanted.measure))
        measures = measures.select(aliased(value, name), copy=False)
    same = formula(
        "{0} = {1} and coalesce(concat('s', {2}), '') = {3}",
        column(BATCH, "s"),
        column(BATCH, "p"),
        column(SEGMENT, "s"),
        column("part", "p"),
    )
    everything = exp.Column(this=exp.Star(), table=exp.to_identifier("s"))
    joined = exp.select(everything, *(column(name, "p") for name in names.values()))
    joined = joined.from_(exp.alias_(relation.copy(), "s", table=True))
    joined = joined.join(measures.subquery("p"), on=same, join_type="left")
    return tuple(f.copy().transform(finished) for f in finishes), joined.subquery("scored")


def _measures(states: Mapping[str, int], relation: exp.Expr) -> exp.Select:
    """The measures of states, given with their buckets, by state row and number of the state."""
    query = parse_query(_SCORES).copy()
    for table in list(query.find_all(exp.Table)):
        if table.name == "dqsql_relation":
            table.replace(relation.copy())
    lists: dict[str, list[exp.Expr]] = {
        "dqsql_states": [column(name) for name in states],
        "dqsql_buckets": [literal(buckets) for buckets in states.values()],
    }
    for array in list(query.find_all(exp.Anonymous)):
        only = array.expressions[0] if len(array.expressions) == 1 else None
        if isinstance(only, exp.Column) and only.name in lists:
            array.set("expressions", lists[only.name])
    return query


@dataclass(frozen=True)
class _LearningPass(base.SourcePass):
    def query(self, scan: Scan, states: Sequence[StateColumn]) -> exp.Select:
        return _NaiveBayesScan(scan, tuple(states)).query()


_LEARNED = _LearningPass("what naive Bayes learns from", 50)


@base.scan_pass.register
def _(source: Classification, columns: Mapping[str, str]) -> base.SourcePass:
    return _LEARNED


AGGREGATES = (
    base.Aggregate(
        (_NAIVE_BAYES,),
        _naive_bayes,
        own=True,
        # Not the measure, which does not enter the state.
        in_state=lambda args: (*args[:2], *args[3:]),
        over_rows=lambda args: args[:2],
        scores=_with_scores,
    ),
)
