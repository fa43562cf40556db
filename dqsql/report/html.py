"""`report.html`: what is stored of a project in one file, which needs nothing but itself.

It is written, or served to the browsers of this machine.
"""

from __future__ import annotations

import base64
import gzip
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jinja2

from dqsql.json_text import jsonable
from dqsql.report.model_page import model_record
from dqsql.report.page import Page, overview_record
from dqsql.resources import resource_dir

REPORT = "report.html"


def render(page: Page) -> str:
    """The file: styles, script and data, the latter packed, so that no text of it is markup."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates") / "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        title=f"Data quality of {page.project}",
        overview=packed(overview_record(page)),
        models=[packed(model_record(m)) for m in page.models],
    )


def packed(value: Any) -> str:
    """JSON, compressed, in letters that HTML needs no escapes for."""
    text = json.dumps(jsonable(value), separators=(",", ":"))
    # The time of packing is left out: the same data gives the same file.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")


class PageServer(ThreadingHTTPServer):
    """Answers `/` with a page, on the loopback address only. `port` 0 takes a free one."""

    def __init__(self, page: str, port: int = 0) -> None:
        self.page = page.encode()
        super().__init__(("127.0.0.1", port), _PageHandler)

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://127.0.0.1:{self.server_port}/"


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        # A page of elsewhere that resolves its own name to this machine must not read it.
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if self.path != "/" or host not in ("127.0.0.1", "localhost"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.server.page)))
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the address was printed."""
