"""The tree of errors that dqsql raises on purpose.

Every error carries a message, the place in the user's file where it was found (`Span`), and a hint.
Whatever is not in this tree is a defect of dqsql and surfaces as a traceback.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dqsql.redaction import redact


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a user's file, as the user wrote it (before Jinja).

    `line` and `column` count from 1. `text` is the offending text, possibly empty.
    """

    file: str
    line: int = 1
    column: int = 1
    text: str = ""

    @classmethod
    def at_offset(cls, file: str, text: str, offset: int, shown: str = "") -> Span:
        """The place of an offset in the text of a file."""
        line = text.count("\n", 0, offset) + 1
        return cls(file, line, offset - text.rfind("\n", 0, offset), shown)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class DqsqlError(Exception):
    """Base of all errors that dqsql raises on purpose.

    Attributes:
        message: what is wrong, one sentence.
        span: where, or None when no single place is to blame.
        hint: what the user can do about it, or None.
    """

    kind = "error"

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        message = redact(message)
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = None if hint is None else redact(hint)

    def __str__(self) -> str:
        where = f"{self.span}: " if self.span else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class ErrorGroup(DqsqlError):
    """Several independent errors found in one pass, for example one per bad annotation."""

    def __init__(self, errors: Sequence[DqsqlError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)


class UsageError(DqsqlError):
    """A command-line option or an API argument that cannot be used."""

    kind = "usage error"


class SelectionError(UsageError):
    """`--select` or `--exclude` cannot be understood."""


class ConfigError(DqsqlError):
    """`dqsql_project.yml`, `profiles.yml`, sources, or a `config(..)` block is wrong."""

    kind = "configuration error"


class NoBatchError(ConfigError):
    """No row of a model belongs to a batch: `batch_by` is null in all of them."""


class ProfileError(ConfigError):
    """The connection profile is missing or wrong."""


class LoadError(DqsqlError):
    """A file of the project cannot be read or understood."""

    kind = "project error"


class JinjaError(LoadError):
    """Rendering a file with Jinja failed."""


class SqlSyntaxError(LoadError):
    """SQL text that does not parse."""


class AnnotationError(LoadError):
    """An annotation that cannot be parsed, bound to a column, or understood.

    `annotation` is its text where the place is that of a part of it.
    """

    annotation = ""


class CompileError(DqsqlError):
    """A check that cannot be turned into SQL."""

    kind = "compile error"


class UnknownNameError(CompileError):
    """A name that is no check, metric, monitor, SQL function or column."""


class MacroError(CompileError):
    """A macro that fails, does not take the given arguments, or calls itself in a circle."""


class UnsupportedExpressionError(CompileError):
    """An expression that dqsql cannot rewrite without risk of changing its meaning."""


class EngineError(DqsqlError):
    """Spark could not do what was asked."""

    kind = "engine error"


class JavaNotFoundError(EngineError):
    """No usable Java runtime for the embedded Spark session."""


class SessionError(EngineError):
    """The Spark session could not be started or reached."""


class ConnectionLostError(SessionError):
    """Spark ended, or cannot be reached any more: nothing further can be computed."""


class SourceNotFoundError(EngineError):
    """A table or a file that a check model reads does not exist."""


class QueryError(EngineError):
    """A query that Spark refused or that failed while running."""


class IncomparableError(QueryError):
    """Keys that Spark would compare only by a cast that is not one to one."""


class StorageError(EngineError):
    """The warehouse tables cannot be read or written."""


class DecisionError(DqsqlError):
    """A detector was called with input that it cannot decide on."""

    kind = "decision error"


class PatternError(DqsqlError):
    """A data pattern, or a pattern index, that cannot be used."""

    kind = "pattern error"


def unique_errors(errors: Iterable[DqsqlError]) -> list[DqsqlError]:
    """The errors and those in groups, each once: a fault of a macro is met by many models."""
    flat = (e for error in errors for e in _members(error))
    return list({(str(error.span), error.message): error for error in flat}.values())


def _members(error: DqsqlError) -> Iterator[DqsqlError]:
    if not isinstance(error, ErrorGroup):
        yield error
        return
    for member in error.errors:
        yield from _members(member)


def error_of(errors: Iterable[DqsqlError]) -> DqsqlError:
    """One or more errors as one."""
    unique = unique_errors(errors)
    return unique[0] if len(unique) == 1 else ErrorGroup(unique)


def _look(name: str) -> str:
    """What a person sees: letters with marks are the same in one character or in several."""
    return unicodedata.normalize("NFC", name)


_LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str], *, label: str = "did you mean") -> str | None:
    """Return a hint that names up to three known names close to `name`, or None.

    Of a name that only looks the same (`ö` as one character, or as o and a mark) it says so.
    """
    return _nearest(name, tuple(sorted(set(known))), label)


@lru_cache(maxsize=256)
def _nearest(name: str, candidates: tuple[str, ...], label: str) -> str | None:
    if len(name) > _LONGEST_NAME:
        return None
    for candidate in candidates:
        if candidate != name and _look(candidate) == _look(name):
            return f"{candidate!a} looks the same; this is {name!a}: copy that name"
    close = difflib.get_close_matches(
        name.lower(), [c.lower() for c in candidates], n=3, cutoff=0.6
    )
    by_lower = {c.lower(): c for c in candidates}
    names = [by_lower[c] for c in close]
    return f"{label} {' or '.join(repr(n) for n in names)}?" if names else None


class CheckFailedError(DqsqlError):
    """A run did not pass, and that was to end something.

    Raised by `RunResult.raise_for_status`, with the run's `findings`, and by streams that stop at
    failures.
    """

    kind = "checks failed"
    findings: tuple[Any, ...] = ()


class NotificationError(DqsqlError):
    """A message about findings could not be handed over."""

    kind = "notification error"
