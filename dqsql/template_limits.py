"""A Jinja sandbox that a template can exhaust in neither time nor memory.

Jinja's own sandbox keeps templates from Python, not from `'a' * 10**10`. Here every loop and
macro call takes a step of a budget, and what makes texts longer is looked at before it does. The
limits are numbers of steps and characters, so that a template fails alike on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MAX_TEXT = 5_000_000  # characters
_MAX_STEPS = 1_000_000
MAX_DEPTH = 50
# Of what filters that look for tags and addresses are given: they look from each place to the end.
_MAX_SEARCHED = 100_000
_MAX_DIGITS = 1_000
_COUNTED, _JOINED = "dqsql counted", "dqsql joined"
_OPENS, _CLOSES = "([{", ")]}"
# A width or a precision of five digits and more.
_WIDE = re.compile(r"\d{5}")
# What Python makes of a byte that is no UTF-8, and of half a pair.
SURROGATE = re.compile("[\ud800-\udfff]")
_LONG = re.compile(r"[\d_]{4000}").search


class LimitError(jinja2.TemplateError):
    """A template that goes beyond a limit."""


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, with a budget for each rendering: see `begin`."""

    intercepted_binops = frozenset(["*", "**", "%", "+"])

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._steps = 0
        self._written = 0
        self.filters[_COUNTED] = self._counted
        self.filters[_JOINED] = self._joined
        for name in _BOUNDED:
            self.filters[name] = self._bounded(name, self.filters[name])
        # Random prose.
        del self.globals["lipsum"]

    def begin(self) -> None:
        """Begin a rendering with a full budget."""
        self._steps = self._written = 0

    def step(self, weight: int = 1) -> None:
        """Take steps. Raises LimitError when the budget is spent."""
        self._steps += weight
        if self._steps > _MAX_STEPS:
            raise LimitError(f"the template takes more than {_MAX_STEPS:,} steps")

    def collect(self, parts: Iterable[str]) -> str:
        """The text of a rendering. Raises LimitError when it is too long."""
        pieces: list[str] = []
        length = 0
        for part in parts:
            pieces.append(part)
            length += len(part)
            _refuse_longer(length)
        text = "".join(pieces)
        if half := SURROGATE.search(text):
            raise LimitError(f"{half[0]!r} is half of a character and cannot be written to a file")
        return text

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        self._refuse_deep(source, name, filename)
        try:
            tree = super()._parse(source, name, filename)
        except ValueError as error:
            # Python reads no integer of more digits.
            line = source[: match.start()].count("\n") + 1 if (match := _LONG(source)) else 1
            raise jinja2.TemplateSyntaxError(
                "a number has too many digits", line, name, filename
            ) from error
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = nodes.Filter(
                loop.iter, _COUNTED, [], [], None, None, lineno=loop.iter.lineno
            )
        for node in list(tree.find_all(nodes.Concat)):
            # `a ~ b`, as a list that a filter puts together.
            parts = nodes.List(node.nodes, lineno=node.lineno)
            joined = nodes.Filter(parts, _JOINED, [], [], None, None, lineno=node.lineno)
            node.nodes = [joined]
        tree.set_environment(self)
        return tree

    def _refuse_deep(self, source: str, name: str | None, filename: str | None) -> None:
        """Refuse blocks and parentheses that are nested deeper than Python's stack would hold."""
        deepest = max(source.count("{%") // 2, *map(source.count, _OPENS), source.count("not"))
        if deepest <= MAX_DEPTH:
            return
        blocks = brackets = run = 0
        in_tag = False
        for line, kind, text in self.lex(source, name, filename):
            if kind == "whitespace":
                continue
            if kind == "block_begin":
                in_tag = True
            elif kind == "name" and in_tag:
                in_tag = False
                blocks += -1 if text.startswith("end") else text in _BLOCKS
            elif kind == "operator":
                brackets += (text in _OPENS) - (text in _CLOSES)
            # `not not not`, `a - - - b`, `a.b.c`, `a if b else c if d else ..`
            same = kind == "operator" or (kind == "name" and text in ("not", "if", "else"))
            run = run + 1 if same and text not in ",:=|" else 0 if kind == "data" else run
            if kind in ("block_end", "variable_end"):
                brackets = run = 0
            if max(blocks, brackets, run // 4) > MAX_DEPTH:
                raise jinja2.TemplateSyntaxError(
                    f"nested deeper than {MAX_DEPTH} levels", line, name, filename
                )

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Multiply, add and format, unless the result were huge."""
        if operator == "*":
            for some, times in ((left, right), (right, left)):
                if isinstance(some, str | list | tuple) and isinstance(times, int):
                    _refuse_longer(len(some) * times)
        elif operator == "+" and isinstance(left, str | list | tuple):
            _refuse_longer(len(left) + (len(right) if isinstance(right, type(left)) else 0))
        elif operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise LimitError("a text is formatted to a width of more than four digits")
        if operator in ("*", "**"):
            _refuse_long_number(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function or a method of a value."""
        self.step()
        # The sandbox wraps `format`.
        owner = getattr(getattr(func, "__wrapped__", func), "__self__", None)
        if isinstance(owner, str):
            _refuse_growth(func.__name__, owner, args, kwargs)
        return super().call(context, func, *args, **kwargs)

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        takes_context = getattr(function, "jinja_pass_arg", None) is not None

        def bounded(*args: Any, **kwargs: Any) -> Any:
            values = args[1:] if takes_context else args
            value = values[0] if values else ""
            _refuse_growth(name, value, values[1:], kwargs)
            return function(*args, **kwargs)

        if takes_context:
            bounded.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
        return bounded

    def _counted(self, values: Any) -> Iterator[Any]:
        for value in values:
            self.step()
            yield value

    def _joined(self, parts: Sequence[Any]) -> str:
        text = "".join(map(str, parts))
        _refuse_longer(len(text))
        # What is thrown away counts, too: a loop can make a long text again and again.
        self._written += len(text)
        if self._written > 20 * _MAX_TEXT:
            raise LimitError(f"the template writes more than {20 * _MAX_TEXT:,} characters")
        return text


_SEARCHING = ("striptags", "urlize")
_BOUNDED = (
    *("center", "indent", "join", "replace", "format", "wordwrap", "batch", "slice"),
    *_SEARCHING,
)
_BLOCKS = frozenset({"if", "for", "macro", "call", "filter", "set", "raw", "with", "autoescape"})


def _refuse_longer(length: int) -> None:
    if length > _MAX_TEXT:
        raise LimitError(f"the template produces a text of more than {_MAX_TEXT:,} characters")


def _refuse_long_number(operator: str, left: Any, right: Any) -> None:
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    bits = left.bit_length() * abs(right)
    if operator == "*":
        bits = left.bit_length() + right.bit_length()
    if bits > _MAX_DIGITS * 3:
        raise LimitError(f"the template produces a number of more than {_MAX_DIGITS:,} digits")


def _refuse_growth(name: str, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse a call that makes a text far longer than those that it is given."""
    given = [*args, *kwargs.values()]
    for width in given:
        if isinstance(width, int):
            _refuse_longer(abs(width))
    texts = [text for text in given if isinstance(text, str)]
    if name in _SEARCHING and len(str(value)) > _MAX_SEARCHED:
        raise LimitError(f"{name} got a text of more than {_MAX_SEARCHED:,} characters")
    if name == "replace" and isinstance(value, str) and len(texts) > 1:
        _refuse_longer(len(value) + value.count(texts[0]) * len(texts[1]))
    elif name == "join" and isinstance(value, list | tuple | str):
        _refuse_longer(len(value) * max([1, *map(len, texts)]))
        if isinstance(value, list | tuple):
            _refuse_longer(sum(len(v) for v in value if isinstance(v, str)))
    elif name == "indent" and isinstance(value, str):
        widths = [w for w in given if isinstance(w, int)] + [len(t) for t in texts] + [4]
        _refuse_longer(len(value) + (value.count("\n") + 1) * max(widths))
    elif name == "expandtabs" and isinstance(value, str):
        widths = [w for w in given if isinstance(w, int)] or [8]
        _refuse_longer(len(value) + value.count("\t") * max(widths))
    elif name in ("format", "format_map") and isinstance(value, str):
        if _WIDE.search(value) or "{" in "".join(re.findall(r"\{[^{}]*:[^}]*\{", value)):
            raise LimitError("a text is formatted to a width that is not plain")
        longest = max([0, *map(len, texts)])
        _refuse_longer(len(value) + (value.count("{") + value.count("%")) * longest)
