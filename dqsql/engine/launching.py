"""How Java is started for a session of dqsql's: its settings and options, and the command.

Also ahead of the session, in the first run of a project, of which nothing is known from an earlier
one: while it is compiled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from tempfile import gettempdir

from dqsql.engine.archive import archive_options
from dqsql.engine.formats import format_conf
from dqsql.engine.head_start import Launch, digest_of, start, watched
from dqsql.engine.java import find_java
from dqsql.engine.small import SMALL_BYTES, Scale, small_java_options
from dqsql.engine.warm import place_of
from dqsql.errors import EngineError
from dqsql.model.project import Project, Target

_CATALOG = "spark.sql.catalogImplementation"
# What the embedded session starts with: small, quiet, and leaving nothing behind.
_EMBEDDED_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    _CATALOG: "in-memory",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.codegen.cache.maxEntries": "200",
}
# What Spark's scripts set of the environment of Java.
_BY_SCRIPTS = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SCALA_VERSION", "PYTHONHASHSEED")


def embedded_settings(target: Target) -> dict[str, str]:
    """The settings that the embedded session of a target starts with."""
    settings = {
        **_EMBEDDED_CONF,
        "spark.master": target.master or "local[*]",
        "spark.sql.warehouse.dir": target.warehouse or f"{gettempdir()}/dqsql-warehouse",
    }
    # The format's settings hold the user's own for the same keys.
    return settings | dict(target.spark_conf) | format_conf(target)


def sized_options(settings: Mapping[str, str], scale: Scale) -> tuple[str, ...]:
    """The JVM's options for so much to read."""
    return () if scale is Scale.ANY else small_java_options(settings)


def wanted_by(settings: Mapping[str, str], small: Sequence[str]) -> str:
    """A short name for what a session asks of a JVM."""
    return digest_of(sorted(settings.items()), tuple(small), _log_options())


def java_options(settings: Mapping[str, str], ours: Sequence[str]) -> dict[str, str]:
    """The settings, with dqsql's own options of the JVM beside the user's."""
    key = "spark.driver.extraJavaOptions"
    options = [
        *ours,
        # Derby and the like write into the current directory unless told otherwise.
        # So does a JVM that dies.
        f"-Dderby.system.home={gettempdir()}",
        f"-XX:ErrorFile={gettempdir()}/hs_err_pid%p.log",
        "-XX:-CreateCoredumpOnCrash",
        *_log_options(),
        # The user's come last: of two that contradict each other the JVM takes the later one.
        settings.get(key, ""),
    ]
    return {**settings, key: " ".join(options).strip()}


def _log_options() -> list[str]:
    """What to log, unless the user's Spark has a configuration of its own."""
    home = os.environ.get("SPARK_HOME")
    own = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    if own and any(Path(own).glob("log4j2.*")):
        return []
    return [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]


# --- the command --------------------------------------------------------------------------------


def command_of_process(
    process: Popen[bytes] | None,
) -> tuple[tuple[str, ...], dict[str, str]] | None:
    """The command of a JVM that Spark's scripts have started, and what they set for it.

    The scripts take half a second, and another JVM, to make it of their own arguments. None where
    it cannot be told, and where a script of the user's belongs to it.
    """
    if process is None:
        return None
    folder = os.environ.get("SPARK_CONF_DIR") or f"{_spark_home()}/conf"
    if Path(folder, "spark-env.sh").exists():
        return None
    try:
        command, around = (
            Path(f"/proc/{process.pid}/{name}").read_bytes().decode("utf-8", "surrogateescape")
            for name in ("cmdline", "environ")
        )
    except OSError:
        return None  # no Linux
    variables = dict(v.split("=", 1) for v in around.split("\0") if "=" in v)
    kept = {name: variables[name] for name in _BY_SCRIPTS if name in variables}
    if len(kept) < len(_BY_SCRIPTS):
        return None
    return tuple(command.split("\0")[:-1]), kept


def _spark_home() -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())


def start_ahead(project: Project) -> None:
    """Start Java for the run of a project that is going to need it.

    Nothing happens where it cannot be told how, or whether that is possible.
    """
    target, scale = project.target, scale_of_sources(project)
    if target.method != "session" or scale is None:
        return
    settings = embedded_settings(target)
    record = place_of(settings).record
    # Hive's metastore may be one that another process has locked.
    if record.exists() or settings[_CATALOG] != "in-memory":
        return
    small = sized_options(settings, scale)
    try:
        options = java_options(settings, [*archive_options(find_java()), *small])
    except EngineError:
        return  # the session tells what is wrong
    words = (word for item in options.items() for word in ("--conf", "=".join(item)))
    command = (f"{_spark_home()}/bin/spark-submit", *words, "pyspark-shell")
    log = str((project.log_dir / "spark.log").absolute())
    start(Launch(command, log, wanted_by(settings, small), str(record)))


def scale_of_sources(project: Project, others: Sequence[Path] = ()) -> Scale | None:
    """How much the models may read, where all of it is in files of this machine.

    `others` are files that are read besides.
    """
    paths = [source.path for source in project.sources]
    local = [Path(path) for path in paths if path is not None and "://" not in path]
    if len(local) < len(paths) or any(model.relation is not None for model in project.models):
        return None
    watched_files = watched([*local, *others])
    if watched_files is None or not watched_files.files:
        return None
    return (
        Scale.SMALL if sum(size for _, size, _ in watched_files.files) <= SMALL_BYTES else Scale.ANY
    )
