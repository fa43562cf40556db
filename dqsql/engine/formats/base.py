"""What a table format is to dqsql: jars, settings, and how its writers get in each other's way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dqsql.errors import ConfigError

_PACKAGES = "spark.jars.packages"
_EXCLUDES = "spark.jars.excludes"
_EXTENSIONS = "spark.sql.extensions"
_JARS = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")


@dataclass(frozen=True)
class TableFormat:
    """A format that knows MERGE INTO, and what a session needs for it.

    Attributes:
        name: the word of `table_format`, which is also Spark's name for it (`using delta`).
        word: names the format's jars among a user's own.
        extension: the class of its extension of Spark SQL.
        packages: the Maven coordinates for each Spark version.
        excludes: those among their dependencies that dqsql does not use.
        settings: more settings, for which the user's own are taken where there are any.
        note: why there is nothing for a newer Spark.
        conflicts: how it says that another writer was faster, in conditions, classes and messages.
        caches: whether Spark plans the source of a MERGE twice, so that it must be kept.
    """

    name: str
    word: str
    extension: str
    packages: Mapping[str, str]
    excludes: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    conflicts: tuple[str, ...] = ()
    caches: bool = False

    def conf(self, own: Mapping[str, str], spark_version: str) -> dict[str, str]:
        """The settings to start a session with; `own` are the user's, which are merged in.

        Raises ConfigError: there is no jar for this Spark.
        """
        conf = {_EXTENSIONS: _joined(own.get(_EXTENSIONS), self.extension)}
        if not any(self.word in own.get(key, "") for key in _JARS):
            conf[_PACKAGES] = _joined(own.get(_PACKAGES), self._package(spark_version))
            # What the user's packages need is not ours to leave out.
            if self.excludes and not own.get(_PACKAGES):
                conf[_EXCLUDES] = _joined(own.get(_EXCLUDES), self.excludes)
        return conf | {key: own.get(key, value) for key, value in self.settings.items()}

    def _package(self, spark_version: str) -> str:
        minor = ".".join(spark_version.split(".")[:2])
        if package := self.packages.get(minor):
            return package
        known = " or ".join(self.packages)
        reason = f" ({self.note})" if self.note else ""
        raise ConfigError(
            f"no version of {self.name} is known to work with Spark {minor}{reason}",
            hint=f"use PySpark {known}, set `warehouse` to a path (its tables need no jar),"
            f" or name the jar in {_PACKAGES} yourself",
        )


def _joined(*lists: str | None) -> str:
    """Comma-separated lists as one, without repetition."""
    items = [item.strip() for text in lists if text for item in text.split(",")]
    return ",".join(dict.fromkeys(item for item in items if item))
