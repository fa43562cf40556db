"""A new kind of monitor is one file in `dqsql/monitors/kinds`: nothing else names it.

The one here, `@steady`, is what such a file holds: the mean of a column must stay within a share of
that of the accepted batch before it.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dqsql
from dqsql.model.monitors import monitor_specs
from dqsql.monitors import kinds, registry
from dqsql.monitors.judging import needs_of

from .conftest import write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THE_FILE = '''
"""`@steady`: the mean of a column stays within a share of that of the batch before it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dqsql.dialect import quoted
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Family, Monitor
from dqsql.model.results import Result, Status
from dqsql.monitors.context import MonitorContext, Workplace, failed_status, learning, result_of
from dqsql.monitors.history import key_of
from dqsql.monitors.kind import MonitorKind, Reach
from dqsql.monitors.recompute import Compared, Recomputed, StoredVerdict, stored_key
from dqsql.monitors.replay import Replayed, Tally
from dqsql.model.settings import as_rate
from dqsql.monitors.settings import read_settings


@dataclass(frozen=True)
class SteadyDetector:
    context: MonitorContext

    def prepare(self, batches: Sequence[str]) -> None:
        pass

    def judge(self, batch: str) -> list[Result]:
        return [self._verdict(m, batch) for m in KIND.of(self.context.plan)]

    def change(self, monitor: Monitor, batch: str) -> tuple[str, float] | None:
        metric = self.context.metric(monitor, "mean")
        before = self.context.history.before(batch, 1)
        if metric is None or not before:
            return None
        last, now = (self.context.history.value(key_of(metric), b) for b in (before[0], batch))
        return before[0], abs(now / last - 1)

    def _verdict(self, monitor: Monitor, batch: str) -> Result:
        found = self.change(monitor, batch)
        if found is None:
            return learning(monitor, batch, 0, 1, 0)
        before, change = found
        share = read_settings(monitor, KIND.spec.settings, self.context.defaults("steady"))["share"]
        status = Status.PASS if change <= share else failed_status(monitor.severity)
        result = result_of(monitor, batch, status, f"{monitor.column} changed by {change:.0%}")
        series = list(key_of(self.context.metric(monitor, "mean"))[:4])
        details = {**result.details, "history": [before, before, 1], "series": series}
        return replace(result, observed=change, upper=share, details=details)

    def rates_in_use(self) -> dict[str, float]:
        return {m.id: 0.5 for m in KIND.of(self.context.plan)}

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        found = []
        for monitor in KIND.of(self.context.plan):
            for rate in rates:
                tally = Tally(monitor, rate, flagged)
                for batch in batches:
                    change = self.change(monitor, batch)
                    tally.add(batch, None if change is None else change[1] > rate)
                found.append(tally.result())
        return found


def _recomputed(stored: StoredVerdict) -> Recomputed:
    key = stored_key(stored.details["series"])
    last, now = (stored.history.value(key, b) for b in (stored.past[-1], stored.batch))
    return Recomputed((Compared("change", stored.row["observed"], abs(now / last - 1)),))


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    column = use.annotation.column
    return [WatchedMetric(Family.NUMERIC, "mean", f"mean({quoted(column)})", column)]


def _detector(place: Workplace, context: MonitorContext) -> SteadyDetector:
    return SteadyDetector(context)


KIND = MonitorKind(
    MonitorSpec(
        name="steady",
        settings={"share": as_rate},
        watches=_watches,
        about_column=True,
        symptom="values",
    ),
    detector=_detector,
    reach=lambda monitor, defaults: Reach(1),
    replayer=_detector,
    recompute=_recomputed,
)
'''

MODEL = """\
{{ config(batch_by = 'day') }}
select day,
  price -- @steady {share: 0.2}
from values ('a', 10), ('b', 11), ('c', 30), ('d', 12) as t(day, price)
"""


@pytest.fixture(autouse=True)
def _the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file, in a folder that the package's is prolonged by."""
    folder = tmp_path / "kinds"
    folder.mkdir()
    (folder / "steady.py").write_text(THE_FILE)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(folder)])
    before = {k.name for k in registry.all_kinds()}
    registry.load_kinds()
    yield
    for name in {k.name for k in registry.all_kinds()} - before:
        registry.forget(name)
    sys.modules.pop(f"{kinds.__name__}.steady")
    importlib.invalidate_caches()
    shutil.rmtree(folder)


def test_the_files_of_the_folder_are_found() -> None:
    shipped = {"schema", "avh", "pattern", "anomaly", "novelty"}
    assert set(monitor_specs()) >= shipped | {"steady"}


def test_it_compiles_and_says_what_is_wrong_with_its_settings(tmp_path: Path) -> None:
    write_project(tmp_path, {"checks/m.sql": MODEL, "checks/n.sql": MODEL.replace("0.2", "2")})
    compiled = dqsql.compile_project(tmp_path, profiles_dir=tmp_path)
    plan = compiled.plans[0]
    assert [(m.kind, m.column) for m in plan.monitors] == [("steady", "price")]
    assert [m.name for m in plan.metrics] == ["mean"]
    (need,) = needs_of(plan, {}, 10)
    assert (need.depth, need.metrics) == (1, {"mean"})
    (error,) = compiled.errors
    assert error.message == "'share' of @steady must be a number between 0 and 1, not 2"

    write_project(tmp_path, {"checks/n.sql": MODEL.replace("share", "shar")})
    (error,) = dqsql.compile_project(tmp_path, profiles_dir=tmp_path).errors
    assert (error.message, error.hint) == ("unknown setting 'shar'", "did you mean 'share'?")


def test_it_may_stand_in_the_config_of_a_model(tmp_path: Path) -> None:
    text = MODEL.replace("'day')", "'day', steady = {'share': 0.1})").replace("-- @steady", "--")
    write_project(tmp_path, {"checks/m.sql": text.replace("{share: 0.2}", "the price")})
    compiled = dqsql.compile_project(tmp_path, profiles_dir=tmp_path)
    assert [(m.kind, m.column) for p in compiled.plans for m in p.monitors] == [("steady", "price")]
    assert not compiled.errors


def test_it_decides_is_replayed_and_computed_again(
    make_project: Callable[..., Path], spark: SparkSession
) -> None:
    root = make_project({"checks/m.sql": MODEL})
    (model,) = dqsql.run(root, spark=spark).models
    assert {r.batch: r.status.value for r in model.results} == {
        "a": "skipped",
        "b": "pass",
        "c": "fail",
        # The failed batch is no part of the history.
        "d": "pass",
    }
    (group,) = model.groups
    assert group.findings[0].result.message == "price changed by 173%"

    again = dqsql.explain("m.price.steady", batch="c", project_dir=root, spark=spark)
    assert (again.same, [c.name for c in again.compared]) == (True, ["change"])

    (tested,) = dqsql.backtest(root, spark=spark, rates=[0.05, 0.5])
    assert [(r.fpr, r.alarms, r.found) for r in tested.replayed] == [
        (0.05, ("b", "d"), ("c",)),
        (0.5, (), ("c",)),
    ]
