"""Makes `manifest.json` and `verdicts.json` of the project here, from a run of dbt.

    python make_fixture.py FOLDER

FOLDER is a copy of `project/` in which `dbt seed`, `dbt run` and `dbt test` have run. What dqsql
does not read is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = (
    *("alias", "attached_node", "checksum", "column_name", "columns", "config", "depends_on"),
    *("description", "file_key_name", "fqn", "freshness", "group", "identifier", "language"),
    *("loaded_at_field", "meta", "name", "original_file_path", "package_name", "patch_path"),
    *("relation_name", "resource_type", "source_name", "tags", "test_metadata", "unique_id"),
    *("version", "compiled_code"),
)


def slim(value: Any) -> Any:
    """A value without what is null or empty inside its mappings."""
    if isinstance(value, dict):
        return {k: slim(v) for k, v in value.items() if v not in (None, {}, [], "")}
    return [slim(v) for v in value] if isinstance(value, list) else value


def node(data: dict[str, Any]) -> dict[str, Any]:
    """The parts of a node that dqsql reads; models keep what dbt made of their SQL."""
    kept = {k: v for k, v in data.items() if k in KEPT}
    if data["resource_type"] != "model":
        kept.pop("compiled_code", None)
    if data["resource_type"] == "test" and not data.get("test_metadata"):
        kept["raw_code"] = data["raw_code"]
    found: dict[str, Any] = slim(kept)
    return found


def main(folder: Path) -> None:
    """Write the two files."""
    manifest = json.loads((folder / "target/manifest.json").read_text(encoding="utf-8"))
    results = json.loads((folder / "target/run_results.json").read_text(encoding="utf-8"))
    metadata = {k: manifest["metadata"][k] for k in ("dbt_schema_version", "project_name")}
    small = {
        "metadata": {**metadata, "generated_at": manifest["metadata"]["generated_at"]},
        "nodes": {uid: node(n) for uid, n in manifest["nodes"].items()},
        "sources": {uid: node(n) for uid, n in manifest["sources"].items()},
        "groups": slim(manifest["groups"]),
        "macros": {uid: {} for uid in manifest["macros"] if not uid.startswith("macro.dbt")},
        "disabled": {uid: [node(n) for n in ns] for uid, ns in manifest["disabled"].items()},
    }
    for uid, data in small["nodes"].items():
        compiled = folder / "target/compiled/shop" / str(data.get("original_file_path"))
        if data["resource_type"] == "model" and compiled.is_file():
            data["compiled_code"] = compiled.read_text(encoding="utf-8")
        small["nodes"][uid] = data
    verdicts = {
        r["unique_id"]: {"status": r["status"], "failures": r["failures"]}
        for r in results["results"]
        if r["unique_id"].startswith("test.")
    }
    for name, content in (("manifest.json", small), ("verdicts.json", verdicts)):
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        (HERE / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
