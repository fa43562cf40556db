"""Reads YAML files and remembers where each key and value stands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from dqsql.errors import ConfigError, LoadError, ProfileError, Span, nearest
from dqsql.model.settings import Reader, SettingProblem, read_value

KeyPath = tuple[str | int, ...]
# A thousand tables with a hundred columns each are fewer.
_MAX_VALUES = 300_000
_MAX_CHARACTERS = 10_000_000
_NO_TABS = "indent by spaces: YAML takes no tabs"
# Deeper nesting is refused, which Python's stack would not hold, and so are bombs of merged keys.
DEPTH = 50
_MERGED_KEYS = 10_000
_PLAIN_KEY = re.compile(r"[A-Za-z_.-]{1,40}")


class LimitedLoader(yaml.SafeLoader):
    """Refuses deep nesting, which Python's stack would not hold, and bombs of merged keys."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node and what is below it."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                event = self.peek_event()  # type: ignore[no-untyped-call]
                raise ComposerError(
                    problem=f"nested deeper than {DEPTH} levels", problem_mark=event.start_mark
                )
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged keys into a mapping."""
        super().flatten_mapping(node)
        if len(node.value) > _MERGED_KEYS:
            raise ConstructorError(
                problem=f"a mapping with more than {_MERGED_KEYS} merged keys",
                problem_mark=node.start_mark,
            )


def load_yaml(text: str) -> object:
    """The value of a short YAML text. Raises yaml.YAMLError; ValueError: a date or number."""
    return yaml.load(text, Loader=LimitedLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML mapping and the places of its parts.

    `error` is the kind of ConfigError that its problems are. `inherited` are the places of what
    another file says. `unrendered` are the values, null in `data`, whose templates do not work.
    """

    path: str
    data: dict[str, Any]
    marks: Mapping[KeyPath, tuple[int, int]] = field(default_factory=dict)
    error: type[ConfigError] = ConfigError
    inherited: Mapping[KeyPath, Span] = field(default_factory=dict)
    unrendered: Mapping[KeyPath, ConfigError] = field(default_factory=dict)

    def refuse_unrendered(self, *keys: str) -> None:
        """Raise what is wrong with a template in the part that begins with these keys."""
        for path, error in self.unrendered.items():
            if path[: len(keys)] == keys:
                raise error

    def span(self, *keys: str | int) -> Span:
        """The place of the key at the end of a path of keys, or of the nearest known parent."""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.inherited:
                return self.inherited[keys[:end]]
        path: KeyPath = keys
        if keys and keys not in self.marks and isinstance(keys[0], str):
            # The project file takes `model_paths` and `model-paths` for the same.
            path = (keys[0].replace("_", "-"), *keys[1:])
        while path and path not in self.marks:
            path = path[:-1]
        line, column = self.marks.get(path, (1, 1))
        text = str(keys[-1]) if keys and self.may_show(str(keys[-1])) else ""
        return Span(self.path, line, column, text)

    def problem(self, message: str, *keys: str | int, hint: str | None = None) -> ConfigError:
        """An error at the place of a key."""
        return self.error(message, span=self.span(*keys), hint=hint)

    def may_show(self, text: str) -> bool:
        """Whether messages may hold a key: of a profile only what is surely no secret."""
        return not self.is_secret or _PLAIN_KEY.fullmatch(text) is not None

    @property
    def is_secret(self) -> bool:
        """Whether its values must not be shown: it is a profile."""
        return issubclass(self.error, ProfileError)

    @property
    def top(self) -> Section:
        """All of it."""
        return Section(self, self.data)


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping inside a document, and the path of keys that leads to it."""

    document: Document
    values: Mapping[str, Any]
    keys: KeyPath = ()

    def read(self, key: str, reader: Reader) -> Any:
        """The value of a key as read by its reader, or None."""
        if self.values.get(key) is None:
            return None
        try:
            return read_value(key, self.values[key], reader)
        except SettingProblem as problem:
            message = problem.message
            if self.document.is_secret:
                message = message.partition(", not ")[0]
            raise self.problem(message, key, hint=problem.hint) from None

    def problem(self, message: str, *keys: str | int, hint: str | None = None) -> ConfigError:
        """An error at the place of a key below this section."""
        return self.document.problem(message, *self.keys, *keys, hint=hint)

    def check_keys(self, known: Collection[str], what: str) -> None:
        """Raise on the first unknown key."""
        for key in self.values:
            if key not in known:
                hint = nearest(key, known) or f"known: {', '.join(sorted(known))}"
                # In a profile, a colon forgotten makes a key of a token.
                may_show = self.document.may_show(key)
                shown = f"unknown key {key!r}" if may_show else "an unknown key"
                raise self.problem(f"{shown} in {what}", key, hint=hint)

    def inner(self, value: object, what: str, *keys: str | int) -> Section:
        """A value below this section as one: a mapping with text keys; nothing is an empty one."""
        if not isinstance(value, dict | None):
            raise self.problem(f"{what} must be a mapping", *keys)
        for key in value or ():
            if not isinstance(key, str):
                hint = "YAML reads on, off, yes and no as true and false: write them in quotes"
                message = f"{what} has the key {key!r}, which is no text"
                raise self.problem(message, *keys, hint=hint if isinstance(key, bool) else None)
        return Section(self.document, value or {}, (*self.keys, *keys))

    def section(self, key: str, what: str) -> Section:
        """The mapping below a key."""
        return self.inner(self.values.get(key), what, key)

    def listed(self, key: str) -> list[Any]:
        """The list below a key; nothing is an empty one."""
        value = self.values.get(key)
        if not isinstance(value, list | None):
            raise self.problem(f"{key!r} must be a list", key)
        return value or []

    def sections(self, key: str, what: str) -> list[Section]:
        """The mappings of the list below a key."""
        return [self.inner(item, what, key, i) for i, item in enumerate(self.listed(key))]


def files_below(root: Path, folders: Iterable[str], suffixes: tuple[str, ...]) -> list[Path]:
    """Files below the folders, ordered by path; hidden files and folders are left out.

    Raises LoadError: a folder cannot be read, and may have some.
    """
    paths = {
        file
        for folder in folders
        for file in _walked(root / folder, root)
        if file.suffix in suffixes
        # A link to nowhere is no file, and is to be an error rather than no check.
        and (file.is_file() or not file.exists())
    }
    return sorted(paths)


def _walked(folder: Path, root: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones and those below hidden folders."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            shown = relative_to(Path(error.filename), root)
            reason = f"cannot read the folder: {error.strerror}"
            raise LoadError(reason, span=Span(shown)) from error

    for place, inner, names in os.walk(folder, onerror=refuse):
        inner[:] = [name for name in inner if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))


def relative_to(file: Path, root: Path) -> str:
    """A file's path for people: relative to a folder that it lies in."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def read_text(file: Path, shown: str) -> str:
    """The text of a file. Raises LoadError when it cannot be read or is not UTF-8."""
    span = Span(shown)
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # One character for each byte: the column is counted in bytes.
        span = Span.at_offset(shown, error.object.decode("latin-1"), error.start)
        raise LoadError("the file is not UTF-8 text", span=span, hint="save it as UTF-8") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise LoadError(f"cannot read the file: {reason}", span=span) from error


