"""What earlier runs left behind: `state:modified` and `result:fail` compare with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from dqsql.errors import SelectionError, UsageError
from dqsql.json_text import Shape, read_json
from dqsql.model.batches import in_zone
from dqsql.model.project import CheckModel, Project
from dqsql.report.fingerprints import PARTS, Fingerprints
from dqsql.resources import expanded
from dqsql.selection.methods import Method

_MANIFEST, _RESULTS, _SOURCES = "manifest.json", "run_results.json", "sources.json"
# dqsql's artefacts of a dbt project lie below dbt's.
_FOLDERS = (".", "dqsql")
_STATES = ("modified", "new", "old", "unmodified")
_PARTS = ("body", *PARTS)
_NODE: Shape = {"checksum?": {"checksum?": str}}
_SHAPES: Mapping[str, Shape] = {
    _MANIFEST: {
        "metadata?": {"env?": dict},
        "models?": {
            ...: {
                "checksum?": str,
                "fingerprints?": dict,
                "config?": {"batch_by?": str, "segment_by?": [str]},
            }
        },
        "checks?": {...: {"model": str, "expression": str, "where?": str}},
        "nodes?": {...: _NODE},
        "sources?": {...: dict},
    },
    _RESULTS: {
        "metadata?": {"env?": dict},
        "results?": [{"status?": str, "adapter_response?": {"dqsql?": {"model?": str}}}],
    },
    _SOURCES: {
        "metadata?": {"generated_at?": str},
        "results?": [{"unique_id": str, "max_loaded_at?": str}],
    },
}
_FRESHER = "fresher"
_RESULT_WORDS = ("pass", "warn", "fail", "error", "skipped")


@dataclass(frozen=True)
class State:
    """The folder that `--state` names, or None, and the project's own folder of artefacts."""

    folder: Path | None
    own: Path
    fingerprints: Fingerprints

    def methods(self) -> Mapping[str, Method]:
        """The selection methods that need artefacts; read when they are first used."""
        return {
            "state": self._by_state,
            "result": self._by_result,
            "source_status": self._by_source_status,
        }

    def _by_state(self, model: CheckModel, argument: str, value: str) -> bool:
        word, _, part = value.partition(".")
        if word not in _STATES or (part and (part not in _PARTS or word != "modified")):
            known = [f"state:{s}" for s in _STATES] + [f"state:modified.{p}" for p in _PARTS]
            raise SelectionError(f"unknown state {value!r}", hint=f"one of {', '.join(known)}")
        self._require_folder(f"state:{value}", _MANIFEST)
        before = _known_before(self._manifest, model)
        if before is None:
            return word == "new" or (word == "modified" and not part)
        if word in ("new", "old"):
            return word == "old"
        changed = _changes(model, before, self.fingerprints)
        return (part in changed if part else bool(changed)) == (word == "modified")

    def _require_folder(self, criterion: str, artefact: str) -> None:
        if self.folder is None:
            raise UsageError(
                f"{criterion} needs an earlier state to compare with",
                hint=f"name the folder of its {artefact} with --state",
            )

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return _read(self.folder or self.own, _MANIFEST)

    def _by_result(self, model: CheckModel, _: str, value: str) -> bool:
        if value not in _RESULT_WORDS:
            known = ", ".join(f"result:{w}" for w in _RESULT_WORDS)
            raise SelectionError(f"unknown result {value!r}", hint=f"one of {known}")
        results = _read(self.folder or self.own, _RESULTS).get("results") or []
        return any(r.get("status") == value and _model_of(r) == model.name for r in results)

    def _by_source_status(self, model: CheckModel, _: str, value: str) -> bool:
        """Sources that were loaded since the earlier state, as dbt's `source_status:fresher`."""
        if value != _FRESHER:
            raise SelectionError(
                f"unknown status of a source {value!r}", hint=f"write source_status:{_FRESHER}+"
            )
        self._require_folder(f"source_status:{value}", _SOURCES)
        return model.dbt.get("unique_id") in self._fresher

    @cached_property
    def _fresher(self) -> set[str]:
        before = _loaded(self.folder or self.own, _FOLDERS)
        # dbt's own artefacts lie beside the folder of dqsql's.
        now = _loaded(self.own, (".", ".."))
        # As in dbt, one that could not be read then or now is not known to be fresher.
        return {
            uid
            for uid, loaded in now.items()
            if loaded and (uid not in before or ((was := before[uid]) and loaded > was))
        }


