"""Table formats: their names, the jars that they need, and the settings of an embedded session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyspark

from dqsql.errors import ConfigError, nearest
from dqsql.model.project import TABLE_FORMATS, Target

ICEBERG_CATALOG = "dqsql_iceberg"

_PACKAGES = "spark.jars.packages"
_EXCLUDES = "spark.jars.excludes"
_EXTENSIONS = "spark.sql.extensions"
_JARS = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")


@dataclass(frozen=True)
class _Format:
    """What a session needs for a format.

    `packages` are the Maven coordinates for each Spark version, `excludes` those among their
    dependencies that dqsql does not use. `word` names the format's jars among a user's own.
    """

    word: str
    extension: str
    packages: Mapping[str, str]
    excludes: str = ""
    note: str = ""


# The one table of versions.
_FORMATS: Mapping[str, _Format] = {
    "delta": _Format(
        word="delta-spark",
        extension="io.delta.sql.DeltaSparkSessionExtension",
        packages={
            "4.1": "io.delta:delta-spark_4.1_2.13:4.3.1",
            "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
        },
        # Clients of Unity Catalog and the kernel's readers. They bring libraries that Spark has in
        # other versions, and Ivy cannot resolve them from a local repository alone.
        excludes="io.delta:delta-kernel-*,io.unitycatalog:*,com.fasterxml.jackson*:*",
    ),
    "iceberg": _Format(
        word="iceberg-spark-runtime",
        extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        packages={"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"},
        note="its newest runtime is for Spark 4.1 and does not load in 4.2",
    ),
}
# Delta reads its log with 50 tasks unless told otherwise, whose overhead is all that one sees.
_DELTA_CONF = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def format_conf(target: Target, spark_version: str | None = None) -> dict[str, str]:
    """Settings with which an embedded session must start for the target's table format.

    The user's own settings (`target.spark_conf`) are kept and merged in, so the result is applied
    after them. Jars that the user names are taken; others come by `spark.jars.packages`, from the
    local Maven repository where they are. Empty for Parquet, and for Spark Connect, whose server
    must have been started with these settings.

    Raises ConfigError: no such format, or none that fits this Spark.
    """
    check_format(target.table_format)
    if target.table_format == "parquet" or target.method == "connect":
        return {}
    wanted = _FORMATS[target.table_format]
    user = target.spark_conf
    conf = {_EXTENSIONS: _joined(user.get(_EXTENSIONS), wanted.extension)}
    if not any(wanted.word in user.get(key, "") for key in _JARS):
        package = _package(target.table_format, spark_version or pyspark.__version__)
        conf[_PACKAGES] = _joined(user.get(_PACKAGES), package)
        if wanted.excludes and not user.get(_PACKAGES):
            conf.setdefault(_EXCLUDES, _joined(user.get(_EXCLUDES), wanted.excludes))
    if target.table_format == "delta":
        conf |= {key: user.get(key, value) for key, value in _DELTA_CONF.items()}
    elif target.warehouse is not None:
        conf |= iceberg_catalog_conf(target.warehouse.rstrip("/"))
    return conf


def iceberg_catalog_conf(warehouse: str, catalog: str = ICEBERG_CATALOG) -> dict[str, str]:
    """Settings of the catalog by which Iceberg keeps tables in folders under a path."""
    key = f"spark.sql.catalog.{catalog}"
    return {
        key: "org.apache.iceberg.spark.SparkCatalog",
        f"{key}.type": "hadoop",
        f"{key}.warehouse": warehouse,
    }


def check_format(name: str) -> None:
    """Raise ConfigError unless it is the name of a table format."""
    if name not in TABLE_FORMATS:
        raise ConfigError(
            f"unknown table format {name!r}",
            hint=nearest(name, TABLE_FORMATS) or f"one of {', '.join(TABLE_FORMATS)}",
        )


def _package(name: str, spark_version: str) -> str:
    wanted = _FORMATS[name]
    minor = ".".join(spark_version.split(".")[:2])
    if package := wanted.packages.get(minor):
        return package
    known = " or ".join(wanted.packages)
    reason = f" ({wanted.note})" if wanted.note else ""
    raise ConfigError(
        f"there is no {name} for Spark {minor} that dqsql knows to work{reason}",
        hint=f"use PySpark {known}, another table_format, or name the jar in {_PACKAGES} yourself",
    )


def _joined(*lists: str | None) -> str:
    """Comma-separated lists as one, without repetition."""
    items = [item.strip() for text in lists if text for item in text.split(",")]
    return ",".join(dict.fromkeys(item for item in items if item))
