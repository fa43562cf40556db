"""Writes accepted suggestions into check files: comments only, verified, whole or not at all."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dqsql.compiler.plan import compile_model
from dqsql.engine.measuring import made_up_model
from dqsql.errors import ConfigError, DqsqlError, LoadError, Span, UsageError
from dqsql.loading.annotations import AnnotationProblem, parse_comment
from dqsql.loading.documents import relative_to
from dqsql.loading.scanner import blank, scan
from dqsql.loading.sources import declaration
from dqsql.model.project import Annotation, CheckModel, Project
from dqsql.monitors import subjects
from dqsql.monitors.catalog import catalog_of
from dqsql.report.artefacts import write_atomically
from dqsql.resources import resource_dir
from dqsql.suggestions.document import difference, inserted, new_document
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion

_FOLDER = "checks"


class UndeclaredFile(UsageError):
    """A file whose checks have nowhere to read it from; `declaration` is YAML that names it."""

    def __init__(self, message: str, *, hint: str, declaration: str) -> None:
        super().__init__(message, hint=hint)
        self.declaration = declaration


@dataclass(frozen=True)
class Draft:
    """The text of a check file with the suggestions in it, and what stands there now.

    `path` is relative to the project's root; `before` is empty where there is no file yet.
    """

    path: str
    before: str
    after: str
    model: str
    relation: str

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """A unified diff."""
        return difference(self.before, self.after, self.path)


def draft(
    project: Project, proposal: Proposal, accepted: Sequence[Suggestion], *, apart: bool = False
) -> Draft:
    """The file with the accepted suggestions.

    `apart` puts all of them at the end of the file, each naming its column. Raises UsageError for a
    relation that has no file of its own.
    """
    subject = proposal.subject
    if subject.model is None:
        return _new(project, proposal, accepted)
    model = subject.model
    if not model.raw_sql or not model.path.endswith(".sql"):
        raise UsageError(
            f"{subject.name} has no SQL file that annotations could stand in",
            hint="annotate it in a YAML file, under config.meta.dqsql",
        )
    places = (
        {} if apart or (model.relation is not None and not model.projections) else _places(model)
    )
    after = inserted(model.raw_sql, accepted, places) if accepted else model.raw_sql
    return Draft(model.path, model.raw_sql, after, model.name, subject.name)


def _places(model: CheckModel) -> dict[str, tuple[int, int]]:
    """Where the projections stand in the file, by name; names that occur twice are left out."""
    names = [p.name.lower() for p in model.projections if p.name is not None]
    return {
        p.name.lower(): (p.span.line, p.span.column)
        for p in model.projections
        if p.name is not None and names.count(p.name.lower()) == 1
    }


def _new(project: Project, proposal: Proposal, accepted: Sequence[Suggestion]) -> Draft:
    subject = proposal.subject
    name = re.sub(r"\W+", "_", subject.table)
    if not subject.is_file:
        name = _free_name(project, subject.name)
    template = (resource_dir("templates") / "suggest" / "check.sql").read_text(encoding="utf-8")
    text = new_document(
        template,
        f"Checks of {subject.name}.",
        _evidence(proposal),
        subject.reads,
        list(subject.types),
        accepted,
        proposal.proposed,
    )
    return Draft(f"{_folder(project)}/{name}.sql", "", text, name, subject.name)


def _folder(project: Project) -> str:
    """The folder of the project's check models."""
    folders = [m.path.rpartition("/")[0] for m in project.models if m.relation is None]
    return next((f.partition("/")[0] for f in folders if f), _FOLDER)


def _evidence(proposal: Proposal) -> str:
    held_out = f", {proposal.held_out:,} held out" if proposal.held_out else ""
    return f"{proposal.learned:,} of {proposal.rows:,} rows{held_out}"


def write(load: Callable[[], Project], proposal: Proposal, accepted: Sequence[Suggestion]) -> Draft:
    """Write the accepted suggestions into the project, and make sure that they load and compile.

    In a file that exists nothing but comments changes. Where a place next to a column does not work
    out (a loop, a star), the suggestions go to the end of the file. `load` reads the project anew.

    Raises:
        DqsqlError: the file cannot be written, or does not load with the suggestions in it; the
            file is then as it was.
    """
    project = load()
    require_place(project, proposal.subject.name)
    made = draft(project, proposal, accepted)
    try:
        return _written(load, project, made, accepted)
    except DqsqlError:
        if not made.before:
            raise
    return _written(load, project, draft(project, proposal, accepted, apart=True), accepted)


def require_place(project: Project, relation: str) -> None:
    """Refuse a relation that no check file of the project could read or hold, before any work.

    Raises UsageError; for a file that no source names UndeclaredFile.
    """
    if any(m.name == relation for m in project.models):
        return
    if any(m.relation is not None for m in project.models):
        raise UsageError(
            "a dbt project has no separate check files",
            hint="name a model of dbt, or leave --write out to see the suggestions",
        )
    path, example = subjects.file_of(project, relation), None
    pattern = path is None and subjects.is_pattern(relation)
    if pattern:
        path, files = subjects.files_of(project, relation)
        example = next(iter(files), None)
    source = None if path is None else subjects.source_of_file(project, path)
    if path is None or source is not None:
        _refuse_taken(project, relation if source is None else source.full_name)
        return
    shown = relative_to(path, project.root.resolve())
    name, table = subjects.declared_name(project, path)
    file = next((s.span.file for s in project.sources), None)
    what = "a pattern of files" if pattern else "a file"
    where = f"`sources:` of {file}" if file is not None else f"{_folder(project)}/sources.yml"
    raise UndeclaredFile(
        f"{shown} is {what} that no source names",
        hint=f"declare it in {where}, and then: dqsql suggest {name}.{table} --write",
        declaration=declaration(name, table, str(path), shown, example=example, first=file is None),
    )


