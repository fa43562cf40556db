"""Settings of monitors that cannot be used are errors of `dqsql compile`, at their place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import dqsql
from dqsql import compile_project
from dqsql.cli.main import cli
from dqsql.loading.settings import CHECK_SETTINGS, monitor_options
from dqsql.model.monitors import monitor_specs
from dqsql.monitors.kinds.pattern.training import inference_settings, pattern_settings
from dqsql.patterns.infer import InferenceSettings

from .conftest import PROJECT_YML, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Wrong:
    """A model with a fault in its line 3 unless said otherwise, and what is said of it."""

    annotation: str
    says: tuple[str, ...]
    config: str = "batch_by = 'day'"
    place: str = "checks/m.sql:3:11"


WRONG = {
    "rate out of range": Wrong("@avh(fpr => 2)", ("'fpr' of @avh", "between 0 and 1, not 2")),
    "a rate beside bounds": Wrong(
        "@anomaly(row_count, batch_normal(sd => 3)) {fpr: 0.4}", ("batch_normal has bounds of its",)
    ),
    "a rate beside limits": Wrong(
        "@anomaly(row_count, threshold(1, 2)) {fpr: 0.4}", ("threshold has bounds of its own",)
    ),
    "unknown column": Wrong("@row_anomalies(a, c)", ("has no column 'c'",)),
    "rate of zero": Wrong("@avh(fpr => 0)", ("between 0 and 1, not 0",)),
    "rate is text": Wrong("@avh(fpr => 'low')", ("between 0 and 1, not 'low'",)),
    "unknown argument": Wrong(
        "@avh(fprr => 0.1)", ("@avh has no setting 'fprr'", "did you mean 'fpr'?")
    ),
    "positional argument": Wrong("@avh(0.1)", ("named arguments only", "write @avh(fpr => ..)")),
    "unknown word in braces": Wrong(
        "@avh {fprr: 0.1}", ("unknown setting 'fprr'", "did you mean 'fpr'?"), place="m.sql:3:17"
    ),
    "another monitor's word": Wrong(
        "@avh {period: 7}", ("@avh has no setting 'period'", "two_distribution")
    ),
    "a word that no comparison of columns has": Wrong(
        "@schema {window: 3}", ("@schema has no setting 'window'", "it has allow")
    ),
    "count of nothing": Wrong("@avh {max_clauses: 0}", ("a whole number of at least 1, not 0",)),
    "no flag": Wrong("@avh {stationarity: 3}", ("'stationarity' of @avh must be true or false",)),
    "unknown bounds": Wrong("@avh(bounds => 'loose')", ("'calibrated' or 'paper', not 'loose'",)),
    "history too short": Wrong("@avh(min_history => 2)", ("at least 3, not 2",)),
    "rate is null": Wrong("@avh(fpr => null)", ("between 0 and 1, not None",)),
    "unknown word in config": Wrong(
        "@avh",
        ("@avh has no setting 'fprr', as config(avh = ..) says", "did you mean 'fpr'?"),
        config="batch_by = 'day', avh = {'fprr': 0.1}",
        place="checks/m.sql:1:1",
    ),
    "bad value in config": Wrong(
        "@avh",
        ("'window' of config(avh = ..) must be a whole number of at least 3, not 1",),
        config="batch_by = 'day', avh = {'window': 1}",
        place="checks/m.sql:1:1",
    ),
    "config is a number": Wrong(
        "@avh",
        ("config(avh = ..) must be true or a mapping of settings, not 3",),
        config="batch_by = 'day', avh = 3",
        place="checks/m.sql:1:1",
    ),
}


def compile_model(root: Path, wrong: Wrong) -> tuple[int, str]:
    sql = f"{{{{ config({wrong.config}) }}}}\nselect day,\n    a  -- {wrong.annotation}\nfrom t\n"
    write_project(root, {"checks/m.sql": sql})
    args = ["compile", "--project-dir", str(root), "--profiles-dir", str(root)]
    result = CliRunner().invoke(cli, args)
    return result.exit_code, result.output


@pytest.mark.parametrize("name", WRONG)
def test_is_one_error_with_a_place(name: str, tmp_path: Path) -> None:
    wrong = WRONG[name]
    code, output = compile_model(tmp_path, wrong)
    assert code == 2
    assert wrong.place in output
    for words in wrong.says:
        assert words in output
    assert "errors" not in output


def test_all_settings_may_stand_in_braces_and_in_the_call(tmp_path: Path) -> None:
    braces = (
        "@avh {fpr: 0.001, bounds: paper, stationarity: false, two_distribution: false,"
        " max_clauses: 3, min_history: 7, window: 60, refit_every: 5, sample_size: 100}"
    )
    call = "@avh(fpr => 0.001, bounds => 'paper', stationarity => false, refit_every => 5)"
    for place, annotation in enumerate((braces, call)):
        code, output = compile_model(tmp_path / str(place), Wrong(annotation, ()))
        assert code == 0, output


def test_an_annotation_reaches_the_objective_of_the_paper(tmp_path: Path) -> None:
    """`evidence` was documented and refused, so nobody could have the paper's method."""
    annotation = "@pattern {evidence: impurity, r: 0.2, m: 7, theta: 0.05, vertical: false}"
    write_project(tmp_path, {"checks/m.sql": f"select\n    a  -- {annotation}\nfrom t\n"})
    compiled = compile_project(tmp_path, profiles_dir=tmp_path)
    compiled.raise_errors()
    (monitor,) = compiled.plans[0].monitors
    assert inference_settings(pattern_settings(monitor, {})) == InferenceSettings(
        evidence="impurity", r=0.2, m=7, theta=0.05, vertical=False
    )


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ("1 per wek", "did you mean 'week'?"),
        ("often", "cannot read the false-alarm budget 'often'"),
        ("0 per week", "allows no false alarm"),
        ("3", "cannot read the false-alarm budget '3'"),
    ],
)
def test_a_budget_that_cannot_be_read_has_its_line(budget: str, says: str, tmp_path: Path) -> None:
    yml = PROJECT_YML.replace("1 per month", budget)
    write_project(tmp_path, {"checks/m.sql": "select 1 as a", "dqsql_project.yml": yml})
    args = ["compile", "--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "dqsql_project.yml:4:1" in result.output
    assert says in result.output


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("{fprr: 0.1}", "@avh has no setting 'fprr', as the project's 'avh' says"),
        ("{fpr: 2}", "'fpr' of the project's 'avh' must be a number between 0 and 1, not 2"),
        ("true", "'avh' must be a mapping of settings, not True"),
    ],
)
def test_settings_for_the_whole_project_are_checked_too(
    setting: str, says: str, tmp_path: Path
) -> None:
    yml = PROJECT_YML + f"avh: {setting}\n"
    write_project(tmp_path, {"checks/m.sql": "select 1 as a", "dqsql_project.yml": yml})
    args = ["compile", "--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "dqsql_project.yml:5:1" in result.output
    assert says in result.output


@pytest.mark.parametrize(
    ("annotation", "config", "metric"),
    [
        ("@novelty", "", "most_frequent_ratio"),
        ("@novelty(mode => 'paper')", "", "most_frequent_share"),
        ("@novelty {mode: paper}", "", "most_frequent_share"),
        ("@novelty", ", novelty = {'mode': 'paper'}", "most_frequent_share"),
    ],
)
def test_the_papers_mode_watches_the_papers_metrics(
    tmp_path: Path, annotation: str, config: str, metric: str
) -> None:
    model = f"{{{{ config(batch_by = 'day'{config}) }}}}\nselect 1 as day, 2 as a\n-- {annotation}"
    write_project(tmp_path, {"checks/m.sql": model})
    (plan,) = compile_project(tmp_path, profiles_dir=tmp_path).plans
    (monitor,) = plan.monitors
    watched = {plan.metric(alias).name for alias in monitor.metrics}
    assert {name for name in watched if name.startswith("most_frequent")} == {metric}
    assert {"completeness", "approx_count_distinct", "mean", "index_of_peculiarity"} <= watched


def test_annotations_take_the_settings_that_monitors_have() -> None:
    """Loading, which is below the monitors, is told of them; what else it takes is no monitor's."""
    settings = [spec.settings for spec in monitor_specs().values()]
    taken = monitor_options() | CHECK_SETTINGS
    assert taken.issuperset(name for known in settings for name in known)
    others = monitor_options().difference(*settings)
    assert others == {"limit", "period", "threshold"}


def noted(folder: Path, annotation: str, config: str = "") -> tuple[str, ...]:
    model = (
        f"{{{{ config(batch_by = 'day'{config}) }}}}\nselect 1 as day,\n 2 as a, -- {annotation}\n"
    )
    write_project(folder, {"checks/m.sql": model + f" 3 as b -- {annotation}"})
    (plan,) = compile_project(folder, profiles_dir=folder).plans
    return plan.notes


def test_a_rate_that_no_history_can_promise_is_told(tmp_path: Path) -> None:
    (told,) = noted(tmp_path, "@avh(fpr => 0.001)")
    assert told.startswith(
        "@avh of a, b: fpr 0.001 is less than a history of 30 batches can promise (0.0097): good"
    )
    assert told.endswith("{window: 299}")
    assert noted(tmp_path, "@avh", ", avh = {'fpr': 0.001}") == (told,)
    for kept in ("@avh", "@avh(fpr => 0.01)", "@avh {fpr: 0.001, window: 299}"):
        assert noted(tmp_path, kept) == ()
    assert noted(tmp_path, "@avh", ", avh = {'fpr': 2}") == ()


CONFIG = """\
{{{{ config(batch_by = 'd', segment_by = ['s'], {config}) }}}}
select d, s,
    a, -- @anomaly(mean) @not_null @stays_unique
    b  -- @anomaly(max) {{window: 40}}
from (select id % 7 as d, 'x' as s, id as a, id as b from range(70))
"""


@pytest.mark.parametrize(
    ("config", "says", "wrong"),
    [
        (
            "anomaly = {'segments': 'x', 'fprr': 1}",
            "config(anomaly = ..)",
            {"anomaly_mean", "anomaly_max", "config_anomaly_eq_fprr"},
        ),
        # One of the two has a window of its own.
        ("anomaly = {'window': 'x'}", "whole number of at least 1, not 'x'", {"anomaly_mean"}),
        # What is wrong in the config of a kind that the model does not use is told, too.
        (
            "row_anomalies = {'contamination': 7}",
            "'contamination' of config(row_anomalies = ..) must be",
            {"config_row_anomalies_eq_contamination"},
        ),
        # Right by itself, and wrong with what an annotation says.
        ("anomaly = {'min_history': 50}", "min_history", {"anomaly_max"}),
    ],
)
def test_a_wrong_word_of_the_config_stops_the_monitors_that_it_is_about(
    config: str, says: str, wrong: set[str], tmp_path: Path, spark: SparkSession
) -> None:
    write_project(tmp_path, {"checks/m.sql": CONFIG.format(config=config)})
    (model,) = dqsql.run(tmp_path, spark=spark, profiles_dir=tmp_path).models
    assert model.error is not None and says in str(model.error)
    found = {(r.check_id.rpartition(".")[2], r.status.value) for r in model.results}
    assert {name for name, status in found if status == "error"} == wrong
    assert ("not_null", "pass") in found and ("stays_unique", "skipped") in found
    assert model.batches
