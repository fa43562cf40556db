"""Profiles in dbt's form."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dqsql.errors import DqsqlError, ProfileError
from dqsql.loading import load_project
from dqsql.model.project import Target
from dqsql.report.errors import error_record, print_error
from dqsql.report.terminal import Terminal
from dqsql.runner.warnings import project_warnings

Write = Callable[[Mapping[str, str]], Path]


def target_of(write: Write, output: str, **options: str) -> Target:
    text = f"shop:\n  target: dev\n  outputs:\n    dev: {{type: spark, {output}}}\n"
    return load_project(write({"profiles.yml": text}), **options).target  # type: ignore[arg-type]


def test_session(write: Write) -> None:
    target = target_of(
        write,
        "method: session, host: NA, schema: q, threads: '4', master: 'local[2]', "
        "table_format: delta, server_side_parameters: {spark.sql.ansi.enabled: true, a.b: 1}",
    )
    assert (target.method, target.schema, target.threads) == ("session", "q", 4)
    assert (target.master, target.table_format) == ("local[2]", "delta")
    assert target.spark_conf == {"spark.sql.ansi.enabled": "true", "a.b": "1"}
    assert target.ansi
    assert target.warehouse is not None and target.warehouse.endswith("/project/warehouse")


@pytest.mark.parametrize(
    ("output", "url"),
    [
        ("method: connect, url: 'sc://h:1'", "sc://h:1"),
        ("method: connect, host: h", "sc://h:15002"),
        (
            "method: connect, host: h, port: 9, token: t, use_ssl: true",
            "sc://h:9/;token=t;use_ssl=true",
        ),
        ("method: thrift, host: h, port: 10000, dqsql: {method: connect, url: 'sc://c'}", "sc://c"),
    ],
)
def test_connect(write: Write, output: str, url: str) -> None:
    target = target_of(write, output)
    assert (target.method, target.url) == ("connect", url)


@pytest.mark.parametrize("name", ["warehouse", "schema"])
@pytest.mark.parametrize("given", ["''", "'  '", "\"{{ env_var('DQ_NOWHERE', '') }}\""])
def test_an_empty_place_is_not_the_default(write: Write, given: str, name: str) -> None:
    """A variable that is empty would begin a new history elsewhere."""
    with pytest.raises(ProfileError, match=f"{name} is empty") as caught:
        target_of(write, f"{name}: {given}")
    assert caught.value.hint is not None and "leave it out" in caught.value.hint


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_another_time_zone_is_not_overridden_without_a_word(write: Write, zone: str) -> None:
    conf = f"spark_conf: {{spark.sql.session.timeZone: {zone}}}"
    text = f"shop:\n  target: dev\n  outputs:\n    dev: {{type: spark, {conf}}}\n"
    said = [w for w in project_warnings(load_project(write({"profiles.yml": text}))) if zone in w]
    assert len(said) == (zone != "UTC")


def test_tables_live_in_a_catalog_where_their_format_is_named(write: Write) -> None:
    found = target_of(write, "catalog: hive, table_format: delta").spark_conf
    assert "/project/metastore_db" in found["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert found["spark.sql.warehouse.dir"].endswith("/project/spark-warehouse")
    for catalog in ("catalog: hive", "spark_conf: {spark.sql.catalog.x: y}"):
        assert str(target_of(write, catalog).warehouse).endswith("/project/warehouse")
        assert target_of(write, f"{catalog}, table_format: iceberg").warehouse is None
    connect = "method: connect, url: 'sc://h:1'"
    assert str(target_of(write, connect).warehouse).endswith("/project/warehouse")
    assert target_of(write, f"{connect}, table_format: delta").warehouse is None
    assert target_of(write, "catalog: hive, warehouse: /w, table_format: delta").warehouse == "/w"


def test_jinja_and_the_environment(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQSQL_TEST_PORT", "77")
    output = "method: connect, host: h, port: \"{{ env_var('DQSQL_TEST_PORT') | int }}\""
    assert target_of(write, output).url == "sc://h:77"


def test_where_the_file_is_looked_for(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def text(schema: str) -> str:
        return f"shop: {{target: t, outputs: {{t: {{type: spark, schema: {schema}}}}}}}"

    root = write(
        {
            "profiles.yml": text("own"),
            "given/profiles.yml": text("given"),
            "env/profiles.yml": text("env"),
            "../home/.dbt/profiles.yml": text("home"),
        }
    )
    assert load_project(root).target.schema == "own"
    monkeypatch.setenv("DBT_PROFILES_DIR", str(root / "env"))
    assert load_project(root).target.schema == "env"
    assert load_project(root, profiles_dir=root / "given").target.schema == "given"
    monkeypatch.delenv("DBT_PROFILES_DIR")
    (root / "profiles.yml").unlink()
    assert load_project(root).target.schema == "home"


def test_profiles_of_other_projects_do_not_matter(write: Write) -> None:
    root = write({"../home/.dbt/profiles.yml": "other: {outputs: {}}"})
    assert load_project(root).target.name == "local"


def test_project_settings_are_defaults(write: Write) -> None:
    root = write(
        {"dqsql_project.yml": "name: shop\nwarehouse: {path: w, format: delta, schema: s}\n"}
    )
    target = load_project(root).target
    assert (target.table_format, target.schema) == ("delta", "s")
    assert target.warehouse == str(root.resolve() / "w")


@pytest.mark.parametrize("profile", ["", "shop:\n  outputs:\n    default: {type: spark}\n"])
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("threads: -1", "dqsql_project.yml:2:1"),
        ("table-format: parket", "dqsql_project.yml:2:1"),
        ("warehouse: {format: parket}", "dqsql_project.yml:2:1"),
        ("spark_conf: {spark.x: [1]}", "dqsql_project.yml:2:1"),
    ],
)
def test_an_error_stands_in_the_file_that_has_the_setting(
    write: Write, profile: str, setting: str, place: str
) -> None:
    files = {"dqsql_project.yml": f"name: shop\n{setting}\n"}
    with pytest.raises(ProfileError) as caught:
        load_project(write({**files, **({"profiles.yml": profile} if profile else {})}))
    assert str(caught.value.span).startswith(place)


@pytest.mark.parametrize(
    ("output", "message", "place"),
    [
        ("method: sesion", "cannot use the method 'sesion'", "profiles.yml:4:24"),
        ("method: thrift", "cannot use the method 'thrift'", "profiles.yml:4:24"),
        ("type: databricks, x: 1", "appears twice", "profiles.yml:4:24"),
        ("shcema: x", "unknown key 'shcema'", "profiles.yml:4:24"),
        ("method: connect", "needs a url or a host", "profiles.yml:4:5"),
        ("method: connect, url: 'http://h'", "not a Spark Connect address", "profiles.yml:4:41"),
        ("threads: 0", "whole number of at least 1", "profiles.yml:4:24"),
        ("ansi: maybe", "true or false", "profiles.yml:4:24"),
        ("table_format: parket", "unknown table format", "profiles.yml:4:24"),
        ("table_format: parquet", "unknown table format", "profiles.yml:4:24"),
        ("table_format: iceberg", "iceberg tables need a catalog", "profiles.yml:4:24"),
        ("table_format: iceberg, warehouse: w", "keeps Delta tables", "profiles.yml:4:24"),
        ("schema: \"{{ env_var('DQSQL_NO') }}\"", "'DQSQL_NO' is not set", "profiles.yml:4:32"),
        ('schema: "{{ x"', "Jinja syntax", "profiles.yml:4:32"),
        ("dqsql: {urll: x}", "unknown key 'urll'", "profiles.yml:4:32"),
    ],
)
def test_errors_in_a_target(write: Write, output: str, message: str, place: str) -> None:
    with pytest.raises(ProfileError) as caught:
        target_of(write, output)
    assert message in caught.value.message
    assert str(caught.value.span) == place


def test_names_that_yaml_reads_as_truth(write: Write) -> None:
    text = "shop:\n  target: dev\n  outputs:\n    dev: {type: spark}\n    off: {type: spark}\n"
    with pytest.raises(ProfileError, match="has the key False, which is no text") as error:
        load_project(write({"profiles.yml": text}))
    assert "in quotes" in (error.value.hint or "")


def test_unknown_targets_and_profiles(write: Write) -> None:
    with pytest.raises(ProfileError, match=r"no target 'prod'(.|\n)*known targets: dev"):
        target_of(write, "schema: x", target="prod")
    with pytest.raises(ProfileError, match=r"no profile 'shp'(.|\n)*did you mean 'shop'"):
        target_of(write, "schema: x", profile="shp")


def test_without_a_profile_file(write: Write) -> None:
    root = write({})
    assert load_project(root, target="local").target.name == "local"
    with pytest.raises(ProfileError, match="no target 'prod'"):
        load_project(root, target="prod")
    with pytest.raises(ProfileError, match="could hold the profile 'x'"):
        load_project(root, profile="x")
    with pytest.raises(ProfileError, match=r"no profiles\.yml in"):
        load_project(root, profiles_dir=root)


@pytest.mark.parametrize("file", ["profiles.yml", "dqsql_project.yml"])
def test_tabs_are_no_indentation(write: Write, file: str) -> None:
    with pytest.raises(DqsqlError) as caught:
        load_project(write({file: "shop:\n\ttarget: dev\n"}))
    assert caught.value.hint == "indent by spaces: YAML takes no tabs"
    assert f"{file}:2:1" in str(caught.value)


def test_broken_yaml(write: Write) -> None:
    with pytest.raises(ProfileError, match=r"profiles\.yml:1:7: this is not valid YAML"):
        load_project(write({"profiles.yml": "shop: ]"}))


TOKEN = "dapi0123456789"


@pytest.mark.parametrize(
    "profile",
    [
        f"shop: ]{TOKEN}",
        f"shop:\n  token {TOKEN}\n  outputs: {{}}",
        f"shop: {{outputs: {{dev: {{type: spark, token {TOKEN}}}}}}}",
        f"shop: {{outputs: {{dev: {{type: spark, method: [{TOKEN}]}}}}, target: dev}}",
        f"shop: {{outputs: {{dev: {{type: spark, token: *{TOKEN}}}}}}}",
        f"shop: {{outputs: {{dev: {{type: spark, threads: {TOKEN}}}}}, target: dev}}",
        f'shop: {{outputs: {{dev: {{type: spark, token: "{TOKEN}\\q"}}}}}}',
        f"shop: {{outputs: {{dev: {{type: spark, token: '{TOKEN}{{{{ x }}}}'}}}}}}",
    ],
)
def test_no_error_of_a_profile_shows_what_it_holds(write: Write, profile: str) -> None:
    root = write({"dqsql_project.yml": "name: shop\nprofile: shop\n", "profiles.yml": profile})
    with pytest.raises(DqsqlError) as caught:
        load_project(root)
    out = io.StringIO()
    print_error(Terminal(out), caught.value, (root,))
    shown = f"{caught.value} {out.getvalue()} {error_record(caught.value)}"
    assert "profiles.yml" in shown
    assert TOKEN not in shown


def test_what_other_outputs_and_profiles_name_need_not_be_set(write: Write) -> None:
    profiles = """
