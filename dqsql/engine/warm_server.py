"""The process behind a warm session: starts Spark's Connect server, and stops it in time.

It reads what to do as JSON from standard input, and is run by `dqsql.engine.warm`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pyspark

from dqsql.engine.warm import WarmPlace, WarmSession, answers, idle_seconds

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TICK = 0.5
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# Settings that spark-submit wants before the JVM starts.
_FLAGS = {
    "spark.master": "--master",
    "spark.driver.memory": "--driver-memory",
    "spark.driver.extraJavaOptions": "--driver-java-options",
}


def main() -> None:
    """Serve until told to stop, until nobody has used the server for long, or until it ends."""
    order = json.load(sys.stdin)
    place, idle = WarmPlace(Path(order["record"])), float(order["idle"])
    port, token = _free_port(), secrets.token_urlsafe(32)
    server = subprocess.Popen(
        _command(order["settings"], port),
        env={**os.environ, **_environment(), _TOKEN: token},
        stdin=subprocess.DEVNULL,
    )

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    try:
        place.open_lock().close()
        os.utime(place.lock)
        place.write(WarmSession(port, token, server.pid, idle, time.time()))
        starting = True
        while server.poll() is None and not _unused(place, idle):
            time.sleep(_TICK)
            if starting:
                # A start is no idle time, however long it takes.
                os.utime(place.lock)
                starting = not answers(port)
    finally:
        if (record := place.read()) is not None and record.pid == server.pid:
            place.record.unlink(missing_ok=True)
        _end(server)


def _unused(place: WarmPlace, idle: float) -> bool:
    """Whether nobody uses the session, and nobody has for the idle time.

    Without its record nobody can find it any more.
    """
    import fcntl

    if not place.record.exists():
        return True
    if idle_seconds(place) < idle:
        return False
    with place.open_lock() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if idle_seconds(place) < idle:
            return False
        # Whoever waits for the lock looks for the record afterwards.
        place.record.unlink(missing_ok=True)
        return True


def _command(settings: Mapping[str, str], port: int) -> list[str]:
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--class", _SERVER, "--name", "dqsql"]
    own = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    for key, value in {**settings, **own}.items():
        command += [_FLAGS[key], value] if key in _FLAGS else ["--conf", f"{key}={value}"]
    return [*command, "spark-internal"]


def _environment() -> dict[str, str]:
    return {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
