"""Annotations that are given as texts, beside no SELECT: those of `dqsql.check`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dqsql.errors import AnnotationError, DqsqlError, Span, error_of
from dqsql.loading.annotations import AnnotationProblem, parse_comment
from dqsql.model.project import Annotation


def read_annotations(
    texts: Sequence[object], known_names: Collection[str]
) -> tuple[Annotation, ...]:
    """The annotations in some texts, each with or without its `@`.

    The place of one is its text's number and the line and column in it: `checks[2]:1:5`. Raises
    what is wrong with all of them.
    """
    found: list[Annotation] = []
    errors: list[DqsqlError] = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            span = Span(f"checks[{number}]", text=repr(text))
            errors.append(AnnotationError(f"a check is a text, not {text!r}", span=span))
            continue
        written = text if text.lstrip().startswith("@") else f"@{text.lstrip()}"
        parsed = list(parse_comment(written, known_names))
        if not parsed:
            problem = AnnotationProblem("this is no annotation", 0, text, "write @not_null(id)")
            parsed.append(problem)
        for one in parsed:
            span = Span.at_offset(f"checks[{number}]", written, one.offset, one.text)
            if isinstance(one, AnnotationProblem):
                errors.append(AnnotationError(one.message, span=span, hint=one.hint))
            else:
                found.append(Annotation(one.expression, one.settings, span))
    if errors:
        raise error_of(errors)
    return tuple(found)
