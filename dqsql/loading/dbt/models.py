"""Makes a check model of what dbt built: annotations, settings, owner, tags, batches, contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dqsql.dialect import quoted
from dqsql.errors import AnnotationError, ConfigError, DqsqlError, LoadError, Span
from dqsql.loading.annotations import (
    AnnotationProblem,
    has_annotation,
    marked,
    parse_comment,
    prose_offsets,
    with_mark,
)
from dqsql.loading.binding import bind_model, comment_text, relation_call, with_calls
from dqsql.loading.config import merge_settings
from dqsql.loading.contracts.expand import SETTING as CONTRACT
from dqsql.loading.contracts.expand import with_contract
from dqsql.loading.contracts.rules import mappings_in
from dqsql.loading.dbt.manifest import Manifest, Node, checksum_of
from dqsql.loading.dbt.places import Places
from dqsql.loading.dbt.rebuilds import Rebuild
from dqsql.loading.dbt.text import DbtBinder, render_dbt_model
from dqsql.loading.documents import read_text
from dqsql.loading.scanner import Segment, scan
from dqsql.loading.settings import read_model_settings
from dqsql.model.contract import Contract, ContractCheck, ContractColumn, spark_type
from dqsql.model.functions import AGGREGATES, EXPECT
from dqsql.model.monitors import monitor_specs
from dqsql.model.project import (
    DBT_FRESHNESS,
    Annotation,
    CheckModel,
    CheckSettings,
    LeftTest,
    ModelConfig,
    NoData,
    Projection,
    Severity,
)
from dqsql.templating import MacroLibrary

KEY = "dqsql"
# What a column's `meta: {dqsql: {..}}` may hold.
_COLUMN_KEYS = ("checks", "pii")
_HOURS = {"minute": 1 / 60, "hour": 1, "day": 24}
_PERIODS = {
    "hour": "date_trunc('HOUR', {0})",
    "day": "cast({0} as date)",
    "month": "trunc({0}, 'MONTH')",
    "year": "trunc({0}, 'YEAR')",
}


@dataclass
class DbtModels:
    """Loads the nodes of one manifest.

    `names` are the check models' names by unique id, `ids` what `depends_on` calls every node,
    `folders` what `dbt_project.yml` sets for models, seeds and so on, by these.
    Problems are appended to `errors`, rules of freshness that only dbt can judge to `left`, places
    of comments with an @ that are read as prose to `prose`.
    """

    root: Path
    manifest: Manifest
    library: MacroLibrary
    known_names: Collection[str]
    names: Mapping[str, str]
    ids: Mapping[str, str]
    places: Places
    rebuilds: Mapping[str, Rebuild]
    folders: Mapping[str, Any]
    severity: Severity
    errors: list[DqsqlError] = field(default_factory=list)
    left: list[LeftTest] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)

    def load(self, node: Node) -> CheckModel:
        """The check model of a node; without annotations where it has none."""
        raw = self._text(node)
        projections, annotations = self._from_text(node, raw)
        settings = self._settings(node)
        annotations += self._from_meta(node)
        if node.materialized == "ephemeral":
            self._refuse_ephemeral(node, annotations)
        if node.resource_type == "source":
            annotations += tuple(self._freshness(node))
        relation = node.relation
        model = CheckModel(
            name=self.names[node.unique_id],
            path=self.places.file_of(node),
            raw_sql=raw,
            sql=f"select * from {relation}",
            config=self._config(node, settings),
            projections=projections,
            annotations=annotations,
            line_map=(1,),
            depends_on=self._parents(node),
            checksum=_checksum(node, raw),
            relation=relation,
        )
        return self._with_contract(model, node)

    def _with_contract(self, model: CheckModel, node: Node) -> CheckModel:
        """The model with the checks of its contract: of its settings, else the one of dbt."""
        wanted = model.config.extra.get(CONTRACT) is True
        declared = contract_of(node, self.places.of_node(node), always=wanted)
        contract_model, wrong = with_contract(model, self.root, declared, self.severity)
        if wrong is not None:
            self.errors.append(wrong)
        return contract_model

    def _parents(self, node: Node) -> tuple[str, ...]:
        own = (self.ids[p] for p in node.parents if p in self.ids)
        # A source is what the check model about it reads.
        source = (self.ids[node.unique_id],) if node.resource_type == "source" else ()
        return tuple(dict.fromkeys((*own, *source)))

    def _text(self, node: Node) -> str:
        path = self.places.file_of(node)
        if node.resource_type in ("model", "snapshot") and (self.root / path).is_file():
            try:
                return read_text(self.root / path, path)
            except LoadError as error:
                self.errors.append(error)
        return str(node.data.get("raw_code") or "")

    # --- annotations ---------------------------------------------------------------------------

    def _from_text(
        self, node: Node, raw: str
    ) -> tuple[tuple[Projection, ...], tuple[Annotation, ...]]:
        """Annotations in a model's comments. Files without any are not looked at further."""
        path = self.places.file_of(node)
        if node.resource_type == "snapshot":
            raw = _block_of(node, raw)
        elif node.resource_type != "model":
            return (), ()
        if not self._is_annotated(node, raw, path):
            return (), ()
        relations: dict[str, str] = {}

        def rendered(function: str, *names: str) -> str:
            """What a `ref` or `source` in the text renders to; nothing runs it."""
            view = "`" + "__".join((function, *(str(n).replace("`", "") for n in names))) + "`"
            relations[view] = relation_call(function, *map(str, names))
            return view

        try:
            rendering = render_dbt_model(raw, path, self.library, rendered)
        except DqsqlError as error:
            self.errors.append(error)
            return (), ()
        bound = bind_model(rendering, path, self.known_names, self.errors, DbtBinder, self._words)
        if bound is None:
            return (), ()
        return bound.projections, with_calls(bound.annotations, relations)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The names that an annotation may begin with."""
        return frozenset({*self.known_names, *AGGREGATES, *monitor_specs(), EXPECT})

    def _is_annotated(self, node: Node, raw: str, path: str) -> bool:
        """Whether a comment holds an annotation; `@todo` and the like are prose, and noted."""
        if str(node.data.get("language", "sql")) != "sql":
            return False
        comments = [c for c in scan(raw).comments if has_annotation(comment_text(raw, c))]
        return bool([c for c in comments if not self._is_prose(node, raw, path, c)])

    def _is_prose(self, node: Node, raw: str, path: str, comment: Segment) -> bool:
        text = comment_text(raw, comment)
        offsets = prose_offsets(text, self._words)
        for at in offsets:
            before = raw[: comment.body_start + at]
            word = text[at:].split()[0]
            if node.package == self.manifest.project:
                self.prose.append(f"{path}:{before.count(chr(10)) + 1}: {word}")
        return len(offsets) == len(marked(text))

    def _from_meta(self, node: Node) -> tuple[Annotation, ...]:
        """Annotations under `config.meta.dqsql` of the node and of its columns."""
        annotations: list[Annotation] = []
        own = node.meta.get(KEY)
        checks = own.get("checks") if isinstance(own, dict) else own
        annotations += self._parsed(checks, self.places.of_meta(node, None), None)
        for column in node.columns:
            given = node.column_meta(column).get(KEY)
            if given is None:
                continue
            span = self.places.of_meta(node, column)
            if isinstance(given, dict):
                unknown = [k for k in given if k not in _COLUMN_KEYS]
                if unknown:
                    hint = f"known: {', '.join(_COLUMN_KEYS)}"
                    message = f"unknown key {unknown[0]!r} in meta.dqsql of the column {column}"
                    self.errors.append(ConfigError(message, span=span, hint=hint))
                given = given.get("checks")
            annotations += self._parsed(given, span, column)
        return tuple(annotations)

    def _parsed(self, given: object, span: Span, column: str | None) -> Iterator[Annotation]:
        texts = [given] if isinstance(given, str) else given or []
        if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
            message = "checks under meta.dqsql must be text or a list of texts"
            hint = 'write dqsql: ["not_null", "mean between 1 and 5 {severity: warn}"]'
            self.errors.append(ConfigError(message, span=span, hint=hint))
            return
        for text in texts:
            for parsed in parse_comment(with_mark(text), self.known_names):
                place = self.places.of_text(span, text)
                if isinstance(parsed, AnnotationProblem):
                    self.errors.append(parsed.error(place))
                else:
                    yield Annotation(parsed.expression, parsed.settings, place, column)

    def _refuse_ephemeral(self, node: Node, annotations: Collection[Annotation]) -> None:
        for annotation in annotations:
            message = f"{node.name} is ephemeral: dbt builds no relation that could be checked"
            hint = "materialize it as a view or table, or check the models that read it"
            self.errors.append(AnnotationError(message, span=annotation.span, hint=hint))

    def _freshness(self, node: Node) -> Iterator[Annotation]:
        """Dbt's freshness of a source as a check, or two with different thresholds."""
        given = (node.config.get("freshness"), node.data.get("freshness"))
        rules = next((r for r in given if _has_rule(r)), None)
        field_name = _setting(node, "loaded_at_field")
        query = _setting(node, "loaded_at_query")
        if not rules:
            return
        # A table inherits the field of its source; a query goes before it.
        if query or not field_name:
            reason = "it has no loaded_at_field: dbt asks the warehouse when it was changed"
            if query:
                reason = "loaded_at_query is a separate query"
            self.left.append(LeftTest(node.unique_id, f"freshness of {node.name}", reason))
            return
        for key, severity in (("error_after", Severity.ERROR), ("warn_after", Severity.WARN)):
            rule = rules.get(key) or {}
            if rule.get("count") is None or rule.get("period") not in _HOURS:
                continue
            hours = rule["count"] * _HOURS[rule["period"]]
            settings = CheckSettings(
                severity=severity,
                where=rules.get("filter") or None,
                name=f"freshness_{self.names[node.unique_id]}_{key}",
                no_data=NoData.ERROR if severity is Severity.ERROR else NoData.WARN,
                options={DBT_FRESHNESS: key},
            )
            yield Annotation(
                f"expect(freshness({field_name}) <= {hours:g})", settings, self.places.of_node(node)
            )

    # --- settings ------------------------------------------------------------------------------

    def _settings(self, node: Node) -> dict[str, Any]:
        """The settings under `config.meta.dqsql`, over what dbt's own configuration implies."""
        settings = self._checked(microbatch_settings(node), node)
        for meta in self._metas(node):
            given = {k: v for k, v in meta.items() if k != "checks"}
            settings = merge_settings(settings, self._checked(given, node))
            if "batch_by" in given and given["batch_by"] in (None, False):
                settings["batch_by"] = None
        return settings

    def _metas(self, node: Node) -> list[Mapping[str, Any]]:
        """`meta.dqsql` of the folders above a node, outermost first, and what dbt says is its own.

        dbt replaces that of a folder by that of a model, and so would forget what is private.
        """
        own = node.meta.get(KEY)
        folders: Any = self.folders.get(node.resource_type)
        found: list[Mapping[str, Any]] = []
        for part in (None, *(node.data.get("fqn") or ())):
            folders = folders if part is None else folders.get(part)
            if not isinstance(folders, dict):
                break
            meta = folders.get("+meta")
            above = meta.get(KEY) if isinstance(meta, dict) else None
            if isinstance(above, dict) and above != own:
                # A model that says something of its own is wanted where its folder is not.
                found.append({k: v for k, v in above.items() if k != "enabled" or own is None})
        return [*found, own] if isinstance(own, dict) else found

    def _checked(self, given: Mapping[str, Any], node: Node) -> dict[str, Any]:
        values = {k: v for k, v in given.items() if k != "batch_by" or v is not False}
        settings, problems = read_model_settings(values)
        for problem in problems:
            place = replace(self.places.of_meta(node, None), text=problem.key)
            self.errors.append(problem.at(ConfigError, place))
        return settings

    def _config(self, node: Node, settings: Mapping[str, Any]) -> ModelConfig:
        group = node.config.get("group") or node.data.get("group")
        pii = [c for c in node.columns if _is_private(node.column_meta(c).get(KEY))]
        extra = {
            **settings.get("extra", {}),
            "dbt": {
                "name": node.name,
                "unique_id": node.unique_id,
                "resource_type": node.resource_type,
                "package": node.package,
                "fqn": list(node.data.get("fqn") or ()),
                "group": group,
                "config": dict(node.config),
                # Where dbt kept it before version 1.10.
                "freshness": node.data.get("freshness"),
                "rebuilt": self.rebuilds.get(node.unique_id),
            },
        }
        owner = settings.get("owner") or _owner(node) or self.manifest.group_owner(group)
        return ModelConfig(
            **{
                **settings,
                "tags": tuple(dict.fromkeys((*node.tags, *settings.get("tags", ())))),
                "owner": owner,
                "description": settings.get("description")
                or str(node.data.get("description") or "")
                or None,
                "pii": (*settings.get("pii", ()), *pii),
                # What is wrong with an annotated ephemeral model is told when it is selected.
                "enabled": settings.get("enabled", True)
                and (node.relation is not None or bool(self.errors)),
                "extra": extra,
            }
        )


