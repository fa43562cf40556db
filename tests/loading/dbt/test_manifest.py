"""Manifests that are missing, old, stale or damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dqsql.errors import DqsqlError
from dqsql.loading import load_project
from tests.loading.dbt.manifests import adopted, change, models


def test_a_missing_manifest(shop: Path) -> None:
    (shop / "target" / "manifest.json").unlink()
    with pytest.raises(DqsqlError, match=r"there is no target/manifest.json") as caught:
        load_project(shop)
    assert "dbt parse" in str(caught.value.hint)


@pytest.mark.parametrize("version", [10, 11])
def test_older_manifests(shop: Path, version: int) -> None:
    """What dbt 1.6 and 1.7 wrote: `tests` for `data_tests`, freshness beside the configuration."""
    newest = load_project(shop, dbt_tests=True)

    def older(manifest: dict[str, Any]) -> None:
        schema = f"https://schemas.getdbt.com/dbt/manifest/v{version}.json"
        manifest["metadata"]["dbt_schema_version"] = schema
        manifest["metrics"], manifest["semantic_models"] = {}, {}
        if version == 10:
            manifest.pop("groups")
            for node in manifest["nodes"].values():
                node.pop("group", None)
        for key in ("unit_tests", "saved_queries"):
            manifest.pop(key, None)
        for source in manifest["sources"].values():
            source["config"] = {"enabled": True}

    change(shop, older)
    project = load_project(shop, dbt_tests=True)
    assert [m.name for m in project.models] == [m.name for m in newest.models]
    assert adopted(project) == adopted(newest)
    assert project.left_tests == newest.left_tests


def test_nulls_in_place_of_what_is_empty(shop: Path) -> None:
    """dbt 2 writes null where dbt 1 writes an empty mapping or list, or nothing."""
    before = load_project(shop, dbt_tests=True)

    def nulled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: nulled(v) for key, v in value.items()} or None
        return [nulled(v) for v in value] or None if isinstance(value, list) else value

    def change_all(manifest: dict[str, Any]) -> None:
        optional = ("meta", "tags", "description", "group", "columns", "version", "patch_path")
        for kind in ("nodes", "sources"):
            manifest[kind] = {
                uid: {**dict.fromkeys(optional), **nulled(node)}
                for uid, node in manifest[kind].items()
            }
        manifest["groups"] = nulled(manifest["groups"])
        manifest["disabled"] = nulled(manifest["disabled"])

    change(shop, change_all)
    project = load_project(shop, dbt_tests=True)
    assert [m.name for m in project.models] == [m.name for m in before.models]
    assert adopted(project) == adopted(before)
    assert project.left_tests == before.left_tests


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is not a manifest of dbt"),
        ('{"metadata": {"dbt_schema_version": "x/manifest/v7.json"}}', "(?s)10 to 12.*dbt 1.6"),
        ('{"metadata": {"dbt_schema_version": "x/manifest/v20.json"}}', "(?s)10 to 12.*version 12"),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "other"}}',
            "belongs to the project 'other'",
        ),
        ('{"metadata": {"dbt_schema_version": "x/manifest/v' + "1" * 5000 + '.json"}}', "10 to 12"),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "shop"},'
            ' "sources": {"source.shop.a.b": {"unique_id": "source.shop.a.b", "name": "b",'
            ' "resource_type": "source"}}}',
            "not a manifest of dbt: .*source_name",
        ),
        (
            '{"metadata": {"dbt_schema_version": "x/manifest/v12.json", "project_name": "shop"},'
            ' "nodes": {"model.shop.a": {"unique_id": "model.shop.b", "resource_type": "model",'
            ' "name": "a"}}}',
            "not a manifest of dbt: nodes: 'model.shop.a' is called 'model.shop.b'",
        ),
    ],
)
def test_manifests_that_cannot_be_used(shop: Path, content: str, message: str) -> None:
    (shop / "target" / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(DqsqlError, match=message):
        load_project(shop)


@pytest.mark.parametrize("seen", [str.strip, lambda text: " ".join(text.split()), str])
def test_a_manifest_is_as_new_as_its_files(shop: Path, seen: Callable[[str], str]) -> None:
    """By dbt's checksums up to 1.11, of 1.12, and of a whole file."""
    file = shop / "target/manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    assert not load_project(shop).warnings
    for node in manifest["nodes"].values():
        if node["resource_type"] == "model":
            text = (shop / node["original_file_path"]).read_text("utf-8")
            node["checksum"]["checksum"] = hashlib.sha256(seen(text).encode()).hexdigest()
    file.write_text(json.dumps(manifest), "utf-8")
    assert not load_project(shop).warnings


def test_a_stale_manifest_is_said(shop: Path) -> None:
    orders = shop / "models/marts/orders.sql"
    orders.write_text(orders.read_text(encoding="utf-8") + "\n-- @row_count > 1\n", "utf-8")
    (shop / "models/new.sql").write_text("select 1 as a", encoding="utf-8")
    (shop / "tests/generic").mkdir()
    for test in ("tests/new.sql", "tests/generic/even.sql"):
        (shop / test).write_text("select 1 as a where false", encoding="utf-8")
    (shop / "models/marts/payments.sql").unlink()
    project = load_project(shop)
    (warning,) = project.warnings
    assert "models/marts/orders.sql has changed" in warning
    assert "models/new.sql is new" in warning
    assert "generic" not in warning and warning.endswith(" (or `dbt build`)")
    assert "models/marts/payments.sql is gone" in warning
    assert "dbt parse" in warning
    # Annotations are those of the file as it is now.
    found = [a.expression for a in models(project)["orders"].annotations]
    assert "row_count > 1" in found


def test_the_target_of_the_environment_is_that_of_dbt(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_TARGET", "nowhere")
    with pytest.raises(DqsqlError, match="has no target 'nowhere'"):
        load_project(shop)
    monkeypatch.delenv("DBT_TARGET")
    monkeypatch.setenv("DBT_PROFILE", "nobody")
    with pytest.raises(DqsqlError, match="no profile 'nobody'"):
        load_project(shop)