other:
  target: "{{ env_var('DQSQL_NO_TARGET') }}"
  outputs: {}
shop:
  target: dev
  outputs:
    dev: {type: spark, schema: q}
    prod: {type: spark, method: connect, token: "{{ env_var('DBT_ENV_SECRET_NO') }}"}
"""
    root = write({"profiles.yml": profiles})
    assert load_project(root).target.schema == "q"
    merged = profiles.replace("prod: {", "prod: &prod {").replace(
        "dev: {", "dev: {<<: *prod, method: session, token: x, "
    )
    lines = merged.splitlines()
    lines[7], lines[8] = lines[8], lines[7]
    (root / "profiles.yml").write_text("\n".join(lines))
    assert load_project(root).target.schema == "q"
    (root / "profiles.yml").write_text(profiles)
    with pytest.raises(ProfileError, match="'DBT_ENV_SECRET_NO' is not set") as caught:
        load_project(root, target="prod")
    assert str(caught.value.span).startswith("profiles.yml:9:")
    named = profiles.replace("target: dev", "target: \"{{ env_var('DQSQL_NO') }}\"")
    (root / "profiles.yml").write_text(named)
    assert load_project(root, target="dev").target.schema == "q"
    for whole in (
        "shop: \"{{ env_var('DQSQL_NO') }}\"",
        "shop: {outputs: \"{{ env_var('DQSQL_NO') }}\"}",
    ):
        (root / "profiles.yml").write_text(whole)
        with pytest.raises(ProfileError, match="'DQSQL_NO' is not set"):
            load_project(root)
