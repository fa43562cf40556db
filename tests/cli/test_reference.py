"""The pages of the reference are what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dqsql.cli.main import cli
from dqsql.cli.reference import described_settings
from dqsql.loading import config, profiles, settings

PAGES = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("page", ["annotations", "settings", "commands"])
def test_a_page_is_what_the_command_prints(page: str) -> None:
    done = CliRunner().invoke(cli, ["docs", page])
    assert done.exit_code == 0
    text = f"`dqsql docs {page} > docs/reference/{page}.md` brings the page up to date"
    assert (PAGES / f"{page}.md").read_text("utf-8").rstrip() == done.stdout.rstrip(), text


@pytest.mark.parametrize("place", ["check", "model", "project", "profile"])
def test_every_setting_is_described_and_no_other(place: str) -> None:
    described = described_settings()[place]
    monitors = settings.configurable_monitors()
    names = {
        "check": settings.check_words(),
        "model": settings.model_settings().keys() - monitors,
        "project": config.known_keys() - monitors,
        "profile": profiles.OWN_KEYS | {"type", "dqsql"},
    }
    assert set(described) == names[place]
    assert all(text.strip().endswith((".", ")", "`", "`.")) for text in described.values())


def test_formulas_are_those_of_the_macros() -> None:
    page = (PAGES / "annotations.md").read_text("utf-8")
    mean = page[page.index("### `@mean(column)`") :][:200]
    assert "Arithmetic mean of the values. Null without values." in mean
    assert "```sql\navg(column)\n```" in mean
