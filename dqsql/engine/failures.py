"""Spark's exceptions in dqsql's words: one sentence, the place in the user's file, a hint."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions

from dqsql.errors import (
    ConnectionLostError,
    DqsqlError,
    EngineError,
    QueryError,
    SourceNotFoundError,
    Span,
    SqlSyntaxError,
    nearest,
)
from dqsql.model.project import CheckModel

# Py4J lets the refusal through where the JVM has died between two calls, PySpark's client some of
# gRPC's errors where the server has.
SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException, Py4JError, ConnectionRefusedError)
try:
    from grpc import RpcError  # type: ignore[import-untyped]
except ImportError:  # only who uses Spark Connect has it
    pass
else:
    SPARK_FAILURES = (*SPARK_FAILURES, RpcError)

_POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_SUGGESTION = re.compile(r"Did you mean one of the following\? \[(.*?)\]")
_MISSING = re.compile(r"((?:`[^`]+`\.?)+) cannot be found")
# Several statements of one query failed, mostly for the same reason: the first is told.
_MANY = "STAGE_MATERIALIZATION_MULTIPLE_FAILURES"
_FIRST_OF_MANY = re.compile(rf"\[{_MANY}\].*?\s1\. [\w.$]+: (?=\[([A-Z_.0-9]+)\])", re.DOTALL)
_NOT_UTF8 = "a text from Spark is not valid UTF-8"
_VALID_UTF8 = "write make_valid_utf8(the_column) in the SELECT, or decode(its_bytes, 'ISO-8859-1')"
# Spark quotes values that it cannot cast, parse or look up; before it reads rows, it knows none.
_HIDDEN = "(Spark's message may quote values of private columns and is not shown)"
_hiding: ContextVar[bool] = ContextVar("hiding", default=False)
_ROUTINE = re.compile(r"Cannot resolve routine `(\w+)`")
_NO_FILE = re.compile(r"FILE_NOT_EXIST\] [^\n]*? file (?:file:/*(?=/))?(/[^\n]+?)\. File does not")
_NO_PATH = "PATH_NOT_FOUND"
_NOT_FOUND = ("TABLE_OR_VIEW_NOT_FOUND", _NO_PATH, "SCHEMA_NOT_FOUND")


@dataclass(frozen=True)
class Known:
    """A failure that is recognised by a pattern.

    After one that is `final` Spark does nothing more. `details` follow the message where the
    pattern's groups have found what they name.
    """

    pattern: re.Pattern[str]
    message: str
    hint: str
    final: bool = False
    details: str = ""

    def told(self, text: str) -> str:
        """The message on one of Spark's texts."""
        match = self.pattern.search(text)
        groups = {} if match is None else match.groupdict()
        if not self.details or None in groups.values():
            return self.message
        return f"{self.message}: {self.details.format_map(groups)}"


_KNOWN = (
    Known(
        re.compile(r"XSDB6|Another instance of Derby"),
        "another process has the Derby metastore open (Derby serves one at a time)",
        "wait until it ends (it may be dbt or a notebook), or run both against one Spark server",
    ),
    Known(
        re.compile(r"UNAUTHENTICATED|Invalid authentication token|Unauthenticated"),
        "the Spark server refuses the credentials",
        "check `token` (or the url) in profiles.yml",
    ),
    Known(
        re.compile(r"StatusCode\.PERMISSION_DENIED"),
        "the Spark server denies access",
        "check the rights of the user or token in profiles.yml",
    ),
    Known(
        re.compile(r"[Ss]sl handshake failed|WRONG_VERSION_NUMBER"),
        "the Spark server does not speak TLS, which PySpark's client uses for a token",
        "call a local server `localhost` in the url, which needs no TLS, or give the"
        " server a certificate",
    ),
    Known(
        re.compile(
            r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|failed to connect to all addresses"
            r"|SparkContext (?:was|has been) shut ?down|stopped SparkContext"
            r"|Answer from Java side is empty|obtaining a new communication channel"
            r"|\[Errno \d+\] Connection refused"
        ),
        "the connection to Spark is lost",
        "see whether the server is up; batches not finished are checked in the next run",
        final=True,
    ),
    Known(
        re.compile(r"ModuleNotFoundError: No module named '(dqsql|numpy|scipy|pandas|pyarrow)"),
        "Spark's Python workers lack dqsql or a library that it needs",
        "install it where they run (PYSPARK_PYTHON names the Python), or set `sample_size` above"
        " the rows of a batch",
    ),
    Known(
        re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST"),
        "a file was replaced or removed while it was read",
        "something else writes there: run again when it is done; or the session has an old list of"
        " the files, which `refresh table ..` renews",
    ),
    Known(
        # The last, where a file says in Spark's words which types it has.
        re.compile(
            r"Illegal Parquet type: \w+ \(TIMESTAMP\(NANOS"
            r"|Expected Spark type timestamp\w*, actual Parquet type INT64"
        ),
        "it has times in nanoseconds, which Spark does not read from Parquet",
        "write microseconds; with pandas: df.to_parquet(.., coerce_timestamps='us',"
        " allow_truncated_timestamps=True)",
    ),
    Known(
        re.compile(
            r"PARQUET_COLUMN_DATA_TYPE_MISMATCH"
            r"(?:\] [^\n]*? file (?:file:/*(?=/))?(?P<file>[^\n]+?)\. Data type"
            r"[^\n]*? column \[(?P<column>[^\]\n]+)\]\."
            r" Expected Spark type (?P<type>[^\n]+?), actual Parquet type (?P<other>\w+))?"
        ),
        "Parquet files of one source have a column in different types",
        "write them with one type; pandas gives a column without values the type null: use"
        " df.astype({'the_column': 'string'})",
        details="{column} is {type}, and {other} in {file}",
    ),
    Known(
        re.compile(r"Failed to find the data source: delta|DATA_SOURCE_NOT_FOUND.*\bdelta\b"),
        "Spark has no library for Delta tables",
        "name it in profiles.yml, as docs/storage.md says: spark_conf: {spark.jars.packages: ..}",
    ),
    Known(
        re.compile(r"ExecutorLostFailure \((executor [^)]*?)\)|Slave lost|Worker lost"),
        "Spark lost executors again and again",
        "see the executors' logs; more memory may help (spark.executor.memory)",
    ),
)


