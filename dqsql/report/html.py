"""`report.html`: the stored verdicts of a project on one page, which needs nothing but itself."""

from __future__ import annotations

import jinja2

from dqsql.model.wording import plural
from dqsql.report.charts import HEIGHT, WIDTH
from dqsql.report.page import Page
from dqsql.report.profile import BAR_WIDTH, BARS_HEIGHT
from dqsql.resources import resource_dir

REPORT = "report.html"


def render(page: Page) -> str:
    """The page as HTML: no scripts, no links to other places; every text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates") / "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["plural"] = plural
    template = environment.get_template("report.html.j2")
    return template.render(
        page=page, width=WIDTH, height=HEIGHT, bar_width=BAR_WIDTH, bars_height=BARS_HEIGHT
    )
