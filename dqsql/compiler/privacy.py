"""Columns whose values are shown and stored nowhere.

What is stored of them is counted, added up or hashed with the project's key. A state that holds
values themselves (extremes, quantiles, collected or frequent values) serves the check of its own
batch and is not stored; a metric made of it has no value for others to see.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from dqsql.compiler.made import Definitions
from dqsql.compiler.trees import nodes
from dqsql.dialect import formula, literal, parse_expression, parse_statement
from dqsql.errors import CompileError, DqsqlError, Span, UnknownNameError, nearest
from dqsql.model.plan import PII_KEY, FrequencyTable, Metric, StateColumn
from dqsql.model.project import Annotation, CheckModel, CheckSettings, view_name
from dqsql.templating import locate as locate_text

# Aggregates whose results are made of all rows. That a sum over a single row is its value is the
# one thing that they tell.
_AGGREGATES = frozenset(
    """
    approx_count_distinct avg bool_and bool_or corr count count_if covar_pop covar_samp every
    hll_sketch_agg kurtosis mean regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp sum
    try_avg try_sum var_pop var_samp variance
    """.split()  # noqa: SIM905 - 34 quoted words read worse
)
# Functions of a value that tell little of it.
_MEASURES = frozenset(
    """
    array_size bit_length cardinality char_length character_length isnan isnotnull isnull len
    length octet_length regexp_count regexp_like size typeof
    """.split()  # noqa: SIM905 - 15 quoted words read worse
)
# The pivot of central moments: the upper digits of a value that all rows share, as of their mean.
_SPLITTER = "68719476737"
_VALUE = "value"
# What a model itself calls private, in its `config(..)`.
_OWN_PII = re.compile(r"""\bpii\b["']?\s*[=:]\s*(\[[^\]]*\]|'[^']*'|"[^"]*")""")


def is_private(table: FrequencyTable, private: Collection[str]) -> bool:
    """Whether values of a frequency table are of one of the `private` columns (in lower case)."""
    return _reads(table.columns, private)


def hashed(value: exp.Expr) -> exp.Expr:
    """The hash of a text with the project's key, which the engine puts into the statement."""
    return formula("sha2(concat({0}, {1}), 256)", literal(PII_KEY), value)


def exposing(states: Iterable[StateColumn], private: Collection[str]) -> frozenset[str]:
    """The names of the states that hold values of `private` columns (in lower case)."""
    return frozenset(s.name for s in states if private and _exposes(s, private))


def withheld(
    metrics: Iterable[Metric], states: Iterable[StateColumn], private: Collection[str]
) -> frozenset[str]:
    """The aliases of metrics that may tell values of `private` columns (in lower case)."""
    telling = exposing(states, private)
    return frozenset(
        m.alias
        for m in metrics
        if not telling.isdisjoint(m.states)
        # Hashes with the project's key tell nothing.
        and all(node.name != PII_KEY for node in m.finish.find_all(exp.Literal))
    )


def _exposes(state: StateColumn, private: Collection[str]) -> bool:
    if not _reads(state.over_rows, private):
        return False
    if state.frequency is not None:
        # Counts of the values' numbers of rows, such as the entropy, tell none of them.
        return any(column.name.lower() == _VALUE for column in state.scan.find_all(exp.Column))
    if state.source is not None:
        return True
    return any(
        not _is_covered(column)
        for column in state.scan.find_all(exp.Column)
        if _is_one_of(column, private)
    )


def _is_covered(column: exp.Expr) -> bool:
    """Whether something around a column makes a number of rows, or of letters, of its values."""
    node = column
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.Predicate | exp.Where | exp.Not):
            return True
        if isinstance(parent, exp.If) and parent.this is node:
            return True
        if isinstance(parent, exp.Sub) and any(
            number.name == _SPLITTER for number in parent.find_all(exp.Literal)
        ):
            return True
        if _name(parent) in _AGGREGATES | _MEASURES:
            return True
        node = parent
    return False


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _is_one_of(column: exp.Column, private: Collection[str]) -> bool:
    return not {part.name.lower() for part in column.parts}.isdisjoint(private)


