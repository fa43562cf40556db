"""Messages about findings: to Slack, Teams and other webhooks, and by e-mail."""

from __future__ import annotations

import json
import os
import re
import shlex
import smtplib
import socket
import ssl
import urllib.error
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from http.client import HTTPException
from itertools import zip_longest
from typing import Any

from dqsql.errors import ConfigError, NotificationError
from dqsql.model.by_key import by_key
from dqsql.model.routes import Route
from dqsql.model.wording import first_of, plural
from dqsql.report.findings import SHORT_NAME, check_label
from dqsql.report.posting import post
from dqsql.report.text import printable, shorten

REPORT_URL = "report_url"
# Where mail is handed over: smtp://user:password@host:587, smtps://.., and who writes it.
SMTP_URL, SMTP_FROM = "DQSQL_SMTP_URL", "DQSQL_SMTP_FROM"
_TIMEOUT = 20
# Findings that one message tells in full.
_MAX_TOLD = 20
# Models of the others that it names.
_MODELS = 10
_MAX_TEXT = 300
# Bytes of a card; Teams takes about 28,000.
_MAX_CARD = 24_000
# Within words, as in not_null, an underscore is one.
_MARKDOWN = re.compile(r"[\\`*~\[\]]|(?<!\w)_|_(?!\w)")


@dataclass(frozen=True, slots=True)
class Notice:
    """A finding that somebody should hear of: `event` is `opened` or `resolved`.

    What is opened may be resolved by now: `state` is that of the finding.
    `place` is where its check was written, `file:line`; `url` its page in the report, if the
    project says where that is. `why` says why it is resolved where no batch has passed, `cause`
    which other finding of the batch explains it, and `upstream` which models that the model reads
    have findings in the same batch and message.
    """

    event: str
    state: str
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
    place: str = ""
    url: str = ""
    why: str = ""
    cause: str = ""
    upstream: str = ""

    @property
    def about(self) -> str:
        """Who looks after the finding, and where its check was written, as far as it is known."""
        parts = (
            self.owner and f"owner {self.owner}",
            self.assigned_to and f"assigned to {self.assigned_to}",
            self.place,
        )
        return printable(", ".join(p for p in parts if p))

    @property
    def is_shown_in_full(self) -> bool:
        """Whether more than its line is told: what is over, or follows from another, needs none."""
        return self.event == "opened" and not self.cause

    @property
    def command(self) -> str:
        """What shows the newest verdict."""
        check, batch = shlex.quote(self.check_id), shlex.quote(self.last_batch)
        return printable(f"dqsql explain {check} --batch {batch}")

    @property
    def line(self) -> str:
        """The finding in one line."""
        where = printable(self.last_batch)
        if self.batches > 1:
            where = printable(f"{self.batches} batches, {self.first_batch} to {self.last_batch}")
        if self.cause:
            where += printable(f", follows from {self.cause}")
        elif self.upstream:
            where += printable(f", may follow from {self.upstream}")
        word = "RESOLVED" if self.event == "resolved" else self.status.upper().replace("_", " ")
        message = shorten(printable(self.message), _MAX_TEXT)
        detail = printable(self.why) if self.event == "resolved" else message
        about = f": {detail}" if detail else ""
        return f"{word} {printable(self.model)}: {printable(self.label)} ({where}){about}"


def title_of(project: str, notices: Sequence[Notice]) -> str:
    """The first line of a message: how many findings were opened and resolved."""
    opened = [n for n in notices if n.event == "opened"]
    resolved = len(notices) - len(opened)
    roots = [n for n in opened if not n.cause] or opened
    parts = [plural(len(roots), "new finding")] if opened else []
    if following := len(opened) - len(roots):
        parts[0] += f" and {following} that follow{'s' if following == 1 else ''}"
    parts += [f"{resolved} resolved"] if resolved else []
    return printable(f"Data quality of {project}: {', '.join(parts)}")


def finding_url(report_url: str | None, finding_id: str) -> str:
    """The page of a finding in the report at an address; empty without one."""
    if not report_url:
        return ""
    return f"{report_url.partition('#')[0]}#/finding/{urllib.parse.quote(finding_id, safe='')}"