def _setting(node: Node, key: str) -> Any:
    return node.config.get(key) or node.data.get(key)


def _has_rule(freshness: Any) -> bool:
    rules = freshness.values() if isinstance(freshness, dict) else ()
    return any(isinstance(r, dict) and r.get("count") is not None for r in rules)


def _is_private(given: object) -> bool:
    return isinstance(given, dict) and given.get("pii") is True


def _owner(node: Node) -> str | None:
    owner = node.meta.get("owner")
    if isinstance(owner, dict):
        owner = owner.get("name") or owner.get("email")
    return str(owner) if owner else None


def microbatch_settings(node: Node) -> dict[str, Any]:
    """What a microbatch model of dbt says about its batches, in dqsql's words.

    dbt builds half-open intervals of `event_time` in UTC; with a new one it builds its `lookback`
    batches before that one again.
    """
    config = node.config
    column, size = config.get("event_time"), str(config.get("batch_size") or "").lower()
    strategy = str(config.get("incremental_strategy") or "").lower()
    if strategy != "microbatch" or not column or size not in _PERIODS:
        return {}
    settings: dict[str, Any] = {
        "batch_by": _PERIODS[size].format(column),
        "lookback": int(config.get("lookback") or 0) + 1,
    }
    if begin := config.get("begin"):
        settings["begin"] = str(begin)
    return settings


