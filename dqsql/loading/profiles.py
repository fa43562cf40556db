"""Finds the connection profile: dbt's `profiles.yml` form, or an embedded default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dqsql.errors import ProfileError, Span, nearest
from dqsql.loading.config import ProjectConfig
from dqsql.loading.documents import Document, KeyPath, Section, read_document
from dqsql.loading.sources import resolve_path
from dqsql.model.project import DELTA, METHODS, TABLE_FORMATS, Target
from dqsql.model.settings import as_bool, as_mapping, as_text, at_least
from dqsql.model.wording import scalar_text
from dqsql.resources import expanded
from dqsql.templating import MacroLibrary, base_context

FILE_NAME = "profiles.yml"
_DEFAULT_TARGET = "local"
_DBT_METHODS = ("thrift", "http", "odbc")
_DBT_TYPES = ("spark", "databricks")
_METASTORE = "metastore_db"
_DERBY_URL = "spark.hadoop.javax.jdo.option.ConnectionURL"
# Keys of dqsql; in a profile that dbt reads too they may stand under `dqsql:`.
OWN_KEYS = frozenset(
    {"method", "schema", "warehouse", "table_format", "master", "url", "host", "port"}
    | {"token", "user", "spark_conf", "server_side_parameters", "ansi", "threads", "catalog"}
    | {"use_ssl"}
)
# Keys of dbt-spark that dqsql has no use for.
_DBT_KEYS = frozenset(
    {"auth", "cluster", "connect_retries", "connect_timeout", "connection_string_suffix"}
    | {"database", "driver", "endpoint", "kerberos_service_name", "organization", "password"}
    | {"poll_interval", "query_retries", "query_timeout", "retry_all", "workspace_id"}
)
_KNOWN_KEYS = OWN_KEYS | _DBT_KEYS | {"type", "dqsql"}
_SESSION_CATALOG = "spark.sql.catalogImplementation"
_DEFAULT_CATALOG = "spark.sql.defaultCatalog"
_ANSI = "spark.sql.ansi.enabled"


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """What decides about the target besides the profile file.

    `profile` is the one asked for on the command line, `project_profile` the one in the project
    file. `defaults` are warehouse settings of the project file, at `places`, which a profile
    overrides. `dbt` says that the profile is dbt's: `schema` is where dbt builds, and methods that
    only dbt knows are taken as they are, since a session may be handed in.
    """

    root: Path
    project_name: str = ""
    profile: str | None = None
    project_profile: str | None = None
    target: str | None = None
    profiles_dir: str | os.PathLike[str] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Span] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    dbt: bool = False


def load_target(request: TargetRequest) -> Target:
    """The target to run against.

    `profiles.yml` is looked for in `profiles_dir`, `$DQSQL_PROFILES_DIR`, `$DBT_PROFILES_DIR`, the
    project's folder and `~/.dbt`. A project without any gets an embedded Spark session, but for one
    of dbt's.

    Raises ProfileError: no such profile or target, or wrong settings in it.
    """
    file = _find_file(request)
    if file is not None and request.dbt:
        # As in dbt, what the command line does not say.
        request = replace(
            request,
            target=request.target or os.environ.get("DBT_TARGET") or None,
            profile=request.profile or os.environ.get("DBT_PROFILE") or None,
        )
    wanted = request.profile or request.project_profile or request.project_name
    if file is None:
        if request.dbt:
            raise ProfileError(
                f"there is no {FILE_NAME}, which says where dbt builds the relations of"
                f" {request.project_name}",
                hint=f"{', '.join(_PLACES)} were looked at; --profiles-dir names another folder",
            )
        return _embedded(request, wanted)
    document = _read(file, request)
    if wanted not in document.data:
        if request.profile is None and request.project_profile is None:
            # A profile file of other projects, for example in ~/.dbt.
            return _embedded(request, wanted)
        known = [key for key in document.data if key != "config"]
        raise ProfileError(
            f"there is no profile {wanted!r} in {document.path}",
            span=Span(document.path),
            hint=nearest(wanted, known) or _known("profiles", known),
        )
    return _from_profile(document, wanted, request)


def target_of(request: TargetRequest, config: ProjectConfig) -> Target:
    """The target of a project with these settings. Raises ProfileError."""
    return load_target(
        replace(
            request,
            project_name=config.name,
            project_profile=config.profile,
            defaults=config.target_defaults,
            places=config.target_places,
            vars=config.vars,
        )
    )


def _known(what: str, names: list[str]) -> str:
    return f"known {what}: {', '.join(sorted(names)) or 'none'}"


# Environment variables with folders of profiles, and all places where one may be.
_FOLDERS = ("DQSQL_PROFILES_DIR", "DBT_PROFILES_DIR")
_PLACES = (*(f"${name}" for name in _FOLDERS), "the project's folder", "~/.dbt")


def _find_file(request: TargetRequest) -> Path | None:
    if request.profiles_dir is not None:
        file = expanded(request.profiles_dir) / FILE_NAME
        if not file.is_file():
            raise ProfileError(f"there is no {FILE_NAME} in {request.profiles_dir}")
        return file
    folders: list[Path] = [expanded(os.environ[n]) for n in _FOLDERS if os.environ.get(n)]
    folders += [request.root, expanded("~/.dbt")]
    return next((f / FILE_NAME for f in folders if (f / FILE_NAME).is_file()), None)


def _read(file: Path, request: TargetRequest) -> Document:
    shown = str(file.relative_to(request.root)) if file.is_relative_to(request.root) else str(file)
    library = MacroLibrary((), base_context(request.vars, None, secrets=True))
    # As in dbt, what other outputs and profiles name need not be set.
    return read_document(file, shown, library.render, ProfileError, later=True)


def _embedded(request: TargetRequest, profile: str) -> Target:
    if request.profile is not None:
        raise ProfileError(
            f"there is no {FILE_NAME} that could hold the profile {request.profile!r}",
            hint="write one, or leave --profile out to use the embedded Spark session",
        )
    if request.target not in (None, _DEFAULT_TARGET):
        raise ProfileError(
            f"there is no target {request.target!r}",
            hint=f"without a {FILE_NAME} the only target is {_DEFAULT_TARGET!r}",
        )
    document = Document("dqsql_project.yml", {}, {}, ProfileError)
    output = _section(document, request, {}, ())
    return _build(output, _DEFAULT_TARGET, profile, request.root)


def _from_profile(document: Document, profile: str, request: TargetRequest) -> Target:
    for whole in ((profile,), (profile, "outputs")):
        if whole in document.unrendered:
            raise document.unrendered[whole]
    section = document.top.section(profile, f"the profile {profile!r}")
    section.check_keys(("target", "outputs", "config"), "a profile")
    outputs = section.section("outputs", "'outputs'")
    if not outputs.values:
        raise section.problem(
            f"the profile {profile!r} has no outputs",
            hint="write `outputs:` with a target below it",
        )
    if request.target is None:
        document.refuse_unrendered(profile, "target")
    chosen = request.target or section.read("target", as_text) or "default"
    if chosen not in outputs.values:
        raise section.problem(
            f"the profile {profile!r} has no target {chosen!r}",
            "target" if request.target is None else "outputs",
            hint=nearest(chosen, outputs.values) or _known("targets", list(outputs.values)),
        )
    document.refuse_unrendered(profile, "outputs", chosen)
    output = outputs.section(chosen, f"the target {chosen!r}")
    own = output.section("dqsql", "'dqsql'")
    own.check_keys(OWN_KEYS, "'dqsql'")
    if request.dbt:
        target = _beside_dbt(output, own, chosen, profile, request)
        return replace(target, dbt_schemas=_schemas(outputs))
    output.check_keys(_KNOWN_KEYS, "a target")
    _check_type(output)
    section = _section(document, request, {**output.values, **own.values}, output.keys)
    return _build(section, chosen, profile, request.root)


def _section(
    document: Document, request: TargetRequest, given: Mapping[str, Any], keys: KeyPath
) -> Section:
    """What a profile says over what the project file says, each with its place."""
    inherited = {(*keys, k): place for k, place in request.places.items() if k not in given}
    document = replace(document, inherited=inherited)
    return Section(document, {**request.defaults, **given}, keys)


def _beside_dbt(
    output: Section, own: Section, chosen: str, profile: str, request: TargetRequest
) -> Target:
    """The target of a profile that dbt uses, too.

    dqsql's tables lie in `<schema>_dq`, so that targets of several developers stay apart. Under the
    session method, the catalog is the Hive metastore that dbt's session uses.
    """
    kind = output.values.get("type", "spark")
    if kind not in _DBT_TYPES and "method" not in own.values:
        raise output.problem(
            f"dqsql checks with Spark, and the target is of type {kind!r}",
            "type",
            hint="dqsql works beside dbt-spark and dbt-databricks",
        )
    given = {k: v for k, v in output.values.items() if k != "schema"}
    if kind != "spark":
        given = {"method": kind, "threads": given.get("threads")}
    section = _section(output.document, request, {**given, **own.values}, output.keys)
    merged = dict(section.values)
    if merged.get("schema") is None:
        merged["schema"] = f"{output.read('schema', as_text) or 'default'}_dq"
    method = _method(section, others=True)
    if method == "session" and "catalog" not in merged:
        conf = {**_hive_conf(request.root, _spark_conf(section)), **_spark_conf(section)}
        merged |= {"spark_conf": conf, "server_side_parameters": {}}
    section = replace(section, values=merged)
    return _build(section, chosen, profile, request.root, others=True)


def _schemas(outputs: Section) -> dict[str, str]:
    given = {k: v.get("schema") for k, v in outputs.values.items() if isinstance(v, dict)}
    return {name: schema for name, schema in given.items() if isinstance(schema, str)}


def _hive_conf(root: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Where a session keeps its metastore and tables: the project, or the folder dbt runs in."""
    conf = {_SESSION_CATALOG: "hive"}
    here = Path.cwd()
    home = root if (root / _METASTORE).exists() or not (here / _METASTORE).exists() else here
    folders = [os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")]
    folders += [f"{home_of_spark}/conf"] if (home_of_spark := os.environ.get("SPARK_HOME")) else []
    has_site = any(folder and (Path(folder) / "hive-site.xml").is_file() for folder in folders)
    names = ("javax.jdo.option.ConnectionURL", "metastore.uris")
    elsewhere = any(key.endswith(names) for key in given)
    if not has_site and not elsewhere:
        conf[_DERBY_URL] = f"jdbc:derby:;databaseName={home / _METASTORE};create=true"
    conf["spark.sql.warehouse.dir"] = str(home / "spark-warehouse")
    return conf


def _check_type(output: Section) -> None:
    kind = output.values.get("type", "spark")
    if kind != "spark":
        raise output.problem(
            f"dqsql cannot connect to a target of type {kind!r}",
            "type",
            hint="write `type: spark` with `method: session` or `method: connect`",
        )


def _build(output: Section, name: str, profile: str, root: Path, *, others: bool = False) -> Target:
    method = _method(output, others=others)
    conf = _spark_conf(output)
    catalog = output.read("catalog", as_text)
    if catalog == "hive":
        conf.setdefault(_SESSION_CATALOG, "hive")
    elif catalog is not None:
        conf.setdefault(_DEFAULT_CATALOG, catalog)
    if method == "session" and conf.get(_SESSION_CATALOG) == "hive":
        # Else Spark keeps it in a folder of the machine that everybody shares.
        own = _hive_conf(root, conf)
        conf = {**own, **conf} if _DERBY_URL in own else conf
    ansi = output.read("ansi", as_bool)
    if ansi is None:
        ansi = conf.get(_ANSI, "false").lower() == "true"
    return Target(
        name=name,
        profile=profile,
        method=method,
        master=output.read("master", as_text),
        url=_url(output) if method == "connect" else None,
        schema=_not_empty(output, "schema") or "dq",
        table_format=_table_format(output),
        warehouse=_warehouse(output, method, conf, root),
        spark_conf=conf,
        ansi=ansi,
        threads=output.read("threads", at_least(1)),
    )


def _method(output: Section, *, others: bool = False) -> str:
    """The method; with `others` also one that only dbt knows."""
    method = str(output.read("method", as_text) or "session").lower()
    if method in METHODS or (others and method in (*_DBT_METHODS, *_DBT_TYPES)):
        return method
    hint = nearest(method, METHODS) or f"known methods: {', '.join(METHODS)}"
    if method in _DBT_METHODS:
        hint = (
            "dqsql reaches Spark by an embedded session or by Spark Connect: "
            "add `dqsql: {method: connect, url: 'sc://host:15002'}` to this target"
        )
    raise output.problem(f"dqsql cannot use the method {method!r}", "method", hint=hint)


def _spark_conf(output: Section) -> dict[str, str]:
    conf: dict[str, str] = {}
    for key in ("server_side_parameters", "spark_conf"):
        for name, value in (output.read(key, as_mapping) or {}).items():
            if not isinstance(value, str | int | float | bool):
                raise output.problem(f"the Spark setting {name!r} must be one value", key, name)
            conf[name] = scalar_text(value)
    return conf


def _url(output: Section) -> str:
    if url := output.read("url", as_text):
        if not url.startswith("sc://"):
            raise output.problem(
                f"the url {url!r} is not a Spark Connect address",
                "url",
                hint="write sc://host:15002",
            )
        return str(url)
    host = output.read("host", as_text)
    if not host or host.upper() == "NA":
        raise output.problem(
            "the method 'connect' needs a url or a host", hint="write url: sc://host:15002"
        )
    port = output.read("port", at_least(1)) or 15002
    parameters = [
        f"{parameter}={output.read(key, as_text)}"
        for key, parameter in (("user", "user_id"), ("token", "token"))
        if output.values.get(key)
    ]
    if output.read("use_ssl", as_bool):
        parameters.append("use_ssl=true")
    return f"sc://{host}:{port}" + ("/;" + ";".join(parameters) if parameters else "")


def _not_empty(output: Section, name: str) -> str | None:
    """A text of the target, which no variable that is empty stands for."""
    text: str | None = output.read(name, as_text)
    if text is not None and not text.strip():
        hint = "leave it out for its default, or set the variable that it is read of"
        raise output.problem(f"{name} is empty", name, hint=hint)
    return text


def _warehouse(output: Section, method: str, conf: Mapping[str, str], root: Path) -> str | None:
    """The folder of path-based tables; None when the tables live in a catalog.

    A catalog keeps them where the target names their format, which its session must know: tables
    in a folder need nothing.
    """
    table_format = output.read("table_format", as_text)
    if warehouse := _not_empty(output, "warehouse"):
        if table_format is not None and table_format.lower() != DELTA:
            raise output.problem(
                f"a warehouse that is a path keeps Delta tables, not {table_format}",
                "table_format",
                hint="leave `warehouse` out, so that the tables live in the session's catalog",
            )
        return resolve_path(warehouse, root)
    has_catalog = conf.get(_SESSION_CATALOG) == "hive" or any(
        key == _DEFAULT_CATALOG or key.startswith("spark.sql.catalog.") for key in conf
    )
    if table_format is not None and (method != "session" or has_catalog):
        return None
    if table_format is not None and table_format.lower() != DELTA:
        raise output.problem(
            f"{table_format} tables need a catalog, and this target names none",
            "table_format",
            hint="set `catalog`, or leave `table_format` out for tables in a folder",
        )
    return str(root / "warehouse")


def _table_format(output: Section) -> str:
    chosen = str(output.read("table_format", as_text) or DELTA).lower()
    if chosen not in TABLE_FORMATS:
        hint = f"one of {', '.join(TABLE_FORMATS)}"
        if chosen == "parquet":
            hint = "leave it out: tables in a folder are Delta tables, which need no jar"
        raise output.problem(f"unknown table format {chosen!r}", "table_format", hint=hint)
    return chosen