def known_failure(text: str) -> Known | None:
    """What is behind the text of one of Spark's exceptions, where that is known."""
    return next((known for known in _KNOWN if known.pattern.search(text)), None)


def condition_of(error: Exception) -> str:
    """Spark's error condition (`UNRESOLVED_COLUMN.WITH_SUGGESTION`), or an empty string."""
    condition = error.getCondition() if isinstance(error, PySparkException) else ""
    if not condition and (named := _CONDITION.search(str(error))):
        # What py4j hands on has it in its text alone.
        return named[1]
    if condition == _MANY and (first := _FIRST_OF_MANY.search(str(error))):
        return first.group(1)
    return str(condition or "")


_CONDITION = re.compile(
    r"^(?:: |Caused by: )?(?:[\w$]+\.)+[\w$]+(?:Exception|Error): "
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ",
    re.MULTILINE,
)
_CALLING = "An error occurred while calling"
_CAUSE = re.compile(
    r"^(?:: |Caused by: )(?:[\w$]+\.)*([\w$]+(?:Exception|Error): .+)$", re.MULTILINE
)


def first_sentence(error: Exception) -> str:
    """The message without stack trace, query plan and SQLSTATE."""
    text = _FIRST_OF_MANY.sub("", str(error), count=1)
    match = re.search(r"\[[A-Z_.0-9]+\] (.*?)(?: SQLSTATE: \w+|\n\n|$)", text, re.DOTALL)
    message = match.group(1) if match else text.strip().splitlines()[0] if text.strip() else ""
    if match is None and message.startswith(_CALLING):
        # What py4j says first is no reason.
        causes = _CAUSE.findall(text)
        message = causes[-1] if causes else message
    message = re.sub(r"\s+", " ", message).strip()
    return message or type(error).__name__


@contextmanager
def hiding_values(private: Collection[str]) -> Iterator[None]:
    """Let no error inside the block quote values of rows if there are `private` columns."""
    token = _hiding.set(bool(private))
    try:
        yield
    finally:
        _hiding.reset(token)


def translate(error: Exception, doing: str, span: Span | None = None) -> EngineError:
    """The EngineError for one of Spark's exceptions met while `doing` something."""
    condition = condition_of(error)
    if (path := _unreadable(str(error))) is not None:
        hint = "give the user that Spark runs as the right to read it"
        return QueryError(
            f"{doing}: {path} cannot be read: permission denied", span=span, hint=hint
        )
    known = known_failure(str(error))
    if known is not None:
        kind = ConnectionLostError if known.final else QueryError
        return kind(f"{doing}: {known.told(str(error))}", span=span, hint=known.hint)
    if _hiding.get() and not isinstance(error, AnalysisException):
        # What only the text says may be of values.
        own = condition if isinstance(error, PySparkException) else ""
        hidden_message = f"{doing}: {own or type(error).__name__} {_HIDDEN}"
        return QueryError(hidden_message, span=span)
    message = f"{doing}: {first_sentence(error)}"
    if condition.startswith(_NOT_FOUND):
        # What follows is advice on how to drop tables.
        message = message.partition(" Verify the spelling")[0]
        hint = "check the sources file and the target"
        if condition.startswith(_NO_PATH):
            hint += (
                "; a relative path in a SELECT starts at the folder where Spark was started,"
                " one in a sources file at the project"
            )
        return SourceNotFoundError(message, span=span, hint=hint)
    return QueryError(message, span=span, hint=_hint(str(error), condition))