def body_of(notices: Sequence[Notice]) -> str:
    """The lines of a message: what was opened, and how to look at it; then what was resolved."""
    lines, told = [], _told(notices)
    for notice in told:
        lines.append(notice.line)
        if notice.is_shown_in_full:
            impact = shorten(printable(notice.impact), _MAX_TEXT)
            details = (impact, notice.about, notice.url, notice.command)
            lines += [f"    {line}" for line in details if line]
    return "\n".join([*lines, *_rest(notices, told)])


def _told(notices: Sequence[Notice]) -> list[Notice]:
    """The notices that a message has room for, in their order: of each model the first ones.

    What is resolved has the room that is left.
    """
    places: list[int] = []
    for event in ("opened", "resolved"):
        by_model = by_key((n.model, place) for place, n in enumerate(notices) if n.event == event)
        turns = zip_longest(*by_model.values())
        places += (place for turn in turns for place in turn if place is not None)
    return [notices[place] for place in sorted(places[:_MAX_TOLD])]


def _rest(notices: Sequence[Notice], told: Sequence[Notice]) -> list[str]:
    """How many there are beside those that are told, and of which models."""
    ids = set(map(id, told))
    models = dict.fromkeys(printable(n.model) for n in notices if id(n) not in ids)
    more = len(notices) - len(told)
    return [f"and {more} more, of {first_of([*models], _MODELS)}: dqsql report"] if more else []


def payload(kind: str, project: str, notices: Sequence[Notice]) -> dict[str, Any]:
    """The JSON that a webhook is sent."""
    title = title_of(project, notices)
    if kind == "slack":
        told = _told(notices)
        rest = map(_slack, _rest(notices, told))
        parts = [f"*{_slack(title)}*", *map(_slack_finding, told), *rest]
        return {"text": "\n".join(parts)}
    if kind == "teams":
        # An adaptive card, which the workflows that replaced connectors take.
        card = {"type": "AdaptiveCard", "version": "1.4", "body": _teams_blocks(title, notices)}
        kind_of_content = "application/vnd.microsoft.card.adaptive"
        return {
            "type": "message",
            "attachments": [{"contentType": kind_of_content, "content": card}],
        }
    # What reads it may show it on a terminal; keys are as they are.
    findings = [asdict(n) | {"message": printable(n.message)} for n in notices]
    return {"project": project, "title": title, "findings": findings}


def unset_variables(route: Route, environment: Mapping[str, str]) -> list[str]:
    """The environment variables that a route needs and that are not set."""
    needed = [SMTP_URL] if route.kind == "email" else [route.address[0]]
    return [name for name in needed if not environment.get(name)]


def _slack(text: str) -> str:
    """A text without Slack's markup: three characters of it.

    https://docs.slack.dev/messaging/formatting-message-text
    """
    for sign, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, code)
    return text


def _slack_finding(notice: Notice) -> str:
    """What comes of data is code, so that nothing in it is a link or a mention."""
    if not notice.is_shown_in_full:
        return _slack_code(notice.line)
    impact = [shorten(printable(notice.impact), _MAX_TEXT)] if notice.impact else []
    link = f"<{_slack(notice.url)}|open in the report>" if notice.url else ""
    about = ", ".join(p for p in (_slack(notice.about), link) if p)
    parts = [_slack_code("\n".join([notice.line, *impact])), about, _slack_code(notice.command)]
    return "\n".join(p for p in parts if p)


def _slack_code(text: str) -> str:
    return f"```{_slack(text).replace('```', '` ` `')}```"


def _teams_blocks(title: str, notices: Sequence[Notice]) -> list[dict[str, Any]]:
    """The findings that a card has room for, and how many there are beside."""
    blocks, count = [_block(_teams(title), weight="bolder")], 0
    told = _told(notices)
    for notice in told:
        more = [*blocks, *_teams_finding(notice)]
        if count and len(_encoded(more)) > _MAX_CARD:
            break
        blocks, count = more, count + 1
    return [*blocks, *(_block(_teams(line)) for line in _rest(notices, told[:count]))]


