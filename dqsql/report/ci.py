"""What a run found, for CI servers: `junit.xml`, and annotations of lines for GitHub.

In `junit.xml`, a model is a suite and a check a case. GitHub shows workflow commands beside the
lines of files:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from dqsql.errors import DqsqlError, unique_errors
from dqsql.json_text import timestamp
from dqsql.model.plan import Plan
from dqsql.model.results import RunResult, Status
from dqsql.report.findings import describe, group_findings
from dqsql.report.run_results import run_results

JUNIT = "junit.xml"
# What XML 1.0 does not allow in a text.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The case of what no verdict tells.
_OWED = "the model as a whole"
_ELEMENTS = {"fail": "failure", "error": "error", "skipped": "skipped"}


def junit_xml(result: RunResult, plans: Sequence[Plan] = ()) -> str:
    """Return the content of `junit.xml`. A warning is a passed case with its message as output."""
    root = ElementTree.Element("testsuites", name=_clean(result.project))
    owed = {m.model: m.owed for m in result.models}
    suites: dict[str, list[Mapping[str, Any]]] = {m.model: [] for m in result.models}
    for entry in run_results(result, plans)["results"]:
        suites.setdefault(entry["adapter_response"]["dqsql"]["model"], []).append(entry)
    for model, entries in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _counts(entries, owed.get(model, ())))
        suite.set("name", _clean(model))
        suite.set("timestamp", timestamp(result.started_at).removesuffix("Z"))
        shown = Counter(map(_case_name, entries))
        for entry in entries:
            name = _case_name(entry)
            # As of two checks that differ in their `where`.
            _case(suite, model, entry, name if shown[name] == 1 else entry["unique_id"])
        for text in owed.get(model, ()):
            case = ElementTree.SubElement(suite, "testcase", name=_OWED, classname=_clean(model))
            ElementTree.SubElement(case, "failure", message=_clean(text))
    _total(root, result)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _counts(entries: Sequence[Mapping[str, Any]], owed: Sequence[str]) -> dict[str, str]:
    statuses = [e["status"] for e in entries]
    seconds = sum(e["execution_time"] for e in entries)
    return {
        "tests": str(len(entries) + len(owed)),
        "failures": str(statuses.count("fail") + len(owed)),
        "errors": str(statuses.count("error")),
        "skipped": str(statuses.count("skipped")),
        "time": f"{seconds:.3f}",
    }


def _total(root: ElementTree.Element, result: RunResult) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{result.seconds:.3f}")


def _case_name(entry: Mapping[str, Any]) -> str:
    own = entry["adapter_response"]["dqsql"]
    name = own["check_name"] or entry["unique_id"]
    return f"{own['column']}: {name}" if own["column"] else str(name)


def _case(suite: ElementTree.Element, model: str, entry: Mapping[str, Any], name: str) -> None:
    own = entry["adapter_response"]["dqsql"]
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=_clean(name),
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
    lines = [
        f"{f['batch']}{', ' + f['segment'] if f['segment'] else ''}: {f['message']}"
        for f in own["findings"]
    ]
    if own["findings_left_out"]:
        lines.append(f"and {own['findings_left_out']:,} more")
    return _clean("\n".join(lines)) or None


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)


# --- GitHub --------------------------------------------------------------------------------------

_COMMANDS = {Status.ERROR: "error", Status.FAIL: "error"}


def finding_annotations(
    result: RunResult, plans: Sequence[Plan], prefix: str = ""
) -> Iterator[str]:
    """One command for each check with findings, and for each error.

    `plans` say where the checks stand. `prefix` is the project's folder in the repository, empty or
    with a slash at its end.
    """
    places = {check.id: check for plan in plans for check in plan.declared}
    # With the model's errors.
    refused_ids = {check.id for plan in plans for check, _ in plan.refused}
    for model in result.models:
        if model.error is not None:
            yield from error_annotations(model.error, prefix)
        for text in model.owed:
            yield command("error", text, file=f"{prefix}{model.path}", line=1, title=model.model)
        for group in group_findings(r for r in model.results if r.check_id not in refused_ids):
            check = places.get(group.check_id)
            file = check.span.file if check else model.path
            line = check.span.line if check else 1
            yield command(
                _COMMANDS.get(group.status, "warning"),
                describe(group, max(len(model.batches), group.batches)),
                file=f"{prefix}{file}",
                line=line,
                title=f"{model.model}: {group.check_name}",
            )


def error_annotations(error: DqsqlError, prefix: str = "") -> Iterator[str]:
    """Yield one command for each independent error."""
    for each in unique_errors([error]):
        text = each.message if each.hint is None else f"{each.message}\nhint: {each.hint}"
        place: dict[str, str | int] = {}
        if each.span is not None:
            place = {"file": f"{prefix}{each.span.file}", "line": each.span.line}
        yield command("error", text, **place, title=each.kind)


def command(kind: str, message: str, **properties: str | int) -> str:
    """Return `::error file=a.sql,line=3::message` with everything escaped."""
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{kind} {listed}::{_data(message)}" if listed else f"::{kind}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
