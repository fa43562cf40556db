"""Table formats of catalogs: what each needs of a session, and the store that writes it.

A format is a file beside this one with a `FORMAT`, which is found there; its word stands in
`dqsql.model.project.TABLE_FORMATS`. Warehouses that are paths have one format,
which needs nothing of Spark: see `dqsql.engine.storage_delta`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pyspark

from dqsql.engine.formats.base import TableFormat
from dqsql.errors import ConfigError, nearest
from dqsql.model.project import Target


def table_formats() -> Iterator[TableFormat]:
    """The formats whose files lie here."""
    for module in iter_modules(__path__, f"{__name__}."):
        table_format = getattr(import_module(module.name), "FORMAT", None)
        if table_format is not None:
            yield table_format


_FORMATS = {found.name: found for found in table_formats()}


def format_of(target: Target) -> TableFormat:
    """The format of a target's tables in a catalog. Raises ConfigError: there is no such format."""
    table_format = _FORMATS.get(target.table_format)
    if table_format is None:
        raise ConfigError(
            f"unknown table format {target.table_format!r}",
            hint=nearest(target.table_format, _FORMATS) or f"one of {', '.join(_FORMATS)}",
        )
    return table_format


def format_conf(target: Target, spark_version: str | None = None) -> dict[str, str]:
    """Settings with which an embedded session must start for the target's tables and sources.

    The user's own settings (`target.spark_conf`) are kept and merged in, so the result is applied
    after them. Jars that the user names are taken; others come by `spark.jars.packages`, from the
    local Maven repository where they are. A warehouse that is a path needs none. Empty for Spark
    Connect, whose server must have been started with these settings.

    Raises ConfigError: no such format, or none that fits this Spark.
    """
    own = format_of(target)
    if target.method == "connect":
        return {}
    names = [own.name] if target.warehouse is None else []
    conf: dict[str, str] = {}
    for name in dict.fromkeys([*names, *target.source_formats]):
        given = {**target.spark_conf, **conf}
        conf |= _FORMATS[name].conf(given, spark_version or pyspark.__version__)
    return conf
