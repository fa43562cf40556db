"""Settings: what their values may be, and one clear problem where one cannot be used.

A reader takes a value, as YAML, Jinja or SQL gives it, to what the rest of dqsql uses. Settings are
declared as mappings of names to readers: those of checks, models and projects in
`dqsql.loading.settings`, those of monitors by each kind of monitor.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from dqsql.errors import DqsqlError, Span, nearest
from dqsql.model.batches import has_place

Reader = Callable[[Any], Any]
"""Gives a setting's value as it is used; raises WrongValue."""

# Values in messages are cut behind so many characters; longer numbers are taken for mistakes.
_SHOWN = 200
_HUGE = 10**18
_WHOLE = re.compile(r"-?[0-9]{1,18}")
# What ends a link in a message is no part of it.
_WEB_ADDRESS = re.compile(r"https?://[^\s<>|()\"'`]+")


class WrongValue(Exception):
    """A value that a setting cannot have; the message says what it must be."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SettingProblem(Exception):
    """A setting that cannot be used; the caller knows the place and the kind of error.

    `key` is the setting to point at.
    """

    def __init__(self, message: str, key: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.hint = hint

    def at(self, error: type[DqsqlError], span: Span) -> DqsqlError:
        """The same problem as an error of dqsql at a place in the user's file."""
        return error(self.message, span=span, hint=self.hint)


def read_value(key: str, value: object, reader: Reader, owner: str = "") -> Any:
    """A setting's value. Raises SettingProblem, which names the `owner` of the setting, if any."""
    try:
        return reader(value)
    except WrongValue as wrong:
        name = f"{key!r} of {owner}" if owner else repr(key)
        raise SettingProblem(
            f"{name} must be {wrong}, not {shown_value(value)}", key, wrong.hint
        ) from None


def shown_value(value: object) -> str:
    """A value as messages show it."""
    try:
        shown = repr(value)
    except ValueError:  # a number of thousands of digits
        return "so long a number"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}.."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_web_address(value: Any) -> str:
    """The address of a page."""
    if not isinstance(value, str) or not _WEB_ADDRESS.fullmatch(value):
        raise WrongValue("an address such as https://example.com/report.html")
    return value


def as_given(value: Any) -> Any:
    """Anything: whoever uses it says what is wrong with it."""
    return value


def as_text(value: Any) -> str:
    """A string; a number is taken as its text."""
    if isinstance(value, str):
        return value
    if _is_number(value) and abs(value) < _HUGE:
        return str(value)
    raise WrongValue("text")


def as_bool(value: Any) -> bool:
    """True or false, also as rendered by Jinja."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise WrongValue("true or false")


def at_least(minimum: int) -> Reader:
    """A reader of whole numbers of at least `minimum`, also as rendered by Jinja."""

    def read(value: Any) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value < _HUGE:
            return value
        raise WrongValue(f"a whole number of at least {minimum}")

    return read


def number_within(
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> Reader:
    """A reader of finite numbers between two ends; one that is open is left out."""
    least = f"{'above' if open_low else 'at least'} {low:g}"
    most = f"{'below' if open_high else 'at most'} {high:g}"
    ends = ((least, low), (most, high))
    words = " and ".join(text for text, end in ends if math.isfinite(end))

    def read(value: Any) -> float:
        if not _is_number(value) or not math.isfinite(value):
            raise WrongValue("a number")
        below = value <= low if open_low else value < low
        if below or (value >= high if open_high else value > high):
            raise WrongValue(words)
        return float(value)

    return read


def as_rate(value: Any) -> float:
    """A number between 0 and 1, both excluded."""
    if _is_number(value) and 0 < value < 1:
        return float(value)
    raise WrongValue("a number between 0 and 1")


def as_names(value: Any) -> tuple[str, ...]:
    """A list of strings; a single string is a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise WrongValue("text or a list of texts")


def as_mapping(value: Any) -> dict[str, Any]:
    """A mapping with string keys."""
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return dict(value)
    raise WrongValue("a mapping")


def as_moment(value: Any) -> str:
    """A date, a timestamp or a number as text; YAML makes dates of some texts by itself."""
    text = str(value) if isinstance(value, dt.date) else as_text(value)
    if not has_place(text):
        raise WrongValue("a date (2013-02-08), a timestamp (2013-02-08T06:00) or a number")
    return text


def one_of(*words: str) -> Reader:
    """A reader of one of some words, or of one member of an enumeration: `one_of(*Severity)`."""
    known = {str(word): word for word in words}

    def read(value: Any) -> str:
        if isinstance(value, str) and value.lower() in known:
            return known[value.lower()]
        raise WrongValue(" or ".join(map(repr, known)), nearest(str(value), known))

    return read
