"""Colours of the report are told from their ground, in light and in dark (WCAG 2.2, level AA)."""

from __future__ import annotations

import re

import pytest

from dqsql.resources import resource_dir

STYLES = (resource_dir("templates") / "report" / "report.css").read_text("utf-8")
TEXTS = ("ink", "dim", "accent", "ok-ink", "warn-ink", "fail-ink", "error")
# What passed is quiet, and low as well.
MARKS = ("warn", "fail", "error", "none", "line")


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    wide = digits if len(digits) > 3 else "".join(2 * d for d in digits)
    parts = [int(wide[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_are_as_they_were_measured() -> None:
    assert "opacity" not in STYLES


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme: int) -> None:
    block = re.findall(r":root \{(.*?)\}", STYLES, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
    for ground in ("paper", "ground", "soft"):
        for name in TEXTS:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in (*MARKS, "edge"):
        assert contrast(colours[name], colours["paper"]) >= 3, name