def _reads(expressions: Iterable[exp.Expr], private: Collection[str]) -> bool:
    references = (c for e in expressions for c in nodes(e, exp.Column))
    return any(_is_one_of(c, private) for c in references)


def pii_columns(model: CheckModel) -> frozenset[str]:
    """The columns that must never be stored, in lower case."""
    marked = [c for a in model.annotations if a.settings.pii for c in _about(a)]
    return frozenset(name.lower() for name in (*model.config.pii, *marked))


def private_of_relation(models: Collection[CheckModel], unique_id: str | None) -> frozenset[str]:
    """The private columns of a check model, or of a source by the models that read it.

    A column of a source is also private if a private column of a model is made of one of its name.
    """
    itself = [m for m in models if m.unique_id == unique_id]
    if itself:
        return pii_columns(itself[0])
    readers = [m for m in models if unique_id in m.depends_on]
    made_of = {
        source.rpartition(".")[2]
        for model in readers
        for name in pii_columns(model)
        # Of SQL that sqlglot's lineage does not follow, all that may be meant.
        for source in _sources(model.sql, name) or Definitions.of(model.sql).reached({name})[0]
    }
    return frozenset(made_of).union(*map(pii_columns, readers))


def hides_values(model: CheckModel, column: str | None, settings: CheckSettings) -> bool:
    """Whether what is learned of a column's values is private: by these settings, or anywhere."""
    return settings.pii or (column is not None and column.lower() in pii_columns(model))


def _about(annotation: Annotation) -> Collection[str]:
    """The columns that an annotation is about; every name in it where that is not said."""
    if annotation.column is not None:
        return [annotation.column]
    try:
        ast = parse_expression(annotation.expression, annotation.span)
    except DqsqlError:
        return annotation.candidates
    names = {part.name for c in ast.find_all(exp.Column) for part in c.parts}
    return [*annotation.candidates, *names]


def private_keys(model: CheckModel, batch_by: Sequence[str]) -> list[CompileError]:
    """Names of batches and segments are stored and shown: they must hold no private values."""
    private = pii_columns(model)
    keys = {"batch_by": batch_by, "segment_by": model.config.segment_by}
    errors = []
    for setting, names in keys.items():
        position = locate_text(model.raw_sql, setting)
        place = Span(model.path, *position, setting) if position else Span(model.path)
        errors += [
            CompileError(
                f"{setting} names {name!r}, a private column: its values would be stored",
                span=place,
                hint=f"take another column for {setting}, or take {name!r} out of pii",
            )
            for name in names
            if name.lower() in private
        ]
    return errors


def unknown_private(model: CheckModel, known: Sequence[str]) -> list[UnknownNameError]:
    """An error for each column that a model itself calls private, and does not have.

    A mistyped name would protect nothing. The project's `pii` for a folder of models lists what
    some of them have.
    """
    text = " ".join(_OWN_PII.findall(model.raw_sql))
    own = [n for n in model.config.pii if f"'{n}'" in text or f'"{n}"' in text]
    return unknown_columns(model, own, known)


def require_private(model: CheckModel, known: Sequence[str]) -> None:
    """Raise the first of these errors, for columns that only Spark knows."""
    for error in unknown_private(model, known):
        raise error


def unknown_columns(
    model: CheckModel, named: Iterable[str], known: Sequence[str]
) -> list[UnknownNameError]:
    """An error for each of the columns that the config names, and a model does not have."""
    lower = {c.lower() for c in known}
    return [
        UnknownNameError(
            f"config names the column {name!r}, which the SELECT does not have",
            span=Span(model.path),
            hint=f"{near} Or add it to the SELECT"
            if (near := nearest(name, known)) and model.columns is not None
            else near or f"the columns of the SELECT are {', '.join(known)}",
        )
        for name in named
        if name.lower() not in lower
    ]


# Numbers of rows or of letters: not worth a word.
_HARMLESS = (exp.Count, exp.CountIf, exp.Length, exp.Predicate, exp.Not, exp.Order)
# Parts of expressions that decide which values are shown, and are not themselves.
_DECIDING: dict[type[exp.Expr], str] = {
    exp.If: "this",
    exp.Case: "this",
    exp.Window: "partition_by",
}


