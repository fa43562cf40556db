"""Messages about findings: to Slack, Teams and other webhooks, and by e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from dqsql.errors import ConfigError, NotificationError
from dqsql.model.routes import Route
from dqsql.model.wording import plural
from dqsql.report.text import printable, shorten

# Where mail is handed over: smtp://user:password@host:587, smtps://.., and who writes it.
SMTP_URL, SMTP_FROM = "DQSQL_SMTP_URL", "DQSQL_SMTP_FROM"
_TIMEOUT = 20
# Findings that one message tells in full.
_MAX_TOLD = 20
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Notice:
    """A finding that somebody should hear of: `event` is `opened` or `resolved`."""

    event: str
    finding_id: str
    check_id: str
    model: str
    label: str
    status: str
    severity: str
    message: str
    first_batch: str
    last_batch: str
    batches: int
    owner: str
    tags: tuple[str, ...]
    assigned_to: str = ""
    impact: str = ""

    @property
    def line(self) -> str:
        """The finding in one line."""
        where = printable(self.last_batch)
        if self.batches > 1:
            where = printable(f"{self.batches} batches, {self.first_batch} to {self.last_batch}")
        word = "RESOLVED" if self.event == "resolved" else self.status.upper().replace("_", " ")
        message = shorten(printable(self.message), _MAX_TEXT)
        about = "" if self.event == "resolved" or not message else f": {message}"
        return f"{word} {printable(self.model)}: {printable(self.label)} ({where}){about}"


def title_of(project: str, notices: Sequence[Notice]) -> str:
    """The first line of a message: how many findings were opened and resolved."""
    opened = sum(n.event == "opened" for n in notices)
    resolved = len(notices) - opened
    parts = [plural(opened, "new finding")] if opened else []
    parts += [f"{resolved} resolved"] if resolved else []
    return printable(f"Data quality of {project}: {', '.join(parts)}")


def body_of(notices: Sequence[Notice]) -> str:
    """The lines of a message: what was opened, and how to look at it; then what was resolved."""
    lines = []
    for notice in notices[:_MAX_TOLD]:
        lines.append(notice.line)
        if notice.event == "opened":
            if notice.impact:
                lines.append(f"    {shorten(printable(notice.impact), _MAX_TEXT)}")
            lines.append(f"    dqsql explain {printable(notice.check_id)}@{notice.last_batch}")
    if len(notices) > _MAX_TOLD:
        lines.append(f"and {len(notices) - _MAX_TOLD} more: dqsql report")
    return "\n".join(lines)


def payload(kind: str, project: str, notices: Sequence[Notice]) -> dict[str, Any]:
    """The JSON that a webhook is sent."""
    title, text = title_of(project, notices), body_of(notices)
    if kind == "slack":
        # Three characters are Slack's markup; https://docs.slack.dev/messaging/formatting-message-text
        for sign, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            title, text = title.replace(sign, code), text.replace(sign, code)
        return {"text": f"*{title}*\n```{text.replace('```', '` ` `')}```"}
    if kind == "teams":
        # An adaptive card, which the workflows that replaced connectors take.
        blocks = [{"type": "TextBlock", "text": title, "weight": "bolder", "wrap": True}]
        blocks += [
            {"type": "TextBlock", "text": line, "fontType": "monospace", "wrap": True}
            for line in text.splitlines()
        ]
        card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
        kind_of_content = "application/vnd.microsoft.card.adaptive"
        return {
            "type": "message",
            "attachments": [{"contentType": kind_of_content, "content": card}],
        }
    names = Notice.__dataclass_fields__
    findings = [{name: getattr(n, name) for name in names} for n in notices]
    return {"project": project, "title": title, "findings": findings}


def unset_variables(route: Route, environment: Mapping[str, str]) -> list[str]:
    """The environment variables that a route needs and that are not set."""
    needed = [SMTP_URL] if route.kind == "email" else [route.address[0]]
    return [name for name in needed if not environment.get(name)]


def send(
    route: Route, project: str, notices: Sequence[Notice], environment: Mapping[str, str]
) -> None:
    """Hand one message about all the notices over. Raises NotificationError, ConfigError."""
    try:
        if route.kind == "email":
            _mail(route, project, notices, environment)
        else:
            _post(route, payload(route.kind, project, notices), environment)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        # Not the error's text alone: it may hold the address, which is a secret.
        reason = getattr(error, "code", None) or type(error).__name__
        raise NotificationError(f"{route.name} did not take the message ({reason})") from error


def _post(route: Route, content: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    url = _from_environment(route.address[0], environment)
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{route.address[0]} holds no http address")
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT):
            pass
    except urllib.error.HTTPError as error:
        # It is an open answer, too.
        error.close()
        raise


def _mail(
    route: Route, project: str, notices: Sequence[Notice], environment: Mapping[str, str]
) -> None:
    server = urllib.parse.urlsplit(_from_environment(SMTP_URL, environment))
    if server.scheme not in ("smtp", "smtps") or not server.hostname:
        raise ConfigError(f"{SMTP_URL} is no smtp:// or smtps:// address")
    mail = EmailMessage()
    mail["Subject"] = title_of(project, notices)
    mail["From"] = environment.get(SMTP_FROM) or f"dqsql@{server.hostname}"
    mail["To"] = ", ".join(route.address)
    mail.set_content(body_of(notices))
    secure = server.scheme == "smtps"
    client = smtplib.SMTP_SSL if secure else smtplib.SMTP
    port = server.port or (465 if secure else 587)
    with client(server.hostname, port, timeout=_TIMEOUT) as smtp:
        smtp.ehlo()
        if not secure and smtp.has_extn("starttls"):
            smtp.starttls(context=ssl.create_default_context())
        elif not secure and server.username:
            raise ConfigError(f"the server of {SMTP_URL} offers no encryption for the password")
        if server.username:
            password = urllib.parse.unquote(server.password or "")
            smtp.login(urllib.parse.unquote(server.username), password)
        smtp.send_message(mail)


def _from_environment(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name)
    if not value:
        raise ConfigError(f"the environment variable {name} is not set", hint=f"export {name}=..")
    return value