def state_of(project: Project, folder: str | PathLike[str] | None) -> State:
    """The state that a project's selection compares with."""
    path = None if folder is None else expanded(folder)
    if path is not None and not path.is_dir():
        raise UsageError(f"--state names {folder}, which is not a folder")
    return State(path, project.target_dir, Fingerprints(project))


def _artefact(file: Path) -> dict[str, Any] | None:
    """The content of a file; None where there is none. Raises UsageError."""
    if not file.is_file():
        return None
    try:
        content: dict[str, Any] = read_json(file, _SHAPES[file.name])
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return content


def _read(folder: Path, name: str) -> dict[str, Any]:
    """An artefact of dqsql in a folder, else one of dbt. Raises UsageError."""
    artefact: dict[str, Any] | None = None
    for below in _FOLDERS:
        data = _artefact(folder / below / name)
        if data is not None and (artefact is None or _is_own(data)):
            artefact = data
    if artefact is None:
        raise UsageError(f"there is no {name} in {folder}", hint="`dqsql run` writes it to target/")
    return artefact


def _loaded(folder: Path, below: Sequence[str]) -> dict[str, datetime | None]:
    """When each source was last loaded, by the newest artefact of `dqsql run` or dbt.

    None of one that could not be read.
    """
    artefacts = (_artefact(folder / name / _SOURCES) for name in below)
    contents = [data for data in artefacts if data is not None]
    if not contents:
        raise UsageError(
            f"there is no {_SOURCES} in {folder}",
            hint="`dbt source freshness` and `dqsql run` write it to the target folder",
        )
    newest = max(contents, key=lambda data: str((data.get("metadata") or {}).get("generated_at")))
    loaded = {r["unique_id"]: r.get("max_loaded_at") for r in newest.get("results") or ()}
    try:
        return {
            uid: in_zone(datetime.fromisoformat(text)) if text else None
            for uid, text in loaded.items()
        }
    except ValueError as error:
        raise UsageError(
            f"a max_loaded_at in {_SOURCES} of {folder} is not a time: {error}"
        ) from error


def _is_own(data: Mapping[str, Any]) -> bool:
    metadata = data.get("metadata") or {}
    return "dqsql_schema_version" in metadata or "dqsql_version" in (metadata.get("env") or {})


def _model_of(result: Mapping[str, Any]) -> str | None:
    own = (result.get("adapter_response") or {}).get("dqsql") or {}
    model = own.get("model")
    return str(model) if model is not None else None


def _known_before(manifest: Mapping[str, Any], model: CheckModel) -> dict[str, Any] | None:
    """What a manifest says about a model, of dqsql or of dbt; None when it does not know it."""
    if manifest.get("models") is not None:
        record: dict[str, Any] | None = manifest["models"].get(model.unique_id)
        return record
    unique_id = model.dbt.get("unique_id", "")
    node = (manifest.get("nodes") or {}).get(unique_id)
    if node is None:
        source = (manifest.get("sources") or {}).get(unique_id)
        return None if source is None else {}
    return {"checksum": (node.get("checksum") or {}).get("checksum")}


def _changes(model: CheckModel, before: Mapping[str, Any], fingerprints: Fingerprints) -> set[str]:
    """Which parts of a model are not as they were."""
    changed: set[str] = set()
    if before.get("checksum") not in (None, "", model.checksum):
        changed.add("body")
    known = before.get("fingerprints")
    if isinstance(known, Mapping):
        now = fingerprints.of_model(model)
        changed |= {part for part in PARTS if known.get(part, now[part]) != now[part]}
    return changed
