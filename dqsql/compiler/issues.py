"""The statement that injects data-quality issues into a sample of good rows.

Source: He et al., "Auto-Validate by History", KDD 2023, section 4.3 and Appendix B: ten types of
issues with parameters. Each variant of a column is one batch of a check model of its own, so that
its metrics come from the very same macros as those of real batches.

The paper's text and the authors' code give different magnitudes (1/10/100 % against 10/50/100 %);
the union of both is used, and each variant says which of them it is from. The paper's "increased
nulls" put a filler, '' or 0, in the place of values; real NULLs are added here. No bound is chosen
by those: missing values have bounds of their own in every program. Numbers that are too small, have
lost their sign or are -1 are added, too, and texts that are cut to their first half: without them
bounds from below would have no use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sqlglot import exp

from dqsql.compiler.keys import batch_text, model_table
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import (
    aliased,
    call,
    column,
    formula,
    identifier,
    literal,
    parse_expression,
    to_sql,
)
from dqsql.errors import Span
from dqsql.model.plan import Family
from dqsql.model.project import Annotation, CheckModel, CheckSettings, ModelConfig, Projection
from dqsql.templating import MacroLibrary

# The sample as it is: what the variants are compared with.
CLEAN = "clean"
# Between the parts of a variant's name; no text that a user writes holds it.
SEPARATOR = "\x1f"
VALUE = "value"
_VARIANT = "variant"
# Of the set of variants: evidence that was made with an older one is renewed. To be raised with any
# change of the variants.
ISSUES_VERSION = 7
# Longer texts are cut in the sample, since characters are changed one by one.
_MAX_TEXT = 1000

# What is left where a column became too narrow.
_FIRST_HALF = "left(value, cast(ceil(length(value) / 2) as int))"

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS = "!#$%&()*+-./:;<=>?@[]^_{|}~"
# Dates and times are numbers of days since 1970-01-01, which is what many a default is.
_NUMERIC = frozenset({Family.NUMERIC, Family.TIME})
_BOTH = _NUMERIC | {Family.TEXT}
_TEXT = frozenset({Family.TEXT})
_TIME = frozenset({Family.TIME})
_NUMBERS = frozenset({Family.NUMERIC})


class IssueSource(StrEnum):
    """Who says that an issue is to be injected in this magnitude."""

    PAPER = "the paper's Appendix B"
    CODE = "the authors' code"
    BOTH = "the paper's Appendix B and the authors' code"
    DQSQL = "dqsql"


_PAPER, _CODE, _SAME = IssueSource.PAPER, IssueSource.CODE, IssueSource.BOTH
_VALUES = {"0.01": _PAPER, "0.1": _SAME, "0.5": _CODE, "1.0": _SAME}
_HALF = {"0.1": _SAME, "0.5": _SAME}
# The shares of values or characters that each kind of issue changes.
_SHARES: Mapping[str, Mapping[str, IssueSource]] = {
    "schema": _VALUES,
    "unit": {"0.1": _CODE, "1.0": _SAME},
    "case": _VALUES,
    "null": {"0.01": _PAPER, "0.1": _CODE, "0.5": _SAME, "1.0": _SAME},
    "volume": _HALF,
    "dist": _HALF,
    "perturb": _VALUES,
    "insert": _HALF,
    "delete": _HALF,
    "pad": {**_HALF, "1.0": _SAME},
    "year": dict.fromkeys(("0.01", "0.1", "0.5"), IssueSource.DQSQL),
    "cut": dict.fromkeys(("0.5", "1.0"), IssueSource.DQSQL),
    "stale": dict.fromkeys(("0.5", "1.0"), IssueSource.DQSQL),
    "late": dict.fromkeys(("0.5", "1.0"), IssueSource.DQSQL),
    "shrunk": dict.fromkeys(("0.1", "1.0"), IssueSource.DQSQL),
    "sign": dict.fromkeys(("0.1", "1.0"), IssueSource.DQSQL),
    "minus": dict.fromkeys(("0.05", "0.5"), IssueSource.DQSQL),
    "missing": dict.fromkeys(("0.01", "0.05", "0.1", "0.2", "0.5", "1.0"), IssueSource.DQSQL),
}


@dataclass(frozen=True)
class Issue:
    """One variant: the macro that makes it and its arguments.

    With `as_text`, the macro works on the characters of the value, also of a number.
    """

    name: str
    macro: str
    families: frozenset[Family]
    arguments: Mapping[str, str]
    source: IssueSource
    as_text: bool = False


@cache
def issues(family: Family) -> tuple[Issue, ...]:
    """All variants of a kind of column, with the names `kind_parameters`."""
    return tuple(issue for issue in _issues(family) if family in issue.families)


def _issues(family: Family) -> Iterator[Issue]:
    filler = "0" if family in _NUMERIC else "''"
    alphabet = "0123456789" if family in _NUMERIC else f"{_LETTERS}0123456789{_SYMBOLS}"
    yield from _of("schema", "schema_change", _BOTH)
    for factor in ("10", "100", "1000"):
        yield from _of("unit", "unit_change", _NUMERIC, {"factor": factor}, f"x{factor}_")
    # Units change in both directions, signs get lost, and -1 stands for nothing.
    for factor in ("0.1", "0.001"):
        yield from _of("shrunk", "unit_change", _NUMBERS, {"factor": factor}, f"x{factor}_")
    yield from _of("sign", "unit_change", _NUMBERS, {"factor": "-1"})
    yield from _of("minus", "increased_nulls", _NUMBERS, {"filler": "-1"})
    for to in ("upper", "lower"):
        yield from _of("case", "casing_change", _TEXT, {"to": to}, f"{to}_")
    yield from _of("null", "increased_nulls", _BOTH, {"filler": filler})
    for factor in ("2", "10"):
        arguments = {"factor": factor}
        yield Issue(f"volume_x{factor}", "volume_increase", _BOTH, arguments, _SAME)
    yield from _of("volume", "volume_decrease", _BOTH)
    yield from _of("dist", "distribution_first", _BOTH, words="first_")
    yield from _of("dist", "distribution_last", _BOTH, words="last_")
    yield from _of("perturb", "character_perturbation", _BOTH, as_text=True)
    inserted = {"alphabet": f"'{alphabet}'"}
    yield from _of("insert", "character_insertion", _BOTH, inserted, as_text=True)
    yield from _of("delete", "character_deletion", _BOTH, as_text=True)
    for side in ("lead", "trail"):
        yield from _of("pad", f"padding_{side}ing", _TEXT, words=f"{side}_")
    yield from _of("cut", "increased_nulls", _TEXT, {"filler": _FIRST_HALF})
    for words, year in (("later_", "value + 365"), ("earlier_", "value - 365")):
        yield from _of("year", "increased_nulls", _TIME, {"filler": year}, words)
    for kind, days in (("stale", 7), ("late", 1)):
        yield from _of(kind, "increased_nulls", _TIME, {"filler": f"value - {days}"})
    yield from _of("missing", "increased_nulls", _BOTH, {"filler": "null"})


def _of(
    kind: str,
    macro: str,
    families: frozenset[Family],
    arguments: Mapping[str, str] | None = None,
    words: str = "",
    *,
    as_text: bool = False,
) -> Iterator[Issue]:
    for share, source in _SHARES[kind].items():
        given = {**(arguments or {}), "fraction": share}
        yield Issue(f"{kind}_{words}{share}", macro, families, given, source, as_text)


@cache
def papers_issues() -> frozenset[str]:
    """The names of the variants that the paper or its authors' code injects."""
    every = (issue for family in Family for issue in issues(family))
    return frozenset(issue.name for issue in every if issue.source is not IssueSource.DQSQL)