def derived_warnings(model: CheckModel, read: Sequence[CheckModel] = ()) -> Iterator[str]:
    """A warning for each column of a model that is made of the same columns as a private one.

    Or of a private column of a model that it reads (`ref`). By sqlglot's lineage of the rendered
    SELECT; what that cannot follow (SQL of Spark that sqlglot does not know) is passed over without
    a word, and a star is only followed to models that are read.
    """
    private = pii_columns(model)
    names = [p.name for p in model.projections if p.name is not None]
    secret = {
        f"{view_name(other)}.{name}".lower(): f"{name} of {other.name}"
        for other in read
        for name in sorted(pii_columns(other))
    }
    taken = _taken_whole(model) if secret else None
    whole = next((m for m in read if view_name(m) == taken), None)
    if whole is not None and (unmarked := pii_columns(whole) - private):
        listed = ", ".join(map(repr, sorted(unmarked)))
        yield (
            f"{model.path}: all columns of {whole.name} are taken, of which {listed} is private"
            f" there; mark it here, too: config(pii = [{listed}])"
        )
    if not secret and not private.intersection(name.lower() for name in names):
        return
    sources = {name: _sources(model.sql, name) for name in names}
    secret |= {s: n for n in names if n.lower() in private for s in sources[n]}
    for name in names:
        made_of = [secret[s] for s in sorted(sources[name]) if s in secret]
        if made_of and name.lower() not in private:
            yield (
                f"{model.path}: the column {name} is derived from {made_of[0]}, which is private;"
                f" mark it, too: config(pii = [.., '{name}'])"
            )


def _taken_whole(model: CheckModel) -> str | None:
    """The one relation of which a SELECT takes all columns by a star."""
    if model.columns is not None:
        return None
    query = parse_statement(model.sql)
    if not isinstance(query, exp.Select) or query.args.get("joins"):
        return None
    stars = [e for e in query.expressions if isinstance(e, exp.Star)]
    from_clause = query.args.get("from_")
    table = None if from_clause is None else from_clause.this
    plain = any(not any(star.args.values()) for star in stars)
    return table.name if plain and isinstance(table, exp.Table) else None


@lru_cache(maxsize=256)
def _sources(sql: str, name: str) -> frozenset[str]:
    """The columns of tables that an output column shows something of, as `table.column`."""
    try:
        root = lineage(exp.column(name, quoted=True), sql, {}, dialect="spark")
    except (SqlglotError, RecursionError, ValueError):
        return frozenset()
    sources = set()
    shown = [(root, name)]
    while shown:
        node, called = shown.pop()
        # Below a star, or in the parts of a UNION, which are numbered, it is called as above.
        is_unnamed = node.name == "*" or node.name.isdigit()
        called = called if node is root or is_unnamed else _column(node.name)
        hidden = _hidden_columns(node.expression)
        shown += [(n, called) for n in node.downstream if _column(n.name) not in hidden]
        if not node.downstream:
            table = node.expression.name if isinstance(node.expression, exp.Table) else ""
            sources.add(f"{table}.{called}".lower())
    return frozenset(sources)


def _hidden_columns(expression: exp.Expr) -> set[str]:
    """The names of the columns in an expression whose values it does not show.

    They are only compared, counted or measured, or decide which of other values is shown.
    """
    columns = list(expression.find_all(exp.Column))
    shown_names = {c.name.lower() for c in columns if _is_revealed(c, expression)}
    return {c.name.lower() for c in columns} - shown_names


def _is_revealed(column: exp.Column, within: exp.Expr) -> bool:
    node: exp.Expr = column
    while node is not within and node.parent is not None:
        part = _DECIDING.get(type(node.parent))
        if node.arg_key == part or isinstance(node.parent, _HARMLESS):
            return False
        node = node.parent
    return True


def _column(name: str) -> str:
    """The name of the column of a node of lineage: `t.email`, `"t"."e-mail"`."""
    try:
        return exp.to_column(name, dialect="duckdb").name.lower()
    except SqlglotError:
        return name.lower()
