"""Spark's servers for tests: from the PySpark package, on the loopback, stopped by their ids."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Of a server's start, on a machine that has other things to do.
START_SECONDS = 300
# What every server has: it is small, and nobody else reaches it.
_LOCAL = (
    "spark.connect.grpc.binding.address=127.0.0.1",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.memory=2g",
    "spark.sql.shuffle.partitions=8",
    "spark.ui.enabled=false",
)


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all its children, in a group of its own; killed at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=environment(),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(ready: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if ready():
            return
        time.sleep(0.25)
    pytest.fail(f"no server: {log.read_text()[-2000:]}")


def listens(port: int) -> Callable[[], bool]:
    def ready() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    return ready


def alive_workers(port: int, number: int) -> Callable[[], bool]:
    """Whether a master, by its web page, has as many workers at its disposal."""

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=10) as page:
                return int(json.load(page)["aliveworkers"]) == number
        except (OSError, ValueError):
            # The page is not there, or not complete yet.
            return False

    return ready


@contextmanager
def connect_server(folder: Path, *conf: str) -> Iterator[int]:
    """A Spark Connect server; yields its port."""
    port = free_port()
    settings = (f"spark.connect.grpc.binding.port={port}", *conf)
    with submitted(folder, "org.apache.spark.sql.connect.service.SparkConnectServer", settings) as (
        server,
        log,
    ):
        wait_until(listens(port), server, log)
        yield port


@contextmanager
def thrift_and_connect_server(folder: Path) -> Iterator[tuple[int, int]]:
    """One JVM that serves Thrift and Spark Connect; yields the two ports."""
    connect = free_port()
    settings = (
        "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin",
        f"spark.connect.grpc.binding.port={connect}",
    )
    # Plugins are there before the server listens.
    with thrift_server(folder, *settings) as thrift:
        yield thrift, connect


@contextmanager
def thrift_server(folder: Path, *settings: str) -> Iterator[int]:
    """A server of Hive's protocol, for JDBC, with a catalog of its own; yields its port."""
    port = free_port()
    hive = ("hive.server2.thrift.bind.host=127.0.0.1", f"hive.server2.thrift.port={port}")
    name = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    with submitted(folder, name, settings, hive) as (server, log):
        wait_until(listens(port), server, log)
        yield port


def beeline(port: int, script: Path) -> str:
    """What Spark's own JDBC client answers to the statements of a file, tab-separated."""
    command = [str(spark_home() / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{port}"]
    command += ["-n", "tests", "--silent=true", "--outputformat=tsv2", "-f", str(script)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def submitted(
    folder: Path, name: str, settings: tuple[str, ...], hive: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A server by its class, with its log."""
    log = folder / "server.log"
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--class", name]
    command += [word for setting in (*_LOCAL, *settings) for word in ("--conf", setting)]
    command += ["spark-internal"]
    command += [word for setting in hive for word in ("--hiveconf", setting)]
    with running(log, *command) as server:
        yield server, log


@contextmanager
def standalone(folder: Path) -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    """A master and two workers of one core each."""
    port, page = free_port(), free_port()
    start = str(spark_home() / "bin" / "spark-class")
    master = [start, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    worker = [start, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
    worker += ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
    master += ["--port", str(port), "--webui-port", str(page)]
    log = folder / "master.log"
    with running(log, *master) as server:
        wait_until(listens(port), server, log)
        url = f"spark://127.0.0.1:{port}"
        first = [*worker, "--work-dir", str(folder / "w1"), url]
        second = [*worker, "--work-dir", str(folder / "w2"), url]
        with (
            running(folder / "worker1.log", *first) as one,
            running(folder / "worker2.log", *second) as two,
        ):
            wait_until(alive_workers(page, 2), server, log)
            yield port, [one, two]