@cache
def volume_factors() -> Mapping[str, float]:
    """What each issue of volume multiplies the number of rows by, by the issue's name."""
    factors = {"volume_increase": "factor", "volume_decrease": "fraction"}
    volume_issues = (i for i in issues(Family.NUMERIC) if i.macro in factors)
    return {i.name: float(i.arguments[factors[i.macro]]) for i in volume_issues}


@dataclass(frozen=True)
class Cell:
    """A column to inject issues into, and the column whose values take its place."""

    column: str
    neighbor: str


def neighbors(columns: Sequence[str], wanted: Sequence[str]) -> list[Cell]:
    """Each wanted column with the next of `columns`, around the end; its own where it is alone."""
    places = {name.lower(): i for i, name in enumerate(columns)}
    return [
        Cell(name, columns[(places[name.lower()] + 1) % len(columns)])
        for name in wanted
        if name.lower() in places
    ]


@dataclass(frozen=True)
class Injection:
    """Issues injected into a bounded sample of some batches of a model.

    `cells` are of one family. `where` restricts the rows. `label` names the batch of a model
    without `batch_by`.
    """

    model: CheckModel
    family: Family
    cells: tuple[Cell, ...]
    batches: BatchFilter
    size: int
    label: str
    where: str | None = None

    def query(self, library: MacroLibrary) -> exp.Select:
        """One row per row of a variant: `variant` (batch, column and issue) and `value`."""
        variants = [
            call("named_struct", literal("issue"), literal(name), literal("rows"), rows)
            for name, rows in self._variants(library)
        ]
        exploded = exp.select(
            column("dqsql_batch"),
            column("dqsql_column"),
            exp.alias_(call("explode", call("array", *variants)), "made"),
        ).from_(self._positioned().subquery("cells"))
        name = call(
            "concat_ws",
            literal(SEPARATOR),
            column("dqsql_batch"),
            column("dqsql_column"),
            column("issue", "made"),
        )
        rows: exp.Expr = column("rows", "made")
        values = formula(_TIMES, rows) if self.family is Family.TIME else rows
        return exp.select(aliased(name, _VARIANT), aliased(call("explode", values), VALUE)).from_(
            exploded.subquery("variants")
        )

    def _variants(self, library: MacroLibrary) -> Iterator[tuple[str, exp.Expr]]:
        yield CLEAN, call("array", column(VALUE))
        for issue in issues(self.family):
            text = library.call(f"issue_{issue.macro}", (), issue.arguments)
            yield (
                issue.name,
                self._bound(issue, parse_expression(text, Span(f"issue_{issue.macro}"))),
            )

    def _bound(self, issue: Issue, rows: exp.Expr) -> exp.Expr:
        """A macro's array with the words that it may use filled in."""
        seed = call("xxhash64", column("dqsql_row"), literal(issue.name))
        text = issue.as_text and self.family in _NUMERIC
        words = {
            "seed": seed,
            "u": formula("pmod({0}, 1000000) / 1000000", seed),
            "value": formula(_NUMBER_TEXT, column(VALUE)) if text else column(VALUE),
            "neighbor": column("neighbor"),
            "position": column("position"),
        }

        def fill(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and not node.table and node.name in words:
                return words[node.name].copy()
            return node

        bound: exp.Expr = rows.transform(fill)
        return formula("transform({0}, v -> try_cast(v as double))", bound) if text else bound

    def _positioned(self) -> exp.Select:
        """The cells, each with its rank among the values of its column."""
        keys = "partition by dqsql_batch, dqsql_column"
        rank = own_sql(f"row_number() over ({keys} order by value nulls last)")
        total = own_sql(f"count(value) over ({keys})")
        position = formula("case when value is not null then {0} / {1} end", rank, total)
        query = exp.select(
            *(column(c) for c in ("dqsql_batch", "dqsql_row", "dqsql_column", VALUE, "neighbor"))
        )
        query = query.select(exp.alias_(position, "position"))
        return query.from_(self._cells().subquery("stacked"))

    def _cells(self) -> exp.Select:
        """One row per row of the sample and column."""
        entries: list[exp.Expr] = []
        for cell in self.cells:
            entries += [literal(cell.column), self._typed(cell.column), self._typed(cell.neighbor)]
        stack = exp.Aliases(
            this=call("stack", literal(len(self.cells)), *entries),
            expressions=[identifier(n) for n in ("dqsql_column", VALUE, "neighbor")],
        )
        query = exp.select(column("dqsql_batch"), column("dqsql_row"), stack)
        query = query.from_(self._sample().subquery("sample"))
        return query.where(formula("{0} <= {1}", column("dqsql_row"), literal(self.size)))

    def _typed(self, name: str) -> exp.Expr:
        if self.family is Family.NUMERIC:
            return formula("cast({0} as double)", column(name))
        if self.family is Family.TIME:
            return formula(_DAYS, column(name))
        return formula(f"left(cast({{0}} as string), {_MAX_TEXT})", column(name))

    def _sample(self) -> exp.Select:
        """The rows of the batches, numbered in an order that depends on nothing but the rows."""
        batch = batch_text(self.model)
        label: exp.Expr = literal(self.label) if batch is None else batch
        names = sorted({n for cell in self.cells for n in (cell.column, cell.neighbor)})
        texts = ", ".join(f"cast({to_sql(column(n))} as string)" for n in names)
        number = own_sql(
            f"row_number() over (partition by {to_sql(label)} order by xxhash64({texts}))"
        )
        query = exp.select(
            exp.alias_(label, "dqsql_batch"),
            exp.alias_(number, "dqsql_row"),
            *(column(n) for n in names),
        ).from_(model_table(self.model))
        condition = self.batches.condition(self.model, self.where)
        return query if condition is None else query.where(condition)


_NUMBER_TEXT = (
    "case when {0} = floor({0}) and abs({0}) < 1000000000000000"
    " then cast(cast({0} as bigint) as string) else cast({0} as string) end"
)

_DAYS = "cast(unix_micros(cast({0} as timestamp)) / 86400000000 as double)"
_TIMES = "transform({0}, v -> timestamp_micros(try_cast(v * 86400000000 as bigint)))"


def own_sql(text: str) -> exp.Expr:
    """A window function of dqsql's own."""
    return parse_expression(text, Span("a statement of dqsql"))


def variants_model(family: Family, monitor: str) -> CheckModel:
    """The check model whose batches are the variants, with a monitor on its column `value`."""
    place = Span(f"injected issues ({family.value})")
    return CheckModel(
        name=f"injected_issues_{family.value}",
        path=place.file,
        raw_sql="",
        sql="",
        config=ModelConfig(batch_by=_VARIANT),
        projections=(Projection(_VARIANT, place), Projection(VALUE, place)),
        annotations=(Annotation(monitor, CheckSettings(), place, VALUE),),
        line_map=(),
    )
