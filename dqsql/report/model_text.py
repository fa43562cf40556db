"""One model of the report as text, for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from dqsql.model.wording import plural
from dqsql.report.page import ModelFacts, finding_lines, model_record
from dqsql.report.terminal import Terminal
from dqsql.report.text import number, padded, shorten

# What a verdict is in a strip: low where all is well.
_BLOCKS = {"p": "▁", "w": "▅", "f": "█", "e": "█", "n": "▃", "s": "·", ".": " "}
_COLORS = {"p": "green", "w": "yellow", "n": "yellow", "f": "red", "e": "red"}
_LABEL, _STRIP = 44, 40


def lines_of_model(facts: ModelFacts, out: Terminal) -> Iterator[str]:
    """The open findings of a model, then a line for each check with a strip of its history."""
    record = model_record(facts)
    batches = record["batches"]
    yield out.style(facts.name, "bold")
    yield f"{plural(len(batches), 'batch')}, {batches[0]} to {batches[-1]}"
    for finding in finding_lines(facts):
        if finding["state"] == "resolved":
            continue
        since = finding["batches"][0]
        word = out.style(
            finding["status"].upper(), "red" if finding["status"] == "fail" else "yellow"
        )
        yield ""
        count = plural(len(finding["batches"]), "batch")
        yield f"{word} {finding['label']}: since {since}, {count}"
        yield f"  {finding['message']}"
    column = None
    for check in sorted(record["checks"], key=lambda c: (c["column"], c["rank"], c["label"])):
        if check["column"] != column:
            column = check["column"]
            yield ""
            yield out.style(column or "the whole model", "bold")
        yield _line(check["label"], check["strip"], check["series"], out)


def _line(label: str, letters: str, series: list[dict[str, object]], out: Terminal) -> str:
    shown = letters[-_STRIP:]
    text = padded(shorten(label, _LABEL), _LABEL)
    strip = "".join(_styled(letter, out) for letter in shown) if out.unicode else shown
    newest = ""
    if series:
        values = series[0]["values"]
        assert isinstance(values, list)
        newest = "" if values[-1] is None else number(values[-1])
    return f"  {text} {strip}{' ' * (_STRIP - len(shown))} {newest}".rstrip()


def _styled(letter: str, out: Terminal) -> str:
    color = _COLORS.get(letter)
    return out.style(_BLOCKS[letter], color) if color else _BLOCKS[letter]
