"""Who hears of findings: `on_finding` of the project file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dqsql.errors import ConfigError, nearest

KINDS = ("slack", "teams", "webhook", "email")
SETTING = "on_finding"
_FILTERS = ("owners", "tags", "severity")
_SEVERITIES = ("warn", "error")
# What statuses are, whatever the severity of the check: one that cannot be computed says nothing.
_OF_STATUS = {"warn": "warn", "no_data": "warn", "error": "error"}


class RoutedFinding(Protocol):
    """What of a finding decides who hears of it."""

    @property
    def owner(self) -> str:
        """The owner of its check model."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of its check and its model."""

    @property
    def severity(self) -> str:
        """The severity of its check."""

    @property
    def status(self) -> str:
        """Its status: a check of severity error may only warn, too."""


@dataclass(frozen=True, slots=True)
class Route:
    """Who hears of which findings.

    `kind` is one of KINDS. `address` names the environment variable with the URL of a webhook; of
    e-mail it lists the receivers. An empty filter lets everything pass; a tag of several suffices.
    """

    kind: str
    address: tuple[str, ...]
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    severity: str | None = None

    @property
    def name(self) -> str:
        """The route for people, without secrets."""
        return f"{self.kind} {', '.join(self.address)}"

    def wants(self, notice: RoutedFinding) -> bool:
        """Whether the finding goes this way."""
        severity = _OF_STATUS.get(notice.status, notice.severity)
        return (
            (not self.owners or notice.owner in self.owners)
            and (not self.tags or bool(set(self.tags) & set(notice.tags)))
            and (self.severity is None or severity == self.severity)
        )


def read_routes(setting: Any) -> tuple[Route, ...]:
    """The routes of the project file's `on_finding`. Raises ConfigError.

    No message shows a value: it may be an address, which is a secret.
    """
    if setting is None:
        return ()
    if not isinstance(setting, Sequence) or isinstance(setting, str):
        raise ConfigError(
            f"{SETTING!r} must be a list of routes", hint=f"{SETTING}: [{{slack: SLACK_URL}}]"
        )
    return tuple(_route(entry, number) for number, entry in enumerate(setting, start=1))


def _route(entry: Any, number: int) -> Route:
    given = dict(entry) if isinstance(entry, Mapping) else {}
    where = f"route {number} of {SETTING!r}"
    for key in given:
        if key not in (*KINDS, *_FILTERS):
            known = ", ".join((*KINDS, *_FILTERS))
            hint = nearest(str(key), (*KINDS, *_FILTERS)) or f"a route has {known}"
            raise ConfigError(f"{where} has an unknown key {key!r}", hint=hint)
    kinds = [k for k in KINDS if k in given]
    if len(kinds) != 1:
        detail = f"but has {' and '.join(kinds)}" if kinds else "but has none of them"
        raise ConfigError(
            f"{where} must have one of {', '.join(KINDS)}, {detail}",
            hint="{slack: SLACK_URL, owners: [data team], severity: error}",
        )
    kind = kinds[0]
    address = _texts(given[kind])
    if kind != "email" and (len(address) != 1 or not address[0].isidentifier()):
        raise ConfigError(
            f"{where}: {kind} must name the environment variable that holds the address",
            hint=f"{kind}: SLACK_URL, and in the environment SLACK_URL=https://..",
        )
    if not address or (kind == "email" and not all("@" in a for a in address)):
        raise ConfigError(f"{where} names no address", hint="email: [ann@example.com]")
    severity = given.get("severity")
    if severity not in (None, *_SEVERITIES):
        raise ConfigError(
            f"{where}: severity is warn or error, not {severity!r}",
            hint=nearest(str(severity), _SEVERITIES) or "severity: error",
        )
    return Route(kind, address, _texts(given.get("owners")), _texts(given.get("tags")), severity)


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(str, value))
    return (str(value),)
