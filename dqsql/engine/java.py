"""Finds a Java runtime for the embedded Spark session, or says what to install."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dqsql.errors import JavaNotFoundError
from dqsql.version import SPARK

_PATIENCE = 30.0  # seconds
_INSTALL = {
    "Linux": "apt-get install openjdk-17-jre-headless (Debian, Ubuntu) or "
    "dnf install java-17-openjdk-headless (Fedora, RHEL)",
    "Darwin": "brew install openjdk@17",
    "Windows": "winget install EclipseAdoptium.Temurin.17.JRE",
}


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: the path of `java` and what `java -version` says."""

    path: str
    major: int
    description: str


def find_java() -> Java:
    """The Java runtime that Spark will use (JAVA_HOME, else PATH).

    Raises JavaNotFoundError where there is none or its version is not supported.
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not Path(path).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on PATH"
        raise JavaNotFoundError(f"no Java found ({where}); {_needs()}", hint=_how())
    text = _version(path)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        raise JavaNotFoundError(f"{path} does not answer to -version", hint=_how())
    major = int(match.group(1)) if match.group(1) != "1" else int(match.group(2) or 0)
    if major not in _supported():
        raise JavaNotFoundError(f"Java {major} at {path} is not supported; {_needs()}", hint=_how())
    return Java(path, major, text.strip().splitlines()[-1] if text.strip() else "")


def _supported() -> tuple[int, ...]:
    """The versions that the installed Spark runs with; 4.1 fails with Java 25 at once."""
    return (17, 21) if SPARK.startswith("4.1.") else (17, 21, 25)


def _needs() -> str:
    *others, last = _supported()
    return f"Spark needs Java {', '.join(map(str, others))} or {last}"


def _version(path: str) -> str:
    try:
        answer = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaNotFoundError(
            f"{path} -version has not answered for {_PATIENCE:.0f} seconds", hint=_how()
        ) from error
    except OSError as error:
        raise JavaNotFoundError(
            f"{path} cannot be started: {error.strerror or error}", hint=_how()
        ) from error
    return answer.stderr + answer.stdout


def _how() -> str:
    system = platform.system()
    return f"install Java 17: {_INSTALL.get(system, 'see adoptium.net')}; or set JAVA_HOME"
