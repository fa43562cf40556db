"""`report.html`: what is stored of a project in one file, which needs nothing but itself."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import jinja2

from dqsql.report.jsonable import jsonable
from dqsql.report.page import Page, model_record, overview_record
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


def unpacked(text: str) -> Any:
    """What `packed` was given, of JSON's types."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
