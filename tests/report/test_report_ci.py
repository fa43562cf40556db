"""What CI servers and catalogs of lineage read: junit.xml, GitHub's commands, OpenLineage."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from xml.etree import ElementTree

import pytest

from dqsql.errors import ErrorGroup, QueryError, Span
from dqsql.model.project import NoData
from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.report.ci import command, error_annotations, finding_annotations, junit_xml
from dqsql.report.openlineage import Receiver, events

MakeResult = Callable[..., Result]
MakeModel = Callable[..., ModelResult]
MakeRun = Callable[..., RunResult]


@pytest.fixture
def run(make_result: MakeResult, make_model: MakeModel, make_run: MakeRun) -> RunResult:
    failed = make_result(status=Status.FAIL, message="it is 3 < 5 & \x00 odd", check_id="flights.a")
    passed = make_result(check_id="flights.b", check_name="ok")
    skipped = make_result(check_id="flights.c", check_name="new", status=Status.SKIPPED)
    broken = make_model(
        model="weather", path="checks/weather.sql", error=QueryError("no such table")
    )
    return make_run(make_model(failed, passed, skipped), broken)


def test_junit_is_xml_with_a_case_for_each_check(run: RunResult) -> None:
    root = ElementTree.fromstring(junit_xml(run))
    assert root.attrib["tests"] == "4"
    assert (root.attrib["failures"], root.attrib["errors"], root.attrib["skipped"]) == ("1",) * 3
    suites = {s.attrib["name"]: s for s in root}
    cases = {c.attrib["name"]: c for c in suites["flights"]}
    failure = cases["dep_delay: mean between 5 and 60"].find("failure")
    assert failure is not None
    assert "it is 3 < 5 & " in failure.attrib["message"]
    assert cases["dep_delay: ok"].find("failure") is None
    error = suites["weather"][0].find("error")
    assert error is not None
    assert error.attrib["message"] == "no such table"


def test_all_rows_of_a_batch_come_first_and_what_is_cut_is_told(
    make_result: MakeResult, make_model: MakeModel, make_run: MakeRun
) -> None:
    names = [None, *(f"shop={i:03}" for i in range(150))]
    found = [make_result(status=Status.FAIL, segment=s, message="odd") for s in names]
    (suite,) = ElementTree.fromstring(junit_xml(make_run(make_model(*found))))
    lines = (suite[0][0].text or "").splitlines()
    assert lines[:2] == ["2025-03-01: odd", "2025-03-01, shop=000: odd"]
    assert (len(lines), lines[-1]) == (101, "and 51 more")


def test_cases_of_one_name_are_told_apart(
    make_result: MakeResult, make_model: MakeModel, make_run: MakeRun
) -> None:
    found = [make_result(check_id=f"m.a.{rows}", segment="EU") for rows in ("where_a", "where_b")]
    failed = [replace(r, status=Status.FAIL) for r in found]
    (suite,) = ElementTree.fromstring(junit_xml(make_run(make_model(*failed))))
    assert [c.attrib["name"] for c in suite] == ["m.a.where_a", "m.a.where_b"]
    assert "EU: " in (suite[0][0].text or "")


def test_github_commands_point_at_files(run: RunResult) -> None:
    lines = list(finding_annotations(run, (), "dq/"))
    assert lines[0].startswith("::error file=dq/checks/flights.sql,line=1,title=flights%3A mean")
    assert "\n" not in "".join(lines)
    assert "no such table" in lines[-1]


def test_what_earlier_runs_have_left_is_told_where_a_run_fails_by_it(
    make_model: MakeModel, make_run: MakeRun
) -> None:
    left = make_model(model="my orders", waiting=("a",), unfinished=("b",), skipped="nothing new")
    run = make_run(left)
    assert run.exit_code == 1
    (suite,) = ElementTree.fromstring(junit_xml(run))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "2")
    told = [f.attrib["message"] for f in suite.iter("failure")]
    assert told == [
        "nobody has reviewed a, which an earlier run flagged:"
        " dqsql review list --select 'my orders'",
        "not checked to the end, and without rows now: b",
    ]
    lines = list(finding_annotations(run, ()))
    assert [line.startswith("::error file=") for line in lines] == [True, True]
    bare = make_run(replace(make_model(), gone=0, no_data=NoData.ERROR))
    (failure,) = ElementTree.fromstring(junit_xml(bare)).iter("failure")
    assert failure.attrib["message"] == "no rows, so nothing was checked"
    assert "no rows, so nothing was checked" in "".join(finding_annotations(bare, ()))
    # Nothing was measured of it.
    (event,) = events(run, (), "lake")
    assert "inputFacets" not in event["inputs"][0]


def test_an_assertion_of_lineage_is_about_all_batches_and_segments(
    make_result: MakeResult, make_model: MakeModel, make_run: MakeRun
) -> None:
    verdicts = [
        make_result("a"),
        make_result("a", segment="s=1", status=Status.FAIL),
        make_result("b"),
    ]
    (event,) = events(make_run(make_model(*verdicts)), (), "lake")
    assertions = event["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [a["success"] for a in assertions] == [False]


def test_github_commands_of_errors() -> None:
    errors = [QueryError(f"a\nb {n}%", span=Span("m.sql", n, 1), hint="c") for n in (3, 4)]
    assert list(error_annotations(ErrorGroup(errors))) == [
        f"::error file=m.sql,line={n},title=engine error::a%0Ab {n}%25%0Ahint: c" for n in (3, 4)
    ]


def test_properties_are_escaped() -> None:
    assert command("warning", "x", title="a,b:c%") == "::warning title=a%2Cb%3Ac%25::x"


def test_openlineage_events(run: RunResult) -> None:
    flights, weather = events(run, (), "lake")
    assert flights["eventType"] == "COMPLETE"
    assert weather["eventType"] == "FAIL"
    assert weather["run"]["facets"]["errorMessage"]["message"] == "no such table"
    facets = flights["inputs"][0]["inputFacets"]
    assert [a["success"] for a in facets["dataQualityAssertions"]["assertions"]] == [
        False,
        True,
        True,
    ]
    assert facets["dataQualityMetrics"]["rowCount"] == 336_776
    assert events(run, (), "lake") == [flights, weather]


def test_metrics_of_lineage_are_about_all_rows_of_the_run(
    make_result: MakeResult, make_model: MakeModel, make_run: MakeRun
) -> None:
    """Batches are put together, segments left out, and NaN is no number for JSON."""

    def seen(batch: str, column: str, segment: str | None = None, **metrics: float) -> Result:
        named = {f"{name}({column})": value for name, value in metrics.items()}
        return make_result(batch, column=column, segment=segment, details={"metrics": named})

    results = (
        seen("a", "x", null_count=2.0, min=-1.0, max=5.0, sum=7.0, mean=3.5),
        seen("a", "x", null_count=2.0),
        seen("a", "x", "s=1", null_count=1.0, min=4.0),
        seen("b", "x", null_count=3.0, min=1.0, max=math.inf, sum=1.0),
        seen("b", "y", max=math.nan),
    )
    event = events(make_run(make_model(*results)), (), "lake")[0]
    found = event["inputs"][0]["inputFacets"]["dataQualityMetrics"]["columnMetrics"]
    assert found == {"x": {"nullCount": 5.0, "min": -1.0, "sum": 8.0}}


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, dict[str, str], Any]]]]:
    """A server on the loopback that remembers what it is sent; /broken is an error."""
    seen: list[tuple[str, dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if "garbage" in self.path:
                self.wfile.write(b"no HTTP\n")
                return
            seen.append((self.path, dict(self.headers), json.loads(body)))
            moved = "moved" in self.path
            self.send_response(302 if moved else 500 if "broken" in self.path else 201)
            self.send_header("Location", "/page")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    served = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}", seen
    served.shutdown()
    thread.join()
    served.server_close()


def test_events_are_sent(
    run: RunResult, server: tuple[str, list[tuple[str, dict[str, str], Any]]]
) -> None:
    url, seen = server
    Receiver(url, api_key="k").send(events(run, (), "lake"))
    assert [path for path, _, _ in seen] == ["/api/v1/lineage"] * 2
    assert seen[0][1]["Authorization"] == "Bearer k"
    assert seen[0][2]["job"]["name"] == "dqsql.nyc.flights"
    with pytest.raises(OSError, match="500"):
        Receiver(url, "broken").send(events(run, (), "lake"))
    # What it does not take holds up no other.
    assert [path for path, _, _ in seen[2:]] == ["/broken"] * 2
    with pytest.raises(OSError, match="302"):
        Receiver(url, "moved").send(events(run, (), "lake"))
    with pytest.raises(OSError, match="BadStatusLine"):
        Receiver(url, "garbage").send(events(run, (), "lake"))
    with pytest.raises(OSError, match="InvalidURL"):
        Receiver("http://127.0.0.1:port").send(events(run, (), "lake"))
    with pytest.raises(OSError, match="not an http address"):
        Receiver("file:///etc/passwd").send(events(run, (), "lake"))