def _refuse_taken(project: Project, relation: str) -> None:
    """Refuse a relation whose check file would be one that is about something else."""
    source = next((s for s in project.sources if s.full_name == relation), None)
    for model in project.models:
        reads = source is not None and source.unique_id in model.depends_on
        if model.name in subjects.check_names(relation) and (reads or relation in model.raw_sql):
            return
    path = f"{_folder(project)}/{_free_name(project, relation)}.sql"
    if (project.root / path).exists():
        raise _taken(path, relation)


def _free_name(project: Project, relation: str) -> str:
    """What a new check model is called: as the table, unless something else is called so."""
    short, long = subjects.check_names(relation)
    taken = any(m.name == short for m in project.models)
    return long if taken or (project.root / _folder(project) / f"{short}.sql").exists() else short


def _taken(path: str, relation: str) -> ConfigError:
    return ConfigError(
        f"{path} exists and is not about {relation}",
        hint="rename the file, or name its check model",
    )


def _written(
    load: Callable[[], Project], project: Project, made: Draft, accepted: Sequence[Suggestion]
) -> Draft:
    file = project.root / made.path
    if not made.changed:
        return made
    if not made.before and file.exists():
        raise _taken(made.path, made.relation)
    if made.before and _code(made.before) != _code(made.after):
        raise LoadError(f"the suggestions would change more than comments of {made.path}")
    _replace(file, made.after)
    try:
        _verify(load, project, made, accepted)
    except DqsqlError:
        if made.before:
            _replace(file, made.before)
        else:
            file.unlink()
        raise
    return made


def _code(text: str) -> list[str]:
    """The words of a text that are no comment."""
    return blank(text, scan(text).comments).split()


def _verify(
    load: Callable[[], Project], before: Project, made: Draft, accepted: Sequence[Suggestion]
) -> None:
    after = load()
    model = next((m for m in after.models if m.name == made.model), None)
    if model is None:
        raise LoadError(f"{made.path} is not a check model of the project")
    old = next((m for m in before.models if m.name == made.model), None)
    added = Counter(_identity(a) for a in model.annotations)
    added.subtract(_identity(a) for a in (old.annotations if old is not None else ()))
    for suggestion in accepted:
        column = (suggestion.column or "").lower()
        inside = (column, suggestion.expression(inside=True))
        named = ("", suggestion.expression(inside=False))
        place = inside if added[inside] > 0 else named
        added[place] -= 1
    if any(added.values()):
        raise LoadError(f"the suggestions in {made.path} would be about other columns")
    rejected = compile_model(model, after, catalog_of(after)).rejected
    if rejected and old is not None:
        # What was wrong with the file before is not the suggestions' fault.
        known = {e.message for e in compile_model(old, before, catalog_of(before)).rejected}
        rejected = tuple(error for error in rejected if error.message not in known)
    if rejected:
        raise LoadError(f"a suggestion does not compile: {rejected[0]}")


def _identity(annotation: Annotation) -> tuple[str, str]:
    return (annotation.column or "").lower(), annotation.expression.strip()


def _replace(file: Path, text: str) -> None:
    """Write a text into a file, which keeps its byte order mark."""
    try:
        marked = file.read_bytes().startswith(codecs.BOM_UTF8)
    except OSError:
        # Not there yet; what else is the matter, writing will say.
        marked = False
    write_atomically(file, f"\ufeff{text}" if marked else text, redacted=False)


def edited(
    project: Project, subject: subjects.Subject, suggestion: Suggestion, text: str
) -> Suggestion:
    """A suggestion with the annotation that a person wrote instead.

    `text` is the annotation, with or without `@`. Raises DqsqlError: it does not parse or compile.
    """
    written = text.strip()
    written = written if written.startswith("@") else f"@{written}"
    if scan(written).comments:
        # It would be one in the file, too, where the annotation is part of a comment already.
        raise UsageError(f"this is more than an annotation: {written}", hint="leave the -- out")
    parts = list(parse_comment(written))
    if len(parts) != 1 or isinstance(parts[0], AnnotationProblem):
        message = parts[0].message if parts and isinstance(parts[0], AnnotationProblem) else ""
        raise UsageError(f"this is not an annotation: {written} {message}".rstrip())
    parsed = parts[0]
    place = Span(subject.name)
    annotation = Annotation(parsed.expression, parsed.settings, place, suggestion.column)
    model = replace(made_up_model(subject.view, {}), annotations=(annotation,))
    plan = compile_model(model, project, catalog_of(project))
    if plan.rejected:
        raise plan.rejected[0]
    settings = written[len(parsed.expression) + 1 :].strip()
    return replace(
        suggestion,
        call=parsed.expression,
        arguments=(),
        comparison=settings,
        settings={},
        takes_column=False,
        reason="as a person wrote it",
    )
