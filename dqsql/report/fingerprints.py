"""Fingerprints of what a model's verdicts depend on: `state:modified` compares them.

A fingerprint is the SHA-256 of a JSON text. `configs` is of the settings of the model, also of
those that it has from the project, and of the files of its sources; `checks` of its annotations
with their settings; `macros` of the project's macros that its text or its annotations name, also
through other macros. The shipped macros change with dqsql, not with the project, and are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from dqsql.json_text import to_json
from dqsql.model.monitors import COLUMN_TYPES, monitor_specs
from dqsql.model.project import Annotation, CheckModel, MacroFile, Project, Source
from dqsql.resources import resource_dir

PARTS = ("configs", "checks", "macros")
_WORD = re.compile(r"[^\W\d]\w*")
_MACRO = re.compile(r"\{%[-+]?\s*macro\s+(\w+)\s*\(.*?\{%[-+]?\s*endmacro\b", re.DOTALL)
_PREFIXES = ("", "check_", "metric_")


def own_macros(project: Project) -> list[MacroFile]:
    """The macros of the project, without the shipped ones."""
    shipped = f"{resource_dir('macros')}/"
    return [m for m in project.macros if not m.path.startswith(shipped)]


def macro_texts(files: Iterable[MacroFile]) -> dict[str, str]:
    """The texts of macros by name; a later one replaces one of its name."""
    return {m[1]: m[0] for file in files for m in _MACRO.finditer(file.text)}


class Fingerprints:
    """Makes the fingerprints of the models of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of_model(self, model: CheckModel) -> dict[str, str]:
        """The fingerprints of a model by part."""
        checks = [a for a in model.annotations if a.settings.enabled]
        text = "\n".join([model.raw_sql, *(f"{a.expression} {a.settings.where}" for a in checks)])
        return {
            "configs": _hash(self._configs(model, text)),
            "checks": _hash(sorted(to_json(_check(a)) for a in checks)),
            "macros": _hash(dict(sorted(self._reached(text)))),
        }

    def _configs(self, model: CheckModel, text: str) -> list[Any]:
        config, project = model.config, self._project
        own = {k: v for k, v in config.extra.items() if k not in ("dbt", COLUMN_TYPES)}
        kinds = sorted(monitor_specs().keys() & ({*own} | {*_WORD.findall(text)}))
        return [
            config.batch_by,
            config.segment_by,
            config.severity or project.severity,
            config.no_data or project.no_data,
            config.enabled,
            sorted(config.pii),
            sorted(own.items()),
            [[kind, project.settings.get(kind)] for kind in kinds],
            *([places] if (places := self._places(model)) else []),
        ]

    @cached_property
    def _sources(self) -> dict[str, Source]:
        return {s.unique_id: s for s in self._project.sources}

    def _places(self, model: CheckModel) -> list[Any]:
        """Which files of the project are read, and how: the same in every clone.

        Files elsewhere and tables are those of a target, which may be another one.
        """
        root = f"{self._project.root}/"
        read = [self._sources[d] for d in model.depends_on if d in self._sources]
        return [
            [s.unique_id, s.path.removeprefix(root), s.file_format, sorted(s.options.items())]
            for s in read
            if s.path is not None and s.path.startswith(root)
        ]

    @cached_property
    def _macros(self) -> dict[str, str]:
        """The texts of the project's macros by name."""
        return macro_texts(own_macros(self._project))

    def _reached(self, text: str) -> Iterator[tuple[str, str]]:
        """The macros that a text names, and those that they name."""
        texts, seen = [text], set[str]()
        while texts:
            for word in set(_WORD.findall(texts.pop())):
                for name in (f"{prefix}{word}" for prefix in _PREFIXES):
                    if name in self._macros and name not in seen:
                        seen.add(name)
                        texts.append(self._macros[name])
                        yield name, self._macros[name]


def _check(annotation: Annotation) -> list[Any]:
    """What an annotation says but for words that are only for people."""
    s = annotation.settings
    settings = [
        s.severity,
        s.where,
        s.name,
        s.scope,
        s.pii,
        s.no_data,
        s.fpr,
        sorted(s.options.items()),
    ]
    return [annotation.expression.strip(), annotation.column, annotation.candidates, *settings]


def _hash(value: object) -> str:
    return hashlib.sha256(to_json(value).encode()).hexdigest()
