"""The key with which a project hashes private values before they are stored."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from sqlglot import exp

from dqsql.dialect import literal, to_spark
from dqsql.errors import ConfigError
from dqsql.model.plan import PII_KEY

_VARIABLE = "DQSQL_PII_KEY"
_FOLDER, _FILE = ".dqsql", "pii.key"
_SHORTEST = 16
_PLAIN = re.compile(r"[\w.+/=:-]+")


def project_key(root: Path) -> str:
    """The key: `$DQSQL_PII_KEY`, else that in the project's `.dqsql/pii.key`.

    The file is made when it is first needed, for its owner only, and git is told to leave it out.
    Who runs the project on several machines sets the variable, since values hashed with different
    keys are different values.

    Raises ConfigError: the key is too short or has odd characters, or the file cannot be read or
    written.
    """
    given = os.environ.get(_VARIABLE)
    if given:
        return _checked(given, f"${_VARIABLE}")
    file = root / _FOLDER / _FILE
    try:
        if not file.exists():
            _write(file)
        return _checked(file.read_text(encoding="utf-8").strip(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise ConfigError(
            f"the key of private values in {file} cannot be read or made: {reason}",
            hint=f"or set {_VARIABLE} to {_SHORTEST} characters or more",
        ) from error


def with_key(expression: exp.Expr, key: Callable[[], str]) -> str:
    """The SQL of an expression for Spark, with the project's key where it hashes private values."""
    text, mark = to_spark(expression), to_spark(literal(PII_KEY))
    return text.replace(mark, f"'{key()}'") if mark in text else text


def _write(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (file.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another run was faster
    with open(handle, "w", encoding="utf-8") as opened:
        opened.write(secrets.token_hex(32) + "\n")


def _checked(key: str, where: str) -> str:
    if len(key) < _SHORTEST or not _PLAIN.fullmatch(key):
        raise ConfigError(
            f"the key of private values in {where} cannot be used",
            hint=f"take {_SHORTEST} characters or more: letters, digits and . + / = : - _",
        )
    return key
