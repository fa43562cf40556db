"""Serves one page to the browsers of this machine."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
