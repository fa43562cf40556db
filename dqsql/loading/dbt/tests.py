"""Adopts the generic tests of a dbt project as annotations of the relations that they test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dqsql.errors import DqsqlError, Span
from dqsql.loading.dbt.failing import Arguments, Failing, Unadoptable
from dqsql.loading.dbt.generic import build, is_known
from dqsql.loading.dbt.manifest import Manifest, Node
from dqsql.loading.dbt.own import MODEL, failing_rows, generic_query, plainly_named
from dqsql.model.project import (
    DBT_LIMIT,
    DBT_TEST,
    DBT_TEST_NAME,
    DBT_VALUES,
    WARN_HALF,
    Annotation,
    CheckSettings,
    MacroFile,
    NoData,
    Severity,
)
from dqsql.templating import MacroLibrary, base_context

# A template that is one expression, and the function that catches its value.
_SINGLE = re.compile(r"\{\{-?((?:(?!\{\{|\}\}|\{%).)+?)-?\}\}", re.DOTALL)
_KEEP = "_dqsql_keep"
_NATIVE = (list, dict, int, float, bool)
_NAME = re.compile(r"([^\W\d]\w*)|`([^`]+)`")
_DEFAULT_CONDITION = "!= 0"
_CONDITION = re.compile(r"(!=|<>|>=|<=|==|=|>|<)\s*(\d+)")
_OPPOSITE = {
    "!=": "=",
    "<>": "=",
    ">": "<=",
    "<": ">=",
    ">=": "<",
    "<=": ">",
    "=": "<>",
    "==": "<>",
}
# The other relation, of which dbt says by itself which one it is.
_RELATIONS = ("model", "to", "compare_model")
# Macros of dbt's own that arguments call, as they are on Spark.
_CROSS_DATABASE = {
    f"type_{name}": lambda text=text: text
    for name, text in {
        **{t: t for t in ("string", "timestamp", "float", "bigint", "boolean")},
        "int": "integer",
        "numeric": "decimal(28,6)",
    }.items()
} | {"current_timestamp": lambda: "current_timestamp()"}
# What the tests themselves set, beside dbt's default.
_FAIL_CALCS = {
    "dbt_utils.equal_rowcount": "sum(coalesce(diff_count, 0))",
    "dbt_utils.fewer_rows_than": "sum(coalesce(row_count_delta, 0))",
}


_VAR = re.compile(r"\bvar\s*\(")


@dataclass(frozen=True)
class AdoptedTest:
    """A test of dbt as one annotation, or two where warnings and errors have other thresholds.

    `by_row`: the test of a table is that of its batches.
    """

    attached: str
    annotations: tuple[Annotation, ...]
    by_row: bool


@dataclass(frozen=True)
class Adopter:
    """Turns tests of a manifest into annotations.

    `relations` gives, by unique id, how annotations name what dbt built, as in `ref('orders')`.
    """

    manifest: Manifest
    relations: Mapping[str, str]
    library: MacroLibrary
    spans: Mapping[str, Span]
    vars: Mapping[str, Any] = field(default_factory=dict)

    def adopt(self, test: Node) -> AdoptedTest:
        """The test as annotations. Raises Unadoptable with the reason."""
        metadata = test.data.get("test_metadata")
        self._refuse_other_vars(test, metadata)
        if not isinstance(metadata, dict):
            return self._singular(test)
        namespace, name = metadata.get("namespace"), str(metadata.get("name"))
        attached = self._attached(test, metadata)
        values = self._rendered(metadata.get("kwargs") or {})
        if (macro := self._own_macro(test, namespace, name)) is not None:
            self._refuse_other_vars(test, macro.text)
            failing = self._of_query(macro, namespace, name, values)
        else:
            self._refuse_overrides(test, namespace, name)
            other = self._other(test, attached)
            text = self.manifest.text_of_test(namespace or "dbt", name)
            failing = build(namespace, name, Arguments(values, other, self.vars, text))
        self._refuse_fail_calc(test, namespace, name)
        where = self._where(test, failing)
        return self._adopted(test, attached, failing, values, where, name)

    def _of_query(
        self, macro: MacroFile, namespace: str | None, name: str, values: Mapping[str, Any]
    ) -> Failing:
        try:
            return failing_rows(
                generic_query(name, macro.path, macro.text, values, self._context())
            )
        except Unadoptable as reason:
            known = f"dqsql does not know the generic test {namespace}.{name}"
            own = f"the project defines a test {name} of its own"
            raise Unadoptable(f"{known if namespace else own}: {reason}") from reason

    def _singular(self, test: Node) -> AdoptedTest:
        """A test that is a query of its own, where that filters the rows of one relation."""
        text, parents = test.data.get("raw_code"), set(test.parents)
        if not text or len(parents) != 1:
            raise Unadoptable("it is a singular test, and not about one relation")
        attached = self._with_relation(parents.pop())
        reads = {"ref": lambda *_, **__: MODEL, "source": lambda *_: MODEL}
        try:
            query = self.library.render(str(text), test.path, {**self._context(), **reads})
        except DqsqlError as error:
            raise Unadoptable(f"only dbt can render it: {error.message}") from error
        try:
            failing = failing_rows(query)
        except Unadoptable as reason:
            raise Unadoptable(f"it is a singular test: {reason}") from reason
        self._refuse_fail_calc(test, None, "")
        return self._adopted(test, attached, failing, {}, failing.where, str(test.data["name"]))

    def _refuse_other_vars(self, test: Node, text: object) -> None:
        """Variables have other values in a test of a package than in the project's own."""
        searched_text = f"{test.data.get('raw_code')} {text} {test.config}"
        if test.package != self.manifest.project and _VAR.search(searched_text):
            raise Unadoptable(f"it reads variables of the package {test.package}")

    def _context(self) -> dict[str, object]:
        """What the query of a test sees beside variables and the target."""
        return {**base_context(self.vars, None), "config": lambda **_: "", "dbt": _CROSS_DATABASE}

    def _own_macro(self, test: Node, namespace: str | None, name: str) -> MacroFile | None:
        """The macro of a test that the project, or a package that dqsql does not know, defines."""
        used = [m for m in test.macros if m.endswith(f".test_{name}")]
        if namespace is not None:
            used = [] if is_known(namespace, name) else [f"macro.{namespace}.test_{name}"]
        elif f"macro.dbt.test_{name}" in used or len(used) != 1:
            used = []
        return self.manifest.macro(used[0]) if used else None

    def _attached(self, test: Node, metadata: Mapping[str, Any]) -> str:
        """The unique id of the relation that is tested."""
        unique_id = test.data.get("attached_node")
        if unique_id is None:
            unique_id = _sources_of(test, metadata)
        if unique_id is None and len(test.parents) == 1:
            unique_id = test.parents[0]
        if unique_id is None:
            raise Unadoptable("the relation that it tests is not known")
        return self._with_relation(str(unique_id))

    def _with_relation(self, unique_id: str) -> str:
        """The unique id, where dbt builds a relation. Raises Unadoptable: it does not."""
        node = self.manifest.built.get(unique_id)
        if node is not None and node.materialized == "ephemeral":
            raise Unadoptable(f"{node.name} is ephemeral: dbt builds no relation for it")
        if unique_id not in self.relations:
            raise Unadoptable(f"{unique_id} has no relation")
        return unique_id

    def _refuse_overrides(self, test: Node, namespace: str | None, name: str) -> None:
        """A project may define a test of its own under a known name."""
        package = namespace or "dbt"
        used = {m for m in test.macros if m.endswith(f".test_{name}")}
        # With a namespace dbt calls that package's test, whichever of the name it lists here.
        if namespace is None and used and f"macro.{package}.test_{name}" not in used:
            raise Unadoptable(f"the project defines a test {name} of its own")
        if other := self.manifest.dispatched(package, f"test_{name}"):
            raise Unadoptable(f"{other} replaces the test {name}")

    def _refuse_fail_calc(self, test: Node, namespace: str | None, name: str) -> None:
        """Tests whose number is not that of failing rows, at most `limit`."""
        calc = str(test.config.get("fail_calc") or "count(*)")
        if calc != _FAIL_CALCS.get(f"{namespace}.{name}", "count(*)"):
            raise Unadoptable(f"fail_calc is {calc!r}")
        limit = test.config.get("limit")
        if limit is not None and int(limit) < 1:
            raise Unadoptable(f"with a limit of {limit} it cannot fail")

    def _other(self, test: Node, attached: str) -> str | None:
        """The other relation of a test, or the tested one where it compares that with itself."""
        others = [p for p in test.parents if p != attached]
        if len(others) > 1:
            return None
        return self.relations[self._with_relation(others[0] if others else attached)]

    def _where(self, test: Node, failing: Failing) -> str | None:
        own = test.config.get("where")
        name, project = "get_where_subquery", self.manifest.project
        replaced = self.manifest.has_macro(project, name) or self.manifest.dispatched("dbt", name)
        if own and replaced:
            raise Unadoptable("the project defines get_where_subquery, which changes `where`")
        own = str(self._render(str(own))) if own else None
        if own and "relation_rows(" in failing.count:
            raise Unadoptable("`where` restricts one of the two relations that it counts")
        parts = [p for p in (own, failing.where) if p]
        return " and ".join(f"({p})" for p in parts) if parts else None

    def _rendered(self, value: Any) -> Any:
        """Arguments with their Jinja rendered, as dbt does when the test runs."""
        if isinstance(value, dict):
            return {k: v if k in _RELATIONS else self._rendered(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._rendered(v) for v in value]
        return self._render(value) if isinstance(value, str) else value

    def _render(self, text: str) -> Any:
        """The text that a template gives; the value of one that is a single expression.

        dbt does the same: `"{{ var('statuses') }}"` is a list where the variable is one.
        """
        if "{{" not in text and "{%" not in text:
            return text
        values: list[Any] = []

        def keep(value: Any) -> Any:
            values.append(value)
            return value

        single = _SINGLE.fullmatch(text.strip())
        shown = f"{{{{ {_KEEP}({single.group(1)}) }}}}" if single else text
        try:
            context = {_KEEP: keep, "dbt": _CROSS_DATABASE}
            rendered = self.library.render(shown, self.manifest.shown, context)
        except DqsqlError as error:
            raise Unadoptable(f"only dbt can render {text!r}") from error
        return values[0] if single and isinstance(values[0], _NATIVE) else rendered

    def _plainly_named(
        self, attached: str, failing: Failing, where: str | None
    ) -> tuple[Failing, str | None]:
        """The texts of a test without the name that its query reads the relation by."""
        node = self.manifest.relations[attached]
        relation = (node.relation or "").rpartition(".")[2].strip("`")
        # dbt calls a relation with a `where` so.
        names = {relation.lower(), "dbt_subquery", MODEL}
        texts = (failing.count, failing.quick, failing.values, where)
        count, quick, values, where = (t and plainly_named(t, names) for t in texts)
        return replace(failing, count=count or "", quick=quick, values=values), where

    def _adopted(
        self,
        test: Node,
        attached: str,
        failing: Failing,
        values: Mapping[str, Any],
        where: str | None,
        kind: str,
    ) -> AdoptedTest:
        failing, where = self._plainly_named(attached, failing, where)
        column = values.get("column_name")
        about = _plain_name(column)
        span = self.spans.get(test.unique_id, Span(test.path))
        levels, by_row = _levels(test), failing.by_row
        # Whether any failing row is one too many.
        is_default = all(_asks_for_none(condition) for _, condition, _ in levels)
        if not is_default:
            # A threshold is about the number itself, which then serves both checks of the test.
            failing = replace(failing, quick=None, values=None)
        annotations = tuple(
            Annotation(
                f"expect({_predicate(test, failing, condition)})",
                CheckSettings(
                    severity=severity,
                    where=where,
                    name=str(test.data["name"]) + suffix,
                    tags=test.tags,
                    description=str(test.data.get("description") or "") or None,
                    no_data=NoData.IGNORE,
                    options={
                        DBT_TEST: test.unique_id,
                        DBT_TEST_NAME: kind,
                        **({"store_failures": True} if test.config.get("store_failures") else {}),
                        **_counting(test, failing),
                    },
                ),
                span,
                about,
            )
            for severity, condition, suffix in levels
        )
        return AdoptedTest(attached, annotations, by_row and len(levels) == 1 and is_default)


def _counting(test: Node, failing: Failing) -> dict[str, Any]:
    """What a report of the test's failures must know beside the number that is measured."""
    options: dict[str, Any] = {}
    if failing.values is not None:
        options[DBT_VALUES] = failing.values
    if (limit := _limit(test)) is not None:
        options[DBT_LIMIT] = limit
    return options


def _limit(test: Node) -> int | None:
    """At most so many failing rows count; those that add up numbers have one row."""
    limit = test.config.get("limit")
    is_sum = test.config.get("fail_calc") in _FAIL_CALCS.values()
    return None if limit is None or is_sum else int(limit)


def _plain_name(column: object) -> str | None:
    """The column that a test is about; None for an expression."""
    match = _NAME.fullmatch(column) if isinstance(column, str) else None
    return None if match is None else match.group(1) or match.group(2)


def _sources_of(test: Node, metadata: Mapping[str, Any]) -> str | None:
    """The source that `model` names: older manifests do not say what a test is attached to."""
    kwargs = metadata.get("kwargs") or {}
    match = re.search(r"source\(\s*'([^']+)'\s*,\s*'([^']+)'", str(kwargs.get("model")))
    if match is None:
        return None
    ending = f".{match.group(1)}.{match.group(2)}"
    named = [p for p in test.parents if p.startswith("source.") and p.endswith(ending)]
    return named[0] if len(named) == 1 else None


def _levels(test: Node) -> list[tuple[Severity, str, str]]:
    """Severity, the condition under which it fails, and what is added to the name."""
    warn_if = str(test.config.get("warn_if") or _DEFAULT_CONDITION)
    error_if = str(test.config.get("error_if") or _DEFAULT_CONDITION)
    if str(test.config.get("severity", "error")).lower() == "warn":
        return [(Severity.WARN, warn_if, "")]
    if warn_if.replace(" ", "") == error_if.replace(" ", ""):
        return [(Severity.ERROR, error_if, "")]
    return [(Severity.ERROR, error_if, ""), (Severity.WARN, warn_if, WARN_HALF)]


def _asks_for_none(condition: str) -> bool:
    return condition.replace(" ", "") in ("!=0", "<>0", ">0", ">=1")


def _predicate(test: Node, failing: Failing, condition: str) -> str:
    """What must hold so that the test does not fail."""
    if _asks_for_none(condition):
        return f"{failing.quick or failing.count} = 0"
    count = failing.count
    if (limit := _limit(test)) is not None:
        count = f"least({count}, {limit})"
    match = _CONDITION.fullmatch(condition.strip())
    if match is None:
        return f"not ({count} {condition})"
    return f"{count} {_OPPOSITE[match.group(1)]} {match.group(2)}"