def read_document(
    file: Path,
    shown: str,
    render: Callable[[str, str], str] | None = None,
    error: type[ConfigError] = ConfigError,
    *,
    later: bool = False,
) -> Document:
    """Parse a YAML file whose top level is a mapping.

    `render(text, path)` renders values that contain Jinja. Raises ConfigError, or `error`; with
    `later`, those of templates are raised by `Document.refuse_unrendered`.
    """
    text = read_text(file, shown)
    if len(text) > _MAX_CHARACTERS:
        message = f"the file is longer than {_MAX_CHARACTERS:,} characters"
        raise error(message, span=Span(shown), hint="spread it over several files")
    marks: dict[KeyPath, tuple[int, int]] = {}
    _refuse_forbidden_characters(text, shown, error)
    loader = LimitedLoader(text)
    unrendered: dict[KeyPath, ConfigError] | None = {} if later else None
    builder = _Builder(loader, marks, shown, render, error, unrendered)
    try:
        node = loader.get_single_node()
        data = {} if node is None else builder.build(node, ())
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        # YAML itself only says that a tab begins nothing.
        hint = _NO_TABS if "'\\t'" in (problem.problem or "") else None
        if issubclass(error, ProfileError):
            # What a profile holds is secret, and YAML's words quote it.
            span = Span(shown, line, column)
            raise error("this is not valid YAML", span=span, hint=hint) from None
        offending = _line(text, line)
        raise error(
            f"YAML: {problem.problem or problem.context}",
            span=Span(shown, line, column, offending),
            hint=hint,
        ) from problem
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise error("the file must hold a mapping", span=Span(shown), hint="write `key: value`")
    document = Document(shown, data, marks, error, unrendered=unrendered or {})
    document.top.inner(data, "the file")
    return document


