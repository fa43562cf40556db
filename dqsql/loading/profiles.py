"""Finds the connection profile: dbt's `profiles.yml` form, or an embedded default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqsql.errors import ProfileError, Span, nearest
from dqsql.loading.documents import Document, read_document
from dqsql.loading.settings import as_bool, as_int, as_mapping, as_text
from dqsql.loading.sources import resolve_path
from dqsql.model.project import Target
from dqsql.templating import MacroLibrary, base_context

FILE_NAME = "profiles.yml"
DEFAULT_TARGET = "local"
TABLE_FORMATS = ("parquet", "delta", "iceberg")
METHODS = ("session", "connect")
_DBT_METHODS = ("thrift", "http", "odbc")
# Keys of dqsql; in a profile that dbt reads too they may stand under `dqsql:`.
_OWN_KEYS = frozenset(
    {
        "method",
        "schema",
        "warehouse",
        "table_format",
        "master",
        "url",
        "host",
        "port",
        "token",
        "user",
        "spark_conf",
        "server_side_parameters",
        "ansi",
        "threads",
        "catalog",
        "use_ssl",
    }
)
# Keys of dbt-spark that dqsql has no use for.
_DBT_KEYS = frozenset(
    {
        "auth",
        "cluster",
        "connect_retries",
        "connect_timeout",
        "connection_string_suffix",
        "database",
        "driver",
        "endpoint",
        "kerberos_service_name",
        "organization",
        "password",
        "poll_interval",
        "query_retries",
        "query_timeout",
        "retry_all",
        "workspace_id",
    }
)
_KNOWN_KEYS = _OWN_KEYS | _DBT_KEYS | {"type", "dqsql"}
_SESSION_CATALOG = "spark.sql.catalogImplementation"
_ANSI = "spark.sql.ansi.enabled"


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """What decides about the target besides the profile file.

    `profile` is the one asked for on the command line, `project_profile` the one in the project
    file. `defaults` are warehouse settings of the project file, which a profile overrides.
    """

    root: Path
    project_name: str
    profile: str | None = None
    project_profile: str | None = None
    target: str | None = None
    profiles_dir: str | Path | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)


def load_target(request: TargetRequest) -> Target:
    """The target to run against.

    `profiles.yml` is looked for in `profiles_dir`, `$DQSQL_PROFILES_DIR`, `$DBT_PROFILES_DIR`, the
    project's folder and `~/.dbt`. A project without any gets an embedded Spark session.

    Raises ProfileError: no such profile or target, or wrong settings in it.
    """
    file = _find_file(request)
    wanted = request.profile or request.project_profile or request.project_name
    if file is None:
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


def _known(what: str, names: list[str]) -> str:
    return f"known {what}: {', '.join(sorted(names)) or 'none'}"


def _find_file(request: TargetRequest) -> Path | None:
    if request.profiles_dir is not None:
        file = Path(request.profiles_dir).expanduser() / FILE_NAME
        if not file.is_file():
            raise ProfileError(f"there is no {FILE_NAME} in {request.profiles_dir}")
        return file
    folders: list[Path] = [
        Path(os.environ[name]).expanduser()
        for name in ("DQSQL_PROFILES_DIR", "DBT_PROFILES_DIR")
        if os.environ.get(name)
    ]
    folders += [request.root, Path("~/.dbt").expanduser()]
    return next((f / FILE_NAME for f in folders if (f / FILE_NAME).is_file()), None)


def _read(file: Path, request: TargetRequest) -> Document:
    shown = str(file.relative_to(request.root)) if file.is_relative_to(request.root) else str(file)
    library = MacroLibrary((), base_context(request.vars, None))
    return read_document(file, shown, library.render, ProfileError)


def _embedded(request: TargetRequest, profile: str) -> Target:
    if request.profile is not None:
        raise ProfileError(
            f"there is no {FILE_NAME} that could hold the profile {request.profile!r}",
            hint="write one, or leave --profile out to use the embedded Spark session",
        )
    if request.target not in (None, DEFAULT_TARGET):
        raise ProfileError(
            f"there is no target {request.target!r}",
            hint=f"without a {FILE_NAME} the only target is {DEFAULT_TARGET!r}",
        )
    document = Document("dqsql_project.yml", {}, {}, ProfileError)
    return _build(document, dict(request.defaults), (), DEFAULT_TARGET, profile, request)


def _from_profile(document: Document, profile: str, request: TargetRequest) -> Target:
    values = document.mapping(document.data[profile], profile, what=f"the profile {profile!r}")
    document.check_keys(values, ("target", "outputs", "config"), profile, what="a profile")
    outputs = document.mapping(values.get("outputs"), profile, "outputs", what="'outputs'")
    if not outputs:
        raise document.problem(
            f"the profile {profile!r} has no outputs",
            profile,
            hint="write `outputs:` with a target below it",
        )
    chosen = request.target or document.read(values, "target", as_text, profile) or "default"
    if chosen not in outputs:
        place = (profile, "target") if request.target is None else (profile, "outputs")
        raise document.problem(
            f"the profile {profile!r} has no target {chosen!r}",
            *place,
            hint=nearest(chosen, outputs) or _known("targets", list(outputs)),
        )
    keys = (profile, "outputs", chosen)
    output = document.mapping(outputs[chosen], *keys, what=f"the target {chosen!r}")
    document.check_keys(output, _KNOWN_KEYS, *keys, what="a target")
    _check_type(document, output, keys)
    own = document.mapping(output.get("dqsql"), *keys, "dqsql", what="'dqsql'")
    document.check_keys(own, _OWN_KEYS, *keys, "dqsql", what="'dqsql'")
    merged = {**request.defaults, **output, **own}
    return _build(document, merged, keys, chosen, profile, request)


def _check_type(document: Document, output: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    kind = output.get("type", "spark")
    if kind != "spark":
        raise document.problem(
            f"dqsql cannot connect to a target of type {kind!r}",
            *keys,
            "type",
            hint="write `type: spark` with `method: session` or `method: connect`",
        )


def _build(
    document: Document,
    values: Mapping[str, Any],
    keys: tuple[str, ...],
    name: str,
    profile: str,
    request: TargetRequest,
) -> Target:
    method = _method(document, values, keys)
    conf = _spark_conf(document, values, keys)
    catalog = document.read(values, "catalog", as_text, *keys)
    if catalog is not None and catalog not in ("hive", "none"):
        conf.setdefault("spark.sql.defaultCatalog", catalog)
    elif catalog == "hive":
        conf.setdefault(_SESSION_CATALOG, "hive")
    ansi = document.read(values, "ansi", as_bool, *keys)
    if ansi is None:
        ansi = conf.get(_ANSI, "false").lower() == "true"
    return Target(
        name=name,
        profile=profile,
        method=method,
        master=document.read(values, "master", as_text, *keys),
        url=_url(document, values, keys) if method == "connect" else None,
        schema=document.read(values, "schema", as_text, *keys) or "dq",
        warehouse=_warehouse(document, values, keys, method, conf, request.root),
        table_format=_table_format(document, values, keys),
        spark_conf=conf,
        ansi=ansi,
        threads=_threads(document, values, keys),
    )


def _method(document: Document, values: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    method = (document.read(values, "method", as_text, *keys) or "session").lower()
    if method in METHODS:
        return method
    hint = nearest(method, METHODS) or f"known methods: {', '.join(METHODS)}"
    if method in _DBT_METHODS:
        hint = (
            "dqsql reaches Spark by an embedded session or by Spark Connect: "
            "add `dqsql: {method: connect, url: 'sc://host:15002'}` to this target"
        )
    raise document.problem(f"dqsql cannot use the method {method!r}", *keys, "method", hint=hint)


def _spark_conf(
    document: Document, values: Mapping[str, Any], keys: tuple[str, ...]
) -> dict[str, str]:
    conf: dict[str, str] = {}
    for key in ("server_side_parameters", "spark_conf"):
        given = document.read(values, key, as_mapping, *keys) or {}
        for name, value in given.items():
            if not isinstance(value, str | int | float | bool):
                raise document.problem(
                    f"the Spark setting {name!r} must be one value", *keys, key, name
                )
            conf[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return conf


def _url(document: Document, values: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    if url := document.read(values, "url", as_text, *keys):
        if not url.startswith("sc://"):
            raise document.problem(
                f"the url {url!r} is no Spark Connect address", *keys, "url",
                hint="write sc://host:15002",
            )
        return str(url)
    host = document.read(values, "host", as_text, *keys)
    if not host or host.upper() == "NA":
        raise document.problem(
            "the method 'connect' needs a url or a host", *keys, hint="write url: sc://host:15002"
        )
    port = 15002
    if values.get("port") is not None:
        port = document.read(values, "port", lambda k, v: as_int(k, v, minimum=1), *keys)
    parameters = [
        f"{parameter}={document.read(values, key, as_text, *keys)}"
        for key, parameter in (("user", "user_id"), ("token", "token"))
        if values.get(key)
    ]
    if document.read(values, "use_ssl", as_bool, *keys):
        parameters.append("use_ssl=true")
    return f"sc://{host}:{port}" + ("/;" + ";".join(parameters) if parameters else "")


def _warehouse(
    document: Document,
    values: Mapping[str, Any],
    keys: tuple[str, ...],
    method: str,
    conf: Mapping[str, str],
    root: Path,
) -> str | None:
    """The folder of path-based tables; None when the tables live in a catalog."""
    if warehouse := document.read(values, "warehouse", as_text, *keys):
        return resolve_path(warehouse, root)
    has_catalog = conf.get(_SESSION_CATALOG) == "hive" or any(
        key == "spark.sql.defaultCatalog" or key.startswith("spark.sql.catalog.") for key in conf
    )
    if method != "session" or has_catalog:
        return None
    return str(root / "warehouse")


def _table_format(document: Document, values: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    chosen = (document.read(values, "table_format", as_text, *keys) or "parquet").lower()
    if chosen not in TABLE_FORMATS:
        raise document.problem(
            f"unknown table format {chosen!r}",
            *keys,
            "table_format",
            hint=f"one of {', '.join(TABLE_FORMATS)}",
        )
    return str(chosen)


def _threads(document: Document, values: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    threads = document.read(values, "threads", lambda k, v: as_int(k, v, minimum=1), *keys)
    return 1 if threads is None else int(threads)
