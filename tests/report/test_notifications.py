"""Messages about findings, to servers on this machine."""

from __future__ import annotations

import base64
import json
import shlex
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, TypeVar

import pytest

from dqsql.errors import ConfigError, NotificationError
from dqsql.model.routes import read_routes
from dqsql.report.findings import SHORT_NAME, check_label
from dqsql.report.notifications import Notice, body_of, finding_url, payload, send, title_of
from dqsql.report.posting import post


def notice(**more: Any) -> Notice:
    given: dict[str, Any] = {
        "event": "opened",
        "state": "open",
        "finding_id": "m.c.not_null@2025-03-01",
        "check_id": "m.c.not_null",
        "model": "m",
        "label": "not_null on c",
        "status": "fail",
        "severity": "error",
        "message": "2 of 4 rows do not meet <not_null> & more",
        "first_batch": "2025-03-01",
        "last_batch": "2025-03-03",
        "batches": 3,
        "owner": "ann",
        "tags": ("daily",),
    }
    return Notice(**{**given, **more})


S = TypeVar("S", bound=socketserver.BaseServer)


class Webhook(HTTPServer):
    """Keeps what it is sent; answers with `status`."""

    status = 200

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.authorized: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Keeper)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret-path"


class _Keeper(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append(json.loads(body))
        self.server.authorized.append(self.headers["Authorization"])
        self.send_response(self.server.status)
        self.send_header("Location", f"{self.server.url}/login")
        self.end_headers()

    def do_GET(self) -> None:
        """A page for people, as where a proxy asks for a password."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving(server: S) -> Iterator[S]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with serving(Webhook()) as server:
        yield server


class MailServer(socketserver.TCPServer):
    """Keeps the mails that it is handed."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        super().__init__(("127.0.0.1", 0), _Smtp)


class _Smtp(socketserver.StreamRequestHandler):
    """As much of SMTP as one message needs."""

    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        for line in self.rfile:
            word = line.decode().split()[0].upper()
            if word == "DATA":
                self._say("354 go on")
                self.server.mails.append(self._mail())
            self._say("221 bye" if word == "QUIT" else "250 fine")
            if word == "QUIT":
                return

    def _mail(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(line)
        return "\n".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def routes(**setting: Any) -> Any:
    (route,) = read_routes([setting])
    return route


@pytest.mark.parametrize(
    ("kind", "text_of"),
    [
        ("slack", lambda sent: sent["text"]),
        ("teams", lambda s: "\n".join(b["text"] for b in s["attachments"][0]["content"]["body"])),
        ("webhook", lambda sent: sent["title"] + sent["findings"][0]["message"]),
    ],
)
def test_webhooks(webhook: Webhook, kind: str, text_of: Callable[[Any], str]) -> None:
    send(routes(**{kind: "HOOK"}), "shop", [notice()], {"HOOK": webhook.url})
    (sent,) = webhook.taken
    text = text_of(sent)
    assert "Data quality of shop: 1 new finding" in text
    assert ("&lt;not_null&gt; &amp; more" if kind == "slack" else "<not_null> & more") in text
    if kind != "webhook":
        assert "FAIL m: not_null on c (3 batches, 2025-03-01 to 2025-03-03)" in text
        assert "dqsql explain m.c.not_null --batch 2025-03-03" in text


def test_a_user_in_the_address_is_told_to_the_server(webhook: Webhook) -> None:
    post(webhook.url.replace("//", "//ann:p%40ss@"), b"{}", {}, 5)
    post(webhook.url, b"{}", {}, 5)
    assert webhook.authorized == [f"Basic {base64.b64encode(b'ann:p@ss').decode()}", None]


def test_a_message_names_owner_place_and_the_page_of_the_report() -> None:
    url = finding_url("https://dq.example.com/a&b.html#/", "m.c.x@2025-03-01#2")
    assert url == "https://dq.example.com/a&b.html#/finding/m.c.x%402025-03-01%232"
    more = {"place": "checks/m.sql:8", "assigned_to": "bob", "url": url}
    about = "owner ann, assigned to bob, checks/m.sql:8"
    told = notice(**more)
    assert told.about == about
    assert body_of([told]).splitlines()[1:] == [
        f"    {about}",
        f"    {url}",
        "    dqsql explain m.c.not_null --batch 2025-03-03",
    ]
    lines = payload("slack", "shop", [told])["text"].splitlines()
    assert lines[1].startswith("```FAIL m: not_null on c (3 batches")
    assert lines[2] == f"{about}, <{url.replace('&', '&amp;')}|open in the report>"
    assert lines[3] == "```dqsql explain m.c.not_null --batch 2025-03-03```"
    body = payload("teams", "shop", [told])["attachments"][0]["content"]["body"]
    assert f"{about}, [open in the report]({url})" in [block["text"] for block in body]
    assert payload("webhook", "shop", [told])["findings"][0]["place"] == "checks/m.sql:8"
    # Nothing is known of it but the check, and what is over needs no command.
    bare = notice(owner="")
    assert body_of([bare]).splitlines()[1:] == ["    dqsql explain m.c.not_null --batch 2025-03-03"]
    assert "explain" not in payload("slack", "shop", [notice(event="resolved")])["text"]
    assert finding_url(None, "x") == ""


def test_texts_of_data_are_code_in_slack() -> None:
    """A message that quotes values must not link, nor mention anybody."""
    evil = notice(message="``` <!channel> http://evil.example", owner="<!here>")
    text = payload("slack", "shop", [evil])["text"]
    assert "<" not in text
    _, code, about = text.split("```")[:3]
    assert "&lt;!channel&gt; http://evil.example" in code
    assert about.strip() == "owner &lt;!here&gt;"


def test_texts_of_data_are_no_markdown_in_teams() -> None:
    evil = notice(
        message="[click](http://evil.example) *now* _you_", owner="[x](http://evil.example)"
    )
    body = payload("teams", "shop", [evil])["attachments"][0]["content"]["body"]
    texts = "\n".join(block["text"] for block in body)
    assert r"\[click\](http://evil.example) \*now\* \_you\_" in texts
    assert r"owner \[x\](http://evil.example)" in texts
    assert "not_null" in texts


def test_a_card_is_no_larger_than_teams_takes() -> None:
    many = [notice(message="дубль " * 40, impact="большой " * 40) for _ in range(25)]
    content = payload("teams", "shop", many)
    assert len(json.dumps(content, ensure_ascii=False).encode()) < 27_000
    blocks = content["attachments"][0]["content"]["body"]
    assert blocks[-1]["text"].endswith(" more, of m: dqsql report")
    told = sum(block.get("separator", False) for block in blocks)
    assert blocks[-1]["text"] == f"and {25 - told} more, of m: dqsql report" and told > 5


def test_mail() -> None:
    with serving(MailServer()) as server:
        environment = {
            "DQSQL_SMTP_URL": f"smtp://127.0.0.1:{server.server_address[1]}",
            "DQSQL_SMTP_FROM": "dq@example.com",
        }
        send(routes(email="ann@example.com"), "shop", [notice()], environment)
        (mail,) = server.mails
        assert "Subject: Data quality of shop: 1 new finding" in mail
        assert "To: ann@example.com" in mail
        assert "FAIL m: not_null on c" in mail
        # No password goes over a line that is not encrypted.
        environment["DQSQL_SMTP_URL"] = environment["DQSQL_SMTP_URL"].replace("//", "//u:secret@")
        with pytest.raises(ConfigError, match="no encryption"):
            send(routes(email="ann@example.com"), "shop", [notice()], environment)


@pytest.mark.parametrize("status", [302, 307, 500])
def test_a_server_that_refuses_keeps_the_address_secret(webhook: Webhook, status: int) -> None:
    webhook.status = status
    with pytest.raises(NotificationError, match=rf"slack HOOK .*{status}") as raised:
        send(routes(slack="HOOK"), "shop", [notice()], {"HOOK": webhook.url})
    assert "secret-path" not in str(raised.value)
    with pytest.raises(ConfigError, match="HOOK is not set"):
        send(routes(slack="HOOK"), "shop", [notice()], {})


def test_routes() -> None:
    route = routes(slack="HOOK", owners=["ann"], tags="daily", severity="error")
    assert route.wants(notice())
    assert not route.wants(notice(owner="bob"))
    assert not route.wants(notice(tags=("weekly",)))
    assert not route.wants(notice(severity="warn"))
    # By another bound of its own it only warns.
    assert not route.wants(notice(status="warn"))
    assert routes(webhook="HOOK").wants(notice(owner="", tags=()))


@pytest.mark.parametrize(
    "setting",
    [
        "slack",
        [{"slack": "https://hooks.example.com/secret"}],
        [{"slack": "A", "teams": "B"}],
        [{"slack": "A", "owner": "ann"}],
        [{"slack": "A", "severity": "eror"}],
        [{"owners": ["ann"]}],
        ["slack"],
        [{"email": "ann"}],
        [{"slak": "https://hooks.example.com/secret"}],
    ],
)
def test_wrong_settings(setting: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        read_routes(setting)
    assert raised.value.hint and "example.com/secret" not in str(raised.value)


def test_many_findings_are_one_message_of_bounded_length() -> None:
    many = [notice(label=f"check {i}") for i in range(300)] + [notice(event="resolved")]
    assert title_of("shop", many) == "Data quality of shop: 300 new findings, 1 resolved"
    text = payload("slack", "shop", many)["text"]
    assert "and 281 more, of m: dqsql report" in text
    assert len(text) < 5_000


def test_each_model_has_its_place_in_a_message() -> None:
    many = [notice(model=f"m{m}", label=f"check {i}") for m in range(6) for i in range(10)]
    for text in (payload("slack", "shop", many)["text"], body_of(many)):
        told = [f"m{m}" for m in range(6) if f"FAIL m{m}: check 0 " in text]
        assert told == [f"m{m}" for m in range(6)]
        assert text.count("FAIL m") == 20
        assert text.endswith("and 40 more, of m0, m1, m2, m3, m4, m5: dqsql report")
    resolved = [notice(event="resolved", model=f"z{i}") for i in range(22)]
    told = body_of([notice(model="a", label=f"check {i}") for i in range(16)] + resolved)
    assert (told.count("FAIL a"), told.count("RESOLVED z")) == (16, 4)
    days = [notice(model="a", last_batch=f"2025-03-{d:02}") for d in range(1, 26)]
    told = body_of([*days, *(notice(model="b", label=f"check {i}") for i in range(5))])
    assert told.count("FAIL b") == 5
    label = check_label("accepted_values(" + "'x', " * 600 + ")", "size", SHORT_NAME)
    assert len(label) < 140 and label.endswith("... on size")


def test_a_server_that_is_not_there() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as closed:
        port = closed.server_address[1]
    environment = {"HOOK": f"http://127.0.0.1:{port}/secret"}
    with pytest.raises(NotificationError, match=r"\(Connection refused\)") as raised:
        send(routes(slack="HOOK"), "shop", [notice()], environment)
    assert "secret" not in str(raised.value)


def test_the_command_of_a_message_can_be_copied() -> None:
    told = notice(check_id="m.it's.x", last_batch="2025-03-03 10:00:00")
    assert shlex.split(told.command)[2:] == ["m.it's.x", "--batch", "2025-03-03 10:00:00"]
