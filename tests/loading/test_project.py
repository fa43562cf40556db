"""Whole projects, right and wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dqsql.errors import ConfigError, DqsqlError, ErrorGroup, JinjaError, LoadError, UsageError
from dqsql.loading import load_project
from dqsql.loading.settings import read_check_settings, read_model_settings
from dqsql.model.project import CheckModel, NoData, Project, Severity, models_upstream
from dqsql.model.settings import SettingProblem

Write = Callable[[Mapping[str, str]], Path]

GOOD = "select a -- @x\nfrom t\n"
SOURCES = """version: 2
sources:
  - name: nyc
    database: main
    schema: raw
    tags: [s]
    tables:
      - name: flights
        identifier: "fl`ights"
      - name: weather
        path: data/weather.csv.gz
        options: {header: true, sep: ";"}
        tags: t
  - name: plain
    tables: [{name: t}]
  - name: session
    schema: null
    tables: [{name: v}]
  - name: parts
    schema: ice.raw
    tables: [{name: v}]
  - name: dots
    schema: "`ice.raw`"
    tables: [{name: v}]
  - name: lake
    path: s3://bucket/lake
    format: delta
    tables: [{name: a, path: a}, {name: b, external: "s3://other/b"}]
"""


def test_a_whole_project(write: Write) -> None:
    root = write(
        {
            "dqsql_project.yml": (
                "name: shop\nmodel-paths: [checks]\nseverity: warn\nno_data: error\n"
                "functions: [my_udf]\nfalse_alarm_budget: 1 per week\n"
                "vars: {low: 1, shop: {high: 2}}\n"
                "models:\n  +tags: all\n  shop:\n    sales:\n      +severity: warn\n"
                "      ordres: {+owner: bob}\n"
                "      orders: {+owner: ann, +avh: {fpr: 0.1}}\n"
            ),
            "checks/sources.yml": SOURCES,
            "checks/sales/orders.sql": (
                "{{ config(tags = ['own'], batch_by = 'day', segment_by = 'a') }}\n"
                "select a -- @min > {{ var('low') }} @max < {{ var('high') }}\n"
                "from {{ source('nyc', 'flights') }} join {{ ref('b') }}\n"
            ),
            "checks/b.sql": "select *\nfrom {{ source('nyc', 'weather') }}",
            "macros/m.sql": "{% macro check_x(c) %}true{% endmacro %}",
        }
    )
    project = load_project(root, vars={"high": 9})
    assert (project.name, project.severity, project.no_data) == (
        "shop",
        Severity.WARN,
        NoData.ERROR,
    )
    assert project.warnings == (
        "dqsql_project.yml: the settings of models.sales.ordres match no check model",
    )
    assert project.functions == ("my_udf",)
    assert project.settings == {"false_alarm_budget": "1 per week"}
    assert project.vars == {"low": 1, "high": 9}
    assert project.macros[-1].path == "macros/m.sql"
    assert (project.target.name, project.target.method) == ("local", "session")
    assert project.target.warehouse == str(root.resolve() / "warehouse")
    other, orders = project.models
    assert other.columns is None
    assert orders.path == "checks/sales/orders.sql"
    assert orders.config.tags == ("all", "own")
    assert orders.config.segment_by == ("a",)
    assert orders.config.severity is Severity.WARN
    assert (orders.config.owner, orders.config.extra) == ("ann", {"avh": {"fpr": 0.1}})
    assert [a.expression for a in orders.annotations] == ["min > 1", "max < 9"]
    assert [a.span.line for a in orders.annotations] == [2, 2]
    assert orders.depends_on == ("source.nyc.flights", "model.b")
    assert "from `main`.`raw`.`fl``ights` join `dqsql__b`" in orders.sql


def test_sources(write: Write) -> None:
    root = write({"sources.yml": SOURCES}).resolve()
    found = {f"{s.name}.{s.table}": s for s in load_project(root).sources}
    assert {name: s.relation for name, s in found.items()} == {
        "nyc.flights": "`main`.`raw`.`fl``ights`",
        "nyc.weather": "`dqsql_source__nyc__weather`",
        "plain.t": "`plain`.`t`",
        "session.v": "`v`",
        "parts.v": "`ice`.`raw`.`v`",
        "dots.v": "`ice.raw`.`v`",
        "lake.a": "`dqsql_source__lake__a`",
        "lake.b": "`dqsql_source__lake__b`",
    }
    weather = found["nyc.weather"]
    assert (weather.path, weather.file_format) == (str(root / "data/weather.csv.gz"), "csv")
    assert weather.options == {"header": "true", "sep": ";"}
    assert weather.tags == ("s", "t")
    assert (found["lake.a"].path, found["lake.a"].file_format) == ("s3://bucket/lake/a", "delta")
    assert found["lake.b"].path == "s3://other/b"
    assert str(found["nyc.flights"].span) == "sources.yml:8:9"


def test_the_format_of_a_folder_is_that_of_its_files(write: Write) -> None:
    names = ("events/_SUCCESS", "events/day=1/a.json.gz", "logs/x.tsv", "bare/part-0", "a.v1.csv/p")
    tables = ("events", "logs", "bare", "a.v1.csv", "gone", "logs/x.tsv")
    yml = "\n".join(f"      - {{name: {t}, path: {t}}}" for t in tables)
    files = dict.fromkeys((f"data/{n}" for n in names), "")
    root = write(
        {**files, "sources.yml": f"sources:\n  - name: s\n    path: data\n    tables:\n{yml}"}
    )
    found = {s.table: s for s in load_project(root).sources}
    assert {t: s.file_format for t, s in found.items()} == {
        "events": "json",
        "logs": "csv",
        "bare": "parquet",
        "a.v1.csv": "csv",
        "gone": "parquet",
        "logs/x.tsv": "csv",
    }
    assert found["logs"].options == found["logs/x.tsv"].options == {"sep": "\t"}


def model_of(project: Project, name: str) -> CheckModel:
    return next(m for m in project.models if m.name == name)


def test_a_disabled_model_is_not_looked_at(write: Write) -> None:
    root = write(
        {"checks/a.sql": "{{ config(enabled = false) }} select -- @broken ((", "checks/b.sql": GOOD}
    )
    project = load_project(root)
    assert not model_of(project, "a").config.enabled
    assert model_of(project, "a").annotations == ()


@pytest.mark.parametrize(
    ("files", "message", "place"),
    [
        (
            {"dqsql_project.yml": "name: a\nmodel-path: [x]"},
            "unknown key 'model-path'",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nretention: 30"},
            "unknown key 'retention'",
            "dqsql_project.yml:2:1",
        ),
        ({"dqsql_project.yml": "name: a\nvars: [1"}, "YAML:", "dqsql_project.yml:2:9"),
        (
            {"dqsql_project.yml": "name: a\nname: b"},
            "the key 'name' appears twice",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nvars: {d: 2024-99-99}"},
            "YAML: month must be in 1..12",
            "dqsql_project.yml:2:11",
        ),
        (
            {"dqsql_project.yml": "name: a\non_finding: [{slak: X}]"},
            "route 1 of 'on_finding' has an unknown key 'slak'",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\non_finding: [{email: a@b.c}, {slack: 'https://x'}]"},
            "route 2 of 'on_finding': slack must name the environment variable",
            "dqsql_project.yml:2:1",
        ),
        ({"dqsql_project.yml": "version: 1"}, "has no name", "dqsql_project.yml:1:1"),
        ({"dqsql_project.yml": "name: a-b"}, "not usable", "dqsql_project.yml:1:1"),
        ({"dqsql_project.yml": "- a"}, "must hold a mapping", "dqsql_project.yml:1:1"),
        (
            {"dqsql_project.yml": "name: a\nseverity: wran"},
            "must be 'warn' or 'error'",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nbegin: yesterday"},
            "'begin' must be a date (2013-02-08), a timestamp (2013-02-08T06:00) or a number",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nopenlineage: {url: 3}"},
            "the url 3 of openlineage is none",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nmacro-paths: [nosuch]"},
            "the folder 'nosuch' of macros does not exist",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nsource_paths: [x.yml]"},
            "the folder 'x.yml' of sources does not exist",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nreport_url: quality.html"},
            "'report_url' must be an address such as https://",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nmodel-paths: 3"},
            "text or a list",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nmodel-paths: [x]"},
            "folder 'x' of check models",
            "dqsql_project.yml:2:1",
        ),
        (
            {"dqsql_project.yml": "name: a\nmodels:\n  x:\n    +tagz: y"},
            "unknown setting 'tagz'",
            "dqsql_project.yml:4:5",
        ),
        (
            {"dqsql_project.yml": "name: \"{{ env_var('DQSQL_NO') }}\""},
            "'DQSQL_NO' is not set",
            "dqsql_project.yml:1:7",
        ),
        (
            {"checks/s.yml": "sources:\n  - name: a\n    tabels: []"},
            "unknown key 'tabels'",
            "checks/s.yml:3:5",
        ),
        ({"checks/s.yml": "models: []"}, "cannot be configured in YAML", "checks/s.yml:1:1"),
        (
            {"checks/s.yml": "sources: [{name: a, tables: [{name: b, format: cvs, path: x}]}]"},
            "unknown file format",
            "checks/s.yml:1:40",
        ),
        (
            {"checks/s.yml": "sources: [{name: a, path: p, tables: [{name: b}, {name: c}]}]"},
            "all be the same file",
            "checks/s.yml:1:39",
        ),
        (
            {"checks/s.yml": "sources: [{name: a, tables: [{name: b}, {name: b}]}]"},
            "declared twice",
            "checks/s.yml:1:42",
        ),
        ({"checks/a.sql": "\n"}, "the file is empty", "checks/a.sql:1:1"),
        (
            {"checks/a.sql": GOOD, "checks/x/A.sql": GOOD},
            "two check models are called 'a' or 'A': checks/a.sql and checks/x/A.sql",
            "checks/x/A.sql:1:1",
        ),
        (
            {"checks/a.sql": "{{ config(\n  batch_by = 'a',\n  batch_by = 'b') }} select 1 as a"},
            "Jinja syntax: keyword argument repeated: batch_by",
            "checks/a.sql:3:3",
        ),
        (
            {"checks/a.sql": GOOD, "checks/x/a.sql": GOOD},
            "two check models are called 'a'",
            "checks/x/a.sql:1:1",
        ),
        (
            {
                "checks/a.sql": "select a\nfrom {{ ref('b') }}",
                "checks/b.sql": "select a from {{ ref('a') }}",
            },
            "in a circle: a -> b -> a",
            "checks/a.sql:2:9",
        ),
        (
            {"checks/a.sql": "select a from {{ ref('a') }}"},
            "in a circle: a -> a",
            "checks/a.sql:1:18",
        ),
        (
            {"checks/a(b.sql": "select a from {{ ref('a(b') }}"},
            "in a circle: a(b -> a(b",
            "checks/a(b.sql:1:18",
        ),
        (
            {"checks/a.sql": "{{ config(**{'a(b': 1}) }}\nselect 1 as a"},
            "unknown setting 'a(b'",
            "checks/a.sql:1:15",
        ),
        (
            {"checks/a.sql": "select a\n from {{ ref('bb') }}"},
            "there is no check model 'bb'",
            "checks/a.sql:2:10",
        ),
        (
            {"checks/a.sql": "select a\n from {{ source('n', 'x') }}"},
            "there is no source 'n'",
            "checks/a.sql:2:10",
        ),
        (
            {"checks/a.sql": "select {{ var('x') }}"},
            "variable 'x' is not defined",
            "checks/a.sql:1:11",
        ),
        ({"checks/a.sql": "select {{ nope }}"}, "'nope' is undefined", "checks/a.sql:1:11"),
        (
            {"checks/a.sql": "select {{ source('a') }}"},
            "Jinja: source() missing 1 required",
            "checks/a.sql:1:1",
        ),
        ({"checks/a.sql": "select a {% if %}"}, "Jinja syntax", "checks/a.sql:1:10"),
        (
            {"checks/a.sql": "{{ config(\n  tagz = 'x') }} select 1 as a"},
            "unknown setting 'tagz'",
            "checks/a.sql:2:3",
        ),
        (
            {"checks/a.sql": "{{ config(enabled = 3) }} select 1 as a"},
            "'enabled' must be true or false",
            "checks/a.sql:1:11",
        ),
        (
            {"checks/a.sql": "{# x #}\nselect a,, b from t"},
            "a column is missing",
            "checks/a.sql:2:10",
        ),
        (
            {
                "macros/a.sql": "{% macro x() %}{% endmacro %}",
                "macros/b.sql": "{% macro x() %}{% endmacro %}",
            },
            "defined twice",
            "macros/b.sql:1:1",
        ),
        (
            {
                "macros/a.sql": "{% macro a() %}\n{{ b() }}{% endmacro %}"
                "{% macro b() %}{{ a() }}{% endmacro %}",
                "checks/a.sql": "{{ a() }}",
            },
            "circular macro a -> b -> a",
            "macros/a.sql:1:1",
        ),
        (
            {"macros/a.sql": "{% macro a(x) %}{% endmacro %}", "checks/a.sql": "\n {{ a() }}"},
            "needs 'x'",
            "checks/a.sql:2:1",
        ),
    ],
)
def test_one_clear_error(write: Write, files: dict[str, str], message: str, place: str) -> None:
    with pytest.raises(DqsqlError) as caught:
        load_project(write(files))
    assert not isinstance(caught.value, ErrorGroup)
    assert message in caught.value.message
    assert str(caught.value.span) == place


def test_hints_name_the_nearest(write: Write) -> None:
    root = write(
        {
            "sources.yml": "sources: [{name: nyc, tables: [{name: flights}]}]",
            "checks/a.sql": "select a from {{ source('nyc', 'flihgts') }}",
            "checks/b.sql": "select a from {{ source('ncy', 'flights') }}",
            "checks/orders.sql": "select a from {{ ref('oders') }}",
        }
    )
    with pytest.raises(ErrorGroup) as caught:
        load_project(root)
    hints = [error.hint for error in caught.value.errors]
    assert hints == [f"did you mean '{n}'?" for n in ("flights", "nyc", "orders")]


@pytest.mark.parametrize(
    ("file", "text", "places"),
    [
        (
            "checks/a.sql",
            "{{ config(\n  tagz = 'x',\n  enabled = 3,\n  owner = 'me') }} select 1 as a",
            ["checks/a.sql:2:3", "checks/a.sql:3:3"],
        ),
        (
            "dqsql_project.yml",
            "name: shop\nmodels:\n  +tagz: x\n  +owner: me\n  +enabled: 3\n",
            ["dqsql_project.yml:3:3", "dqsql_project.yml:5:3"],
        ),
    ],
)
def test_all_wrong_settings_of_a_model_or_folder_come_together(
    write: Write, file: str, text: str, places: list[str]
) -> None:
    with pytest.raises(ErrorGroup) as caught:
        load_project(write({"checks/a.sql": GOOD, file: text}))
    assert [str(e.span) for e in caught.value.errors] == places


def test_an_unknown_setting_is_told_all_that_there_are() -> None:
    _, (problem,) = read_model_settings({"zzz": "red"})
    listed = str(problem.hint).removeprefix("known settings: ").split(", ")
    assert {"batch_by", "avh", "begin", "lookback", "scan_budget", "store_failures"} < {*listed}
    with pytest.raises(SettingProblem, match="unknown setting") as caught:
        read_check_settings({"zzz": "red"})
    assert "segments" in str(caught.value.hint) and "direction" not in str(caught.value.hint)


def test_a_model_keeps_what_its_folders_say_of_privacy_tags_and_monitors(write: Write) -> None:
    root = write(
        {
            "dqsql_project.yml": "name: p\nmodels:\n  +pii: [s]\n  +tags: [all]\n"
            "  +meta: {team: a, tier: 1}\n  +anomaly: {window: 30, min_history: 5}\n",
            "checks/a.sql": "{{ config(pii = ['k', 's'], tags = 'own', meta = {'tier': 2},"
            " anomaly = {'fpr': 0.2, 'window': 9}) }}\nselect k, s from t",
            "checks/b.sql": "{{ config(anomaly = {}) }}\nselect k, s from t",
        }
    )
    first, second = load_project(root).models
    assert (first.config.pii, first.config.tags) == (("s", "k"), ("all", "own"))
    assert first.config.extra["anomaly"] == {"window": 9, "min_history": 5, "fpr": 0.2}
    assert first.config.extra["meta"] == {"team": "a", "tier": 2}
    assert (second.config.pii, second.config.tags) == (("s",), ("all",))
    assert second.config.extra["anomaly"] == {"window": 30, "min_history": 5}


def test_all_errors_of_all_models_come_together(write: Write) -> None:
    root = write(
        {
            "checks/a.sql": "select a -- @x {sevrity: warn}\n, b -- @(\n from t",
            "checks/b.sql": "select a, from t",
            "checks/c.sql": GOOD,
        }
    )
    with pytest.raises(ErrorGroup) as caught:
        load_project(root)
    assert [str(e.span) for e in caught.value.errors] == [
        "checks/a.sql:1:17",
        "checks/a.sql:2:8",
        "checks/b.sql:1:11",
    ]


def test_a_file_that_is_not_utf8(write: Write) -> None:
    root = write({"checks/a.sql": GOOD})
    (root / "checks/a.sql").write_bytes(b"select a\n, '\xff' b from t")
    with pytest.raises(LoadError, match=r"a\.sql:2:4: the file is not UTF-8"):
        load_project(root)


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no dqsql_project\.yml"):
        load_project(tmp_path)


def test_the_project_file_may_use_its_variables_and_the_target(write: Write) -> None:
    root = write(
        {
            "dqsql_project.yml": "name: shop\nvars: {strict: warn}\n"
            "severity: \"{{ var('strict') }}\"\n"
            'schema: "dq_{{ target.name }}"\nmodels:\n'
            "  +enabled: \"{{ {'dev': false, 'prod': true}[target.name] }}\"\n",
            "profiles.yml": "shop:\n  target: dev\n  outputs:\n    dev: {type: spark}\n"
            "    prod: {type: spark}\n",
            "checks/m.sql": "select a from t",
        }
    )
    for name, enabled in (("dev", False), ("prod", True)):
        project = load_project(root, target=name)
        assert (project.severity, project.target.schema) == (Severity.WARN, f"dq_{name}")
        assert [m.config.enabled for m in project.models] == [enabled]
    assert load_project(root, vars={"strict": "error"}).severity is Severity.ERROR
    with pytest.raises(ConfigError, match="no target 'staging'"):
        load_project(root, target="staging")


def test_vars_of_the_command_line(write: Write) -> None:
    root = write({"checks/a.sql": "select {{ var('x') }} as a"})
    assert load_project(root, vars="{x: 5}").models[0].sql == "select 5 as a"
    with pytest.raises(UsageError, match="must be a mapping"):
        load_project(root, vars="x")
    with pytest.raises(UsageError, match="not YAML"):
        load_project(root, vars="{x")
    with pytest.raises(JinjaError, match="'x' is not defined"):
        load_project(root)


def test_macros_can_call_ref_and_source(write: Write) -> None:
    root = write(
        {
            "macros/m.sql": "{% macro base() %}{{ ref('b') }}{% endmacro %}",
            "checks/a.sql": "select x from {{ base() }}",
            "checks/b.sql": GOOD,
        }
    )
    model = {m.name: m for m in load_project(root).models}["a"]
    assert model.depends_on == ("model.b",)
    assert model.sql == "select x from `dqsql__b`"


def test_relations_of_annotations_keep_the_names_that_people_wrote(write: Write) -> None:
    file = "{name: f, path: f.csv, format: csv}"
    sources = f"sources: [{{name: s, tables: [{file}, {{name: t}}]}}]"
    checks = "@references({{ source('s', 'f') }}, k) @references({{ ref('b') }}, k)"
    more = "@references({{ source('s', 't') }}, k)"
    files = {
        "checks/a.sql": f"select k -- {checks} {more}\nfrom x",
        "checks/b.sql": "select k from y",
    }
    project = load_project(write({"checks/sources.yml": sources, **files}))
    assert [a.expression for m in project.models for a in m.annotations] == [
        "references(source('s', 'f'), k)",
        "references(ref('b'), k)",
        "references(source('s', 't'), k)",
    ]


def test_a_relation_whose_name_ends_like_another(write: Write) -> None:
    tables = (
        "{name: a, schema: db, tables: [{name: t}]}, {name: b, schema: cat.db, tables: [{name: t}]}"
    )
    checks = "@references({{ source('b', 't') }}, k) @references({{ source('a', 't') }}, k)"
    files = {
        "checks/s.yml": f"sources: [{tables}]",
        "checks/a.sql": f"select k -- {checks}\nfrom x",
    }
    (model,) = load_project(write(files)).models
    assert [a.expression for a in model.annotations] == [
        "references(source('b', 't'), k)",
        "references(source('a', 't'), k)",
    ]


def test_a_circle_breaks_the_models_in_it_only(write: Write) -> None:
    files = {
        "checks/a.sql": "select x -- @not_null\nfrom {{ ref('b') }}",
        "checks/b.sql": "select x from {{ ref('a') }}",
        "checks/c.sql": "select x from {{ ref('c') }}",
        "checks/d.sql": "select x -- @not_null\nfrom t",
    }
    project = load_project(write(files), strict=False)
    assert {
        name: [e.message.rpartition(": ")[2] for e in errors]
        for name, errors in project.broken.items()
    } == {"a": ["a -> b -> a"], "b": ["a -> b -> a"], "c": ["c -> c"]}
    assert [len(m.annotations) for m in project.models] == [0, 0, 0, 1]


def test_crlf_and_bom(write: Write) -> None:
    root = write({"checks/a.sql": GOOD})
    (root / "checks/a.sql").write_bytes(
        b"\xef\xbb\xbfselect a, -- @x\r\n b -- @y {severity: warn}\r\nfrom t\r\n"
    )
    annotations = load_project(root).models[0].annotations
    assert [(a.column, a.expression) for a in annotations] == [("a", "x"), ("b", "y")]


def test_models_stand_behind_those_that_they_read(write: Write) -> None:
    root = write(
        {
            "checks/a.sql": "select x from {{ ref('c') }}",
            "checks/b.sql": "select 1 as x",
            "checks/c.sql": "select x from {{ ref('d') }} join {{ ref('b') }} using (x)",
            "checks/d.sql": "select 1 as x",
        }
    )
    project = load_project(root)
    assert [model.name for model in project.models] == ["b", "d", "c", "a"]
    assert models_upstream(project.models)["a"] == {"b", "c", "d"}