def _refuse_forbidden_characters(text: str, shown: str, error: type[ConfigError]) -> None:
    """Refuse characters that YAML does not allow, with their place."""
    if match := yaml.reader.Reader.NON_PRINTABLE.search(text):
        span = Span.at_offset(shown, text, match.start())
        raise error(
            f"YAML allows no character {ord(match.group()):#06x}",
            span=span,
            hint='write it as an escape in double quotes, as "\\x07", or remove it',
        )


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass(slots=True)
class _Builder:
    loader: LimitedLoader
    marks: dict[KeyPath, tuple[int, int]]
    shown: str
    render: Callable[[str, str], str] | None
    error: type[ConfigError]
    unrendered: dict[KeyPath, ConfigError] | None = None
    open: set[int] = field(default_factory=set)
    built: int = 0

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self.built += 1
        if self.built > _MAX_VALUES:
            raise self.error(
                f"the file holds more than {_MAX_VALUES:,} values"
                " (what an alias stands for counts each time)",
                span=self._span(node),
            )
        self.marks.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if id(node) in self.open:
            raise self.error("an anchor that contains itself", span=self._span(node))
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[Any, Any]:
        merged = any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value)
        self.loader.flatten_mapping(node)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self._value(key_node)
            if not isinstance(key, str | int | float | bool):
                raise self.error("a key must be a word", span=self._span(key_node))
            if key in result and not merged:
                raise self.error(f"the key {key!r} appears twice", span=self._span(key_node))
            if key in result and self.unrendered:
                # It takes the place of a merged one.
                place = (*path, str(key))
                for one in [p for p in self.unrendered if p[: len(place)] == place]:
                    del self.unrendered[one]
            mark = key_node.start_mark
            self.marks[(*path, str(key))] = (mark.line + 1, mark.column + 1)
            result[key] = self.build(value_node, (*path, str(key)))
        return result

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        value = self._value(node)
        if self.render is None or not isinstance(value, str):
            return value
        if "{{" not in value and "{%" not in value:
            return value
        try:
            return self.render(value, self.shown)
        except LoadError as error:
            problem = self.error(error.message, span=self._span(node), hint=error.hint)
            if self.unrendered is None:
                raise problem from error
            self.unrendered[path] = problem
            return None

    def _value(self, node: yaml.Node) -> Any:
        try:
            return self.loader.construct_object(node, deep=True)
        except ValueError as problem:
            # A date such as 2024-99-99, a number of thousands of digits.
            secret = issubclass(self.error, ProfileError)
            message = "this value cannot be read" if secret else f"YAML: {problem}"
            raise self.error(message, span=self._span(node)) from None

    def _span(self, node: yaml.Node) -> Span:
        secret = issubclass(self.error, ProfileError)
        text = node.value if isinstance(node.value, str) and not secret else ""
        return Span(self.shown, node.start_mark.line + 1, node.start_mark.column + 1, text)
