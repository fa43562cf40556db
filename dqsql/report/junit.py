"""`junit.xml`: what a run found, for CI servers. One suite for a model, one case for a check."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from dqsql.model.plan import Plan
from dqsql.model.results import RunResult
from dqsql.report.jsonable import timestamp
from dqsql.report.run_results import run_results

JUNIT = "junit.xml"
# What XML 1.0 does not allow in a text.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "error": "error", "skipped": "skipped"}


def junit_xml(result: RunResult, plans: Sequence[Plan] = ()) -> str:
    """Return the content of `junit.xml`. A warning is a passed case with its message as output."""
    root = ElementTree.Element("testsuites", name=_clean(result.project))
    suites: dict[str, list[Mapping[str, Any]]] = {m.model: [] for m in result.models}
    for entry in run_results(result, plans)["results"]:
        suites.setdefault(entry["adapter_response"]["dqsql"]["model"], []).append(entry)
    for model, entries in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(entries))
        suite.set("name", _clean(model))
        suite.set("timestamp", timestamp(result.started_at).removesuffix("Z"))
        for entry in entries:
            _case(suite, model, entry)
    _total(root, result)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    statuses = [e["status"] for e in entries]
    seconds = sum(e["execution_time"] for e in entries)
    return {
        "tests": str(len(entries)),
        "failures": str(statuses.count("fail")),
        "errors": str(statuses.count("error")),
        "skipped": str(statuses.count("skipped")),
        "time": f"{seconds:.3f}",
    }


def _total(root: ElementTree.Element, result: RunResult) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{result.seconds:.3f}")


def _case(suite: ElementTree.Element, model: str, entry: Mapping[str, Any]) -> None:
    own = entry["adapter_response"]["dqsql"]
    name = own["check_name"] or entry["unique_id"]
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=_clean(f"{own['column']}: {name}" if own["column"] else str(name)),
        classname=_clean(model),
        time=f"{entry['execution_time']:.3f}",
    )
    if own["file"]:
        case.set("file", _clean(own["file"]))
    if own["line"]:
        case.set("line", str(own["line"]))
    message = _clean(entry["message"] or "")
    kind = _ELEMENTS.get(entry["status"])
    if kind is not None:
        element = ElementTree.SubElement(case, kind, message=message)
        element.text = _details(own)
    elif message:
        ElementTree.SubElement(case, "system-out").text = message


def _details(own: Mapping[str, Any]) -> str | None:
    lines = [f"{f['batch']}: {f['message']}" for f in own["findings"]]
    return _clean("\n".join(lines)) or None


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