def _teams(text: str) -> str:
    """A text in which nothing is a link or emphasis: cards know some Markdown.

    https://learn.microsoft.com/en-us/adaptive-cards/authoring-cards/text-features
    """
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _teams_finding(notice: Notice) -> Iterator[dict[str, Any]]:
    yield _block(_teams(notice.line), fontType="monospace", separator=True)
    if not notice.is_shown_in_full:
        return
    if notice.impact:
        impact = shorten(printable(notice.impact), _MAX_TEXT)
        yield _block(_teams(impact), fontType="monospace")
    link = f"[open in the report]({notice.url})" if notice.url else ""
    about = ", ".join(p for p in (_teams(notice.about), link) if p)
    if about:
        yield _block(about)
    yield _block(_teams(notice.command), fontType="monospace", isSubtle=True)


def _encoded(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode(errors="replace")


def _block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "TextBlock", "text": text, "wrap": True, **more}


def send(
    route: Route, project: str, notices: Sequence[Notice], environment: Mapping[str, str]
) -> None:
    """Hand one message about all the notices over. Raises NotificationError, ConfigError."""
    try:
        if route.kind == "email":
            _mail(route, project, notices, environment)
        else:
            _post(route, payload(route.kind, project, notices), environment)
    except (OSError, HTTPException, smtplib.SMTPException, ValueError) as error:
        reason = _reason(error)
        raise NotificationError(f"{route.name} did not take the message ({reason})") from error


def _reason(error: Exception) -> str:
    """Why a message was not taken, without the error's own text: it may hold the address."""
    if isinstance(error, urllib.error.HTTPError):
        return str(error.code)
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, str):
        return "its address is no URL of a server"
    if isinstance(cause, socket.gaierror):
        return "its host is not known"
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    known = isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno
    return os.strerror(known) if known else type(cause).__name__


def _post(route: Route, content: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    url = _from_environment(route.address[0], environment)
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{route.address[0]} does not hold an http address")
    post(url, _encoded(content), {}, _TIMEOUT)


def _mail(
    route: Route, project: str, notices: Sequence[Notice], environment: Mapping[str, str]
) -> None:
    server = urllib.parse.urlsplit(_from_environment(SMTP_URL, environment))
    if server.scheme not in ("smtp", "smtps") or not server.hostname:
        raise ConfigError(f"{SMTP_URL} is not an smtp:// or smtps:// address")
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


def notice_of(
    row: Mapping[str, Any],
    event: str,
    models: Mapping[str, Mapping[str, Any]],
    checks: Mapping[str, Mapping[str, Any]],
    report: str | None,
    cause: str = "",
) -> Notice:
    """What to say of a row of dq_findings, with the rows of models and checks that are in force.

    `cause` names the finding that it follows from.
    """
    model, check = models.get(row["model"], {}), checks.get(row["check_id"], {})
    message = row["message"] or ""
    if event == "opened" and row["resolved_batch"] is not None:
        waits = "it waits" if row["batch_count"] == 1 else "they wait"
        message += f" ({row['resolved_batch']} passes again; {waits} for a review)"
    return Notice(
        event=event,
        state=row["state"],
        finding_id=row["finding_id"],
        check_id=row["check_id"],
        model=row["model"],
        label=check_label(row["check_name"], row["column_name"], SHORT_NAME),
        status=row["status"],
        severity=row["severity"],
        message=message.lstrip(),
        first_batch=row["first_batch"],
        last_batch=row["last_batch"],
        batches=row["batch_count"],
        owner=model.get("owner") or "",
        tags=tuple(sorted({*(model.get("tags") or ()), *(check.get("tags") or ())})),
        assigned_to=row["assigned_to"] or "",
        impact=row["impact"] or "",
        place=f"{check['file']}:{check['line']}" if check.get("file") else "",
        url=finding_url(report, row["finding_id"]),
        why="" if row["resolved_batch"] is not None else row["reason"] or "",
        cause=cause if event == "opened" else "",
    )