def unknown_columns(model: CheckModel, annotations: Collection[Annotation]) -> bool:
    """Whether a test is about a column that the model's text does not name.

    dbt's YAML and the built relation may be ahead of the text: then Spark decides.
    """
    known = model.columns
    if known is None:
        return False
    lower = {c.lower() for c in known}
    return any(a.column is not None and a.column.lower() not in lower for a in annotations)


# --- contracts that dbt enforces -----------------------------------------------------------------

_NOT_NULL, _UNIQUE, _KEY, _CHECK = "not_null", "unique", "primary_key", "check"


def contract_of(node: Node, span: Span, *, always: bool = False) -> Contract | None:
    """The contract of a model of dbt, described at `span`; None where dbt enforces none.

    With `always`, types and constraints are promises even where dbt does not enforce them.
    """
    setting = node.config.get("contract")
    enforced = isinstance(setting, dict) and setting.get("enforced") is True
    if not enforced and not (always and node.columns):
        return None
    left: list[str] = []
    key = _model_key(node)
    described = (_contract_column(name, data, key, left) for name, data in node.columns.items())
    # Beyond what dbt enforces, a column that is only described is not promised.
    columns = tuple(c for c in described if enforced or c != ContractColumn(c.name))
    checks = tuple(_model_checks(node, left))
    return Contract(
        name=node.name,
        columns=columns,
        checks=checks,
        # dbt builds such a model with these columns and no others.
        closed=enforced,
        span=span,
        left=tuple(left),
    )


