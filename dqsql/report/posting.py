"""Messages to servers of others, by HTTP."""

from __future__ import annotations

import base64
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error: what follows it asks for a page, and sends no message."""

    def redirect_request(self, *args: Any) -> None:
        """No request."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    """Send JSON to a server that takes it, and answers in so many seconds.

    Raises:
        OSError: the server cannot be reached; `HTTPError` where it answers with an error.
        HTTPException: what answers is no HTTP server.
        ValueError: the address is none.
    """
    content = {"Content-Type": "application/json", **headers}
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None:
        # What stands before the host is sent as browsers do.
        pair = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        content["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, body, content, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout):
            pass
    except urllib.error.HTTPError as error:
        # It is an open answer, too.
        error.close()
        raise
