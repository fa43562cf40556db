"""Columns of now against those before (`@schema`) or those promised; two versions of a contract."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dqsql.decisions.implied import implies
from dqsql.dialect import parse_expression, quoted
from dqsql.errors import SqlSyntaxError
from dqsql.model.contract import (
    ANY,
    Contract,
    ContractCheck,
    ContractColumn,
    is_logical,
    is_of_logical,
)
from dqsql.model.project import Severity
from dqsql.model.results import Status
from dqsql.model.types import both_fields, digits_of, values_of
from dqsql.model.wording import plural

ADDED, DROPPED, RETYPED = "added", "dropped", "retyped"
CHANGES = (ADDED, DROPPED, RETYPED)
_Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Columns added, dropped and retyped, in words; `reordered` is whether the others moved.

    Names are compared without regard to case, as Spark does. Fields of structs are like columns.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    reordered: bool = False

    def of(self, kind: str) -> tuple[str, ...]:
        """The changes of one kind."""
        return {ADDED: self.added, DROPPED: self.dropped, RETYPED: self.retyped}[kind]

    def words(self, kinds: Collection[str]) -> str:
        """The changes of some kinds in one line."""
        return "; ".join(f"{k} {', '.join(self.of(k))}" for k in CHANGES if k in kinds)


@dataclass(frozen=True, slots=True)
class SchemaVerdict:
    """Status and message of `@schema`."""

    status: Status
    message: str
    changes: SchemaChanges | None = None


def compare(before: _Columns, now: _Columns) -> SchemaChanges:
    """What changed from `before` to `now`; both map names to types, in order."""
    old = {name.casefold(): (name, kind) for name, kind in before.items()}
    new = {name.casefold(): (name, kind) for name, kind in now.items()}
    both = [key for key in new if key in old]
    added = [f"{n} ({t})" for key, (n, t) in new.items() if key not in old]
    dropped = [f"{n} ({t})" for key, (n, t) in old.items() if key not in new]
    retyped: list[str] = []
    reordered = both != [key for key in old if key in new]
    for name, was, kind in ((new[k][0], old[k][1], new[k][1]) for k in both):
        fields = both_fields(was, kind) if was != kind else None
        if fields is not None:
            inner = compare(_within(name, fields[0]), _within(name, fields[1]))
            added, dropped = [*added, *inner.added], [*dropped, *inner.dropped]
            retyped, reordered = [*retyped, *inner.retyped], reordered or inner.reordered
            if inner == SchemaChanges() and was.lower() != kind.lower():
                retyped.append(f"{name} ({was} -> {kind})")
        elif was != kind:
            retyped.append(f"{name} ({was} -> {kind})")
    return SchemaChanges(tuple(added), tuple(dropped), tuple(retyped), reordered)


def _within(name: str, fields: _Columns) -> dict[str, str]:
    return {f"{name}.{field}": kind for field, kind in fields.items()}


def decide_schema(
    now: _Columns, before: _Columns | None, *, allow: Collection[str], severity: Severity
) -> SchemaVerdict:
    """The verdict on the columns `now` against those of the last accepted batch.

    `allow` names kinds of change that pass. A new order of the same columns is only noted.
    """
    count = plural(len(now), "column")
    if before is None:
        return SchemaVerdict(Status.PASS, f"{count}; nothing to compare with")
    changes = compare(before, now)
    kinds = [k for k in CHANGES if changes.of(k)]
    moved = "; in another order" if changes.reordered else ""
    if not kinds:
        return SchemaVerdict(Status.PASS, f"{count}, as before{moved}", changes)
    refused = [k for k in kinds if k not in allow]
    passing = changes.words([k for k in kinds if k in allow])
    texts = (changes.words(refused), f"{passing} (allowed)" if passing else "")
    failing = Status.FAIL if severity is Severity.ERROR else Status.WARN
    status = failing if refused else Status.PASS
    return SchemaVerdict(status, f"{'; '.join(filter(None, texts))}{moved}", changes)


REMOVED, NARROWED, WIDENED = "removed", "narrowed", "widened"
# Settings that people read, and that change no verdict.
_TOLD = ("description", "name", "tags")
_NOT_UNIQUE = "no longer unique"
_STRICTER, _WEAKER = "stricter", "weaker"
# A rule as `_text` gives it: behind the name of its column, before its settings.
_RULE = re.compile(r"(?:(?P<column>[^\s:]+): )?(?P<rule>.*?)(?: (?P<settings>\{.*\}))?")
_ABOUT = ("column", "settings")
_WIDTHS = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


@dataclass(frozen=True, slots=True)
class ContractChange:
    """One difference: `kind` in a word, whether it breaks what readers rely on, and its text."""

    kind: str
    breaking: bool
    text: str


@dataclass(frozen=True, slots=True)
class ContractVerdict:
    """Status and message of the columns of a relation against its contract."""

    status: Status
    message: str
    changes: tuple[ContractChange, ...]


def change_of_type(before: str, now: str) -> str | None:
    """What became of a type: `widened`, `narrowed`, `retyped`, or None where it is as before.

    Widened is a type that has all values of before, exactly, or a struct with further fields.
    """
    # Names of fields are not case-sensitive, and Spark shows them without quotes.
    before, now = (kind.lower().replace("`", "") for kind in (before, now))
    if before == now or not before or not now:
        return None
    if is_logical(before):
        fits = before == now or (not is_logical(now) and is_of_logical(before, now))
        return None if fits else RETYPED
    if is_logical(now):
        return None if is_of_logical(now, before) else RETYPED
    if _holds(now, before):
        # Structs with the same fields in another order.
        return None if _holds(before, now) else WIDENED
    return NARROWED if _holds(before, now) else RETYPED


def _holds(wide: str, narrow: str) -> bool:
    """Whether a type has all values of another one."""
    for widths in _WIDTHS:
        if wide in widths and narrow in widths:
            return widths.index(wide) > widths.index(narrow)
    nested = both_fields(wide, narrow)
    if nested is not None:
        fields, needed = nested
        return all(
            n in fields and (fields[n] == t or _holds(fields[n], t)) for n, t in needed.items()
        )
    inner_types = values_of(wide), values_of(narrow)
    if all(inner_types) and wide.partition("<")[0] == narrow.partition("<")[0]:
        return all(w == n or _holds(w, n) for w, n in zip(*inner_types, strict=True))
    if wide == "double" and narrow in ("tinyint", "smallint", "int"):
        return True
    outer, inner = digits_of(wide), digits_of(narrow)
    if wide.startswith("decimal") and outer and inner:
        # Before the point and behind it.
        return outer[0] - outer[1] >= inner[0] - inner[1] and outer[1] >= inner[1]
    return False


def column_changes(
    promised: Mapping[str, str], now: Mapping[str, str], *, closed: bool = False
) -> list[ContractChange]:
    """What became of promised columns; both map names to types.

    `closed` says whether a further column breaks the contract. Names are compared without regard to
    case, as Spark does.
    """
    new = {name.casefold(): (name, kind) for name, kind in now.items()}
    changes = []
    for name, kind in promised.items():
        if name.casefold() not in new:
            changes.append(ContractChange(REMOVED, True, _with_type(name, kind)))
            continue
        shown, actual = new[name.casefold()]
        change = change_of_type(kind, actual)
        if change is not None:
            text = f"{shown} ({kind} -> {actual})"
            changes.append(ContractChange(change, change != WIDENED, text))
    known = {name.casefold() for name in promised}
    changes += [
        ContractChange(ADDED, closed, _with_type(name, kind))
        for key, (name, kind) in new.items()
        if key not in known
    ]
    return changes


def decide_columns(
    promised: Mapping[str, str], now: Mapping[str, str], *, closed: bool, severity: Severity
) -> ContractVerdict:
    """The verdict on the columns of now: what breaks the contract fails, what is widened warns."""
    changes = tuple(column_changes(promised, now, closed=closed))
    count = plural(len(promised), "column")
    if not changes:
        return ContractVerdict(Status.PASS, f"{count}, as promised", ())
    broken = any(c.breaking for c in changes)
    if broken:
        status = Status.FAIL if severity is Severity.ERROR else Status.WARN
    else:
        widened = any(c.kind == WIDENED for c in changes)
        status = Status.WARN if widened else Status.PASS
    return ContractVerdict(status, words_of(changes), changes)


def words_of(changes: Sequence[ContractChange]) -> str:
    """Changes in one line: what breaks readers first."""
    parts = []
    for breaking, title in ((True, "breaking"), (False, "compatible")):
        mine = [c for c in changes if c.breaking is breaking]
        kinds = sorted({c.kind for c in mine}, key=_kind_order)
        texts = [f"{k} {', '.join(c.text for c in mine if c.kind == k)}" for k in kinds]
        if texts:
            parts.append(f"{title}: {', '.join(texts)}")
    return "; ".join(parts)


def _kind_order(kind: str) -> tuple[int, str]:
    known = (REMOVED, NARROWED, RETYPED, WIDENED, ADDED)
    return (known.index(kind) if kind in known else len(known), kind)


def contract_changes(before: Contract, now: Contract) -> tuple[ContractChange, ...]:
    """What a new version of a contract changes for those who rely on the old one."""
    changes = column_changes(_types(before), _types(now))
    old = {c.name.casefold(): c for c in before.columns}
    for column in now.columns:
        if column.name.casefold() in old:
            changes += _promises(before, old[column.name.casefold()], now, column)
    kept = {c.name.casefold() for c in now.columns}.intersection(old)
    was, is_now = _checks(before, kept), _checks(now, kept)
    changes += _changes_of_rules(list((was - is_now).elements()), list((is_now - was).elements()))
    if [n.casefold() for n in before.key] != [n.casefold() for n in now.key]:
        text = f"{', '.join(before.key) or 'none'} -> {', '.join(now.key) or 'none'}"
        changes.append(ContractChange("key", bool(before.key), text))
    if before.closed != now.closed:
        kind = "no longer closed" if before.closed else "now closed"
        changes.append(ContractChange(kind, before.closed, "further columns"))
    return tuple(sorted(changes, key=lambda c: not c.breaking))


def _changes_of_rules(lost: list[str], gained: list[str]) -> Iterator[ContractChange]:
    """What became of rules that only one version has: a stricter one keeps what was promised."""
    for text in list(lost):
        for other in gained:
            kind = _kind_of_change(text, other)
            if kind is not None:
                yield ContractChange(kind, kind == _WEAKER, f"{text} -> {other}")
                lost.remove(text)
                gained.remove(other)
                break
    yield from (ContractChange("no longer promised", True, text) for text in lost)
    yield from (ContractChange("newly promised", False, text) for text in gained)


def _kind_of_change(before: str, now: str) -> str | None:
    """Whether a rule as `_text` gives it is stricter or weaker than before; None: another rule."""
    was, is_now = _RULE.fullmatch(before), _RULE.fullmatch(now)
    if was is None or is_now is None or was.group(*_ABOUT) != is_now.group(*_ABOUT):
        return None
    try:
        old, new = parse_expression(was["rule"]), parse_expression(is_now["rule"])
    except SqlSyntaxError:
        return None
    if implies(new, old):
        return _STRICTER
    return _WEAKER if implies(old, new) else None


def _types(contract: Contract) -> dict[str, str]:
    return {c.name: c.type for c in contract.columns}


def _promises(
    old: Contract, before: ContractColumn, new: Contract, now: ContractColumn
) -> list[ContractChange]:
    changes = []
    # That a key is another one is told as such.
    is_told = (before.key is None) != (now.key is None) and before.unique == now.unique
    was_unique = old.is_unique(before)
    for is_there, was_there, gained, lost in (
        (new.has_values(now), old.has_values(before), "now required", "now nullable"),
        (was_unique if is_told else new.is_unique(now), was_unique, "now unique", _NOT_UNIQUE),
    ):
        if is_there != was_there:
            changes.append(ContractChange(gained if is_there else lost, was_there, now.name))
    is_exact = bool(before.type) and not is_logical(before.type)
    if (before.type and not now.type) or (
        is_exact and is_logical(now.type) and is_of_logical(now.type, before.type)
    ):
        text = f"{now.name} ({before.type} -> {now.type or 'any type'})"
        changes.append(ContractChange("less typed", True, text))
    return changes


def _checks(contract: Contract, kept: Collection[str]) -> Counter[str]:
    """All rules, as often as they are there, but those of columns that only one version has."""
    rules = [_text(check, None) for check in contract.checks]
    columns = (c for c in contract.columns if c.name.casefold() in kept)
    return Counter([*rules, *(_text(check, c.name) for c in columns for check in c.checks)])


def _text(check: ContractCheck, column: str | None) -> str:
    """A rule as an annotation writes it, with its settings; the same wherever it stands.

    Behind the name of its column, where it does not say that itself.
    """
    text = check.expression if column is None else check.expression.replace("{c}", quoted(column))
    about = "" if column is None else f"{column}: "
    settings = {k: v for k, v in check.settings.items() if k not in _TOLD}
    if check.severity is not None and check.severity is not Severity.ERROR:
        settings["severity"] = check.severity.value
    shown = ", ".join(f"{name}: {value}" for name, value in sorted(settings.items()))
    behind = f" {{{shown}}}" if shown else ""
    try:
        tree = parse_expression(text)
    except SqlSyntaxError:
        return f"{about}{text}{behind}"
    names = list(tree.find_all(exp.Column))
    for name in names:
        name.set("this", exp.to_identifier(name.name.lower()))
    if column is not None and column.lower() in (name.name for name in names):
        about = ""
    return f"{about}{tree.sql(dialect='spark', normalize_functions='lower')}{behind}"


def _with_type(name: str, kind: str) -> str:
    return f"{name} ({kind})" if kind not in ("", ANY) else name