def _unreadable(text: str) -> str | None:
    """The file of this machine that Spark says not to be there, and may not read."""
    match = _NO_FILE.search(text)
    path = "" if match is None else unquote(match[1])
    return path if os.path.exists(path) and not os.access(path, os.R_OK) else None


def _hint(text: str, condition: str) -> str | None:
    suggestion = _SUGGESTION.search(text)
    if suggestion:
        return f"did you mean {suggestion.group(1)}?"
    routine = _ROUTINE.search(text)
    if routine is not None and (near := nearest(routine[1], dir(functions))):
        return near
    return f"Spark's condition is {condition}" if condition else None


def translate_model_error(error: Exception, model: CheckModel) -> DqsqlError:
    """The error for a check model's own SELECT, with the place in the file as the user wrote it."""
    if model.relation is not None:
        return _relation_error(error, model, model.relation)
    span = _model_span(str(error), model)
    if condition_of(error).startswith("PARSE"):
        return SqlSyntaxError(f"SQL syntax error: {first_sentence(error)}", span=span)
    return translate(error, f"the SELECT of check model {model.name} does not work", span)


def _relation_error(error: Exception, model: CheckModel, relation: str) -> EngineError:
    """The error for a relation that dbt should have built."""
    span = Span(model.path)
    if condition_of(error).startswith(_NOT_FOUND):
        match = _MISSING.search(str(error))
        missing = "" if match is None else match[1].replace("`", "")
        if missing and not f".{missing}".endswith(f".{relation.replace('`', '')}"):
            return SourceNotFoundError(
                f"the relation {relation} of {model.name} reads {missing}, which does not exist",
                span=_place_of_relation(missing, model),
            )
        is_source = model.dbt.get("resource_type") == "source"
        return SourceNotFoundError(
            f"the relation {relation} of {model.name} does not exist",
            span=span,
            hint="dbt does not build sources: load it, or correct its schema and identifier"
            if is_source
            else "run `dbt build` first, against the same target and warehouse",
        )
    return translate(error, f"cannot read the relation {relation} of {model.name}", span)


def _place_of_relation(name: str, model: CheckModel) -> Span:
    """Where `source(..)` or `ref(..)` names a relation in a dbt model; else the model's file."""
    last = re.escape(name.rpartition(".")[2])
    call = re.compile(rf"\b(?:source|ref)\s*\([^()]*?(['\"]){last}\1\s*\)", re.IGNORECASE)
    match = call.search(model.raw_sql)
    if match is None:
        return Span(model.path)
    return replace(Span.at_offset(model.path, model.raw_sql, match.start()), text=match.group())


def _model_span(text: str, model: CheckModel) -> Span:
    match = _POSITION.search(text)
    if match is None:
        return Span(model.path)
    line, column = int(match.group(1)), int(match.group(2)) + 1
    original = model.line_map[line - 1] if 0 < line <= len(model.line_map) else line
    rendered = model.sql.splitlines()
    raw = model.raw_sql.splitlines()
    same = (
        0 < line <= len(rendered)
        and 0 < original <= len(raw)
        and rendered[line - 1] == raw[original - 1]
    )
    return Span(model.path, original, column if same else 1)


@contextmanager
def reporting_loss(doing: str) -> Iterator[None]:
    """Turn what Spark raises inside the block where it is gone into ConnectionLostErrors."""
    try:
        yield
    except SPARK_FAILURES as error:
        known = known_failure(str(error))
        if known is None or not known.final:
            raise
        raise translate(error, doing) from error


@contextmanager
def translated(doing: str, span: Span | None = None) -> Iterator[None]:
    """Turn Spark's exceptions inside the block into EngineErrors.

    So are texts that Python cannot read: Spark lets a string hold any bytes; and files that go away
    while they are looked at.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise QueryError(f"{doing}: {_NOT_UTF8}", span=span, hint=_VALID_UTF8) from error
    except FileNotFoundError as error:
        raise EngineError(
            f"{doing}: {error.filename} was there and is gone",
            span=span,
            hint="another program writes there: run again when it has ended",
        ) from error
    except SPARK_FAILURES as error:
        raise translate(error, doing, span) from error