def _constraints(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return mappings_in(data.get("constraints"))


def _model_key(node: Node) -> list[str]:
    for constraint in _constraints(node.data):
        if constraint.get("type") == _KEY:
            return [str(c).lower() for c in constraint.get("columns") or ()]
    return []


def _contract_column(
    name: str, data: Mapping[str, Any], key: list[str], left: list[str]
) -> ContractColumn:
    kinds = {str(c.get("type")) for c in _constraints(data)}
    left += [
        f"{name}: the constraint {kind} is left to dbt"
        for kind in sorted(kinds - {_NOT_NULL, _UNIQUE, _KEY, _CHECK})
    ]
    place = key.index(name.lower()) + 1 if name.lower() in key else None
    return ContractColumn(
        name=name,
        type=spark_type(str(data.get("data_type") or "")) or "",
        required=_NOT_NULL in kinds,
        unique=_UNIQUE in kinds,
        key=1 if _KEY in kinds else place,
        checks=tuple(_conditions(_constraints(data))),
    )


def _model_checks(node: Node, left: list[str]) -> Iterable[ContractCheck]:
    constraints = _constraints(node.data)
    yield from _conditions(constraints)
    for constraint in constraints:
        kind = constraint.get("type")
        names = [quoted(str(c)) for c in constraint.get("columns") or ()]
        if kind == _NOT_NULL:
            yield from (ContractCheck(f"not_null({name})") for name in names)
        elif kind == _UNIQUE and names:
            yield ContractCheck(f"unique({', '.join(names)})")
        elif kind not in (_KEY, _CHECK):
            left.append(f"the constraint {kind} is left to dbt")


def _conditions(constraints: Iterable[Mapping[str, Any]]) -> Iterable[ContractCheck]:
    """Conditions on rows; as in SQL, one that is null is met."""
    for constraint in constraints:
        if constraint.get("type") == _CHECK and constraint.get("expression"):
            expression = f"satisfies(coalesce({constraint['expression']}, true))"
            name = constraint.get("name")
            yield ContractCheck(expression, name=str(name) if name else None)


def _block_of(node: Node, raw: str) -> str:
    """What a snapshot's block holds, on the lines on which its file has it."""
    block = str(node.data.get("raw_code") or "").strip()
    return "\n" * raw[: raw.find(block)].count("\n") + block if block in raw else block


def _checksum(node: Node, raw: str) -> str:
    """What tells whether the node has changed: of a seed, which has no text, its data."""
    known = node.data.get("checksum")
    if node.resource_type == "seed" and isinstance(known, Mapping):
        return str(known.get("checksum") or "")
    return checksum_of(raw)
