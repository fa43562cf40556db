"""Binds comments to projections by their positions, and annotations to columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dqsql.errors import AnnotationError, DqsqlError, Span, SqlSyntaxError
from dqsql.loading.annotations import (
    AnnotationProblem,
    annotation_offsets,
    may_annotate,
    parse_comment,
)
from dqsql.loading.layout import Branch, Item, Layout, LayoutProblem, name_behind, read_layout
from dqsql.loading.rendering import RenderedComment, Rendering
from dqsql.loading.scanner import Segment, SegmentKind, is_commented_out, line_starts
from dqsql.model.project import Annotation, Projection

# Four for each column of the widest tables that people have.
_MAX_ANNOTATIONS = 10_000
_MAX_ANNOTATION = 100_000  # characters


@dataclass(frozen=True, slots=True)
class Binding:
    """What a comment is about: a column, one of several, or (both empty) the model.

    `unbound`: it stands beside a column whose name is not in the text; see `Annotation`.
    """

    column: str | None = None
    candidates: tuple[str, ...] = ()
    unbound: tuple[str, str] | None = None


class BindingProblem(Exception):
    """A comment whose annotations belong to nothing that can be checked."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class BoundModel:
    """The parts of a check model that come from its text. `sql` has no trailing semicolon."""

    sql: str
    projections: tuple[Projection, ...]
    annotations: tuple[Annotation, ...]


def bind_model(
    rendering: Rendering,
    path: str,
    known_names: Collection[str],
    errors: list[DqsqlError],
    make_binder: Callable[[str, Layout], Binder] | None = None,
    words: Collection[str] = (),
) -> BoundModel | None:
    """Read projections and annotations of a rendered model.

    Errors are appended to `errors`; None when the text is no SELECT. `known_names` are the names
    of check and metric macros, `words` all that may begin an annotation, where prose with an @ is
    allowed (see `parse_comment`). `make_binder` makes what answers which column
    a comment is about; by default a `Binder`.
    """
    try:
        layout = read_layout(rendering.sql)
    except LayoutProblem as problem:
        span = _span(rendering, path, problem.offset, problem.text)
        errors.append(SqlSyntaxError(problem.message, span=span, hint=problem.hint))
        return None
    binder = (make_binder or Binder)(rendering.sql, layout)
    annotations: list[Annotation] = []
    count = 0
    for comment in rendering.comments:
        for annotation in _annotations(rendering, path, comment, binder, (known_names, words)):
            if not isinstance(annotation, Annotation):
                errors.append(annotation)
            elif len(annotation.expression) > _MAX_ANNOTATION:
                errors.append(_too_long(annotation))
            else:
                annotations.append(annotation)
            count += 1
            if count > _MAX_ANNOTATIONS:
                errors.append(_too_many(annotation))
                return None
    projections = tuple(
        Projection(name, _span(rendering, path, item.start, item.tokens[0].text))
        for item in layout.items
        for name in item.listed or (item.name,)
    )
    if layout.branches[0].reshaped:
        # Which columns there are in the end, Spark knows.
        projections += (Projection(None, projections[0].span),)
    return BoundModel(_without(rendering.sql, layout.semicolons), projections, tuple(annotations))


def with_calls(
    annotations: Iterable[Annotation], relations: Mapping[str, str]
) -> tuple[Annotation, ...]:
    """The annotations, with calls of `ref` and `source` in place of what these rendered to.

    `relations` are the calls by their rendered texts.
    """
    if not relations:
        return tuple(annotations)
    longest_first = sorted(map(re.escape, relations), key=len, reverse=True)
    rendered = re.compile(rf"(?<![\w.`])(?:{'|'.join(longest_first)})(?![\w.`])")
    return tuple(
        replace(a, expression=rendered.sub(lambda found: relations[found[0]], a.expression))
        for a in annotations
    )


def relation_call(function: str, *names: str) -> str:
    """How an annotation names a relation: `source('nyc', 'flights')`."""
    return f"{function}({', '.join(map(repr, names))})"


def _too_long(annotation: Annotation) -> AnnotationError:
    return AnnotationError(
        f"the annotation is longer than {_MAX_ANNOTATION:,} characters",
        span=annotation.span,
        hint="keep many values in a table, and write @references(source('lists', 'values'), value)",
    )


def _too_many(annotation: Annotation | AnnotationError) -> AnnotationError:
    return AnnotationError(
        f"the file holds more than {_MAX_ANNOTATIONS:,} annotations",
        span=annotation.span,
        hint="split the checks into several check models",
    )


def _without(text: str, offsets: tuple[int, ...]) -> str:
    for offset in reversed(offsets):
        text = text[:offset] + text[offset + 1 :]
    return text


def _span(rendering: Rendering, path: str, offset: int, text: str) -> Span:
    line, column = rendering.raw_place(offset)
    return Span(path, line, column, text)


def _annotations(
    rendering: Rendering,
    path: str,
    comment: RenderedComment,
    binder: Binder,
    names: tuple[Collection[str], Collection[str]],
) -> Iterator[Annotation | AnnotationError]:
    text = comment_text(rendering.sql, comment.segment)
    if not may_annotate(text, names[0]):
        return
    for parsed in parse_comment(text, *names):
        # Such a text is as long as what it was made from: at most a star in front is blank.
        at = comment.segment.body_start + parsed.offset
        if is_commented_out(rendering.sql, comment.segment, at):
            continue
        line, column = _raw_place(rendering, comment, text, parsed.offset)
        span = Span(path, line, column, parsed.text)
        if isinstance(parsed, AnnotationProblem):
            yield parsed.error(span)
            continue
        try:
            binding = binder.bind(comment.segment)
        except BindingProblem as problem:
            yield AnnotationError(problem.message, span=span, hint=problem.hint)
            continue
        about = binding.column, binding.candidates, binding.unbound
        yield Annotation(parsed.expression, parsed.settings, span, *about)


def comment_text(sql: str, segment: Segment) -> str:
    """The text of a comment; its offsets are those behind the comment's opener."""
    text = sql[segment.body_start : segment.body_end]
    lines = text.split("\n")
    if segment.kind is SegmentKind.BLOCK_COMMENT and _is_decorated(lines):
        text = "\n".join(
            line.replace("*", " ", 1) if line.lstrip().startswith("*") else line for line in lines
        )
    return text


def _is_decorated(lines: list[str]) -> bool:
    """Whether the lines of a block comment begin with a star that only decorates them."""
    first, *others = lines
    written = [line for line in others if line.strip()]
    blank_start = not first.strip() and bool(written)
    return first.startswith("*") or (
        blank_start and all(x.lstrip().startswith("*") for x in written)
    )


def _raw_place(
    rendering: Rendering, comment: RenderedComment, text: str, offset: int
) -> tuple[int, int]:
    """Line and column in the raw text of an offset in a rendered comment's text."""
    if comment.raw is None:
        return rendering.raw_place(comment.segment.body_start + offset)
    raw_text = comment_text(rendering.raw, comment.raw)
    at = offset
    if raw_text[: offset + 1] != text[: offset + 1]:
        # Jinja inside the comment: the n-th annotation here is the n-th one there.
        here, there = annotation_offsets(text), annotation_offsets(raw_text)
        nth = bisect_right(here, offset) - 1
        at = there[nth] if len(here) == len(there) and nth >= 0 else 0
    starts, at = line_starts(rendering.raw), comment.raw.body_start + at
    line = bisect_right(starts, at)
    return line, at - starts[line - 1] + 1


class Binder:
    """Answers what a comment at some place in a SELECT is about."""

    def __init__(self, sql: str, layout: Layout) -> None:
        self._starts = line_starts(sql)
        self._layout = layout
        # For each branch, the ordinals of the projections that have tokens on a line.
        self._by_line = [self._lines_of(branch) for branch in layout.branches]
        self._ends = [[item.end for item in branch.items] for branch in layout.branches]

    def bind(self, comment: Segment) -> Binding:
        """The binding of a comment, or a BindingProblem."""
        if any(start < comment.start < end for start, end in self._layout.subqueries):
            raise BindingProblem(
                "the annotation is inside a subquery or a CTE",
                "put it into the final SELECT, next to the output column that it is about",
            )
        for number, branch in enumerate(self._layout.branches):
            if branch.select < comment.start < branch.list_end:
                return self._bind_in_list(comment, number)
        return Binding()

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def _lines_of(self, branch: Branch) -> dict[int, list[int]]:
        by_line: dict[int, list[int]] = {}
        for ordinal, item in enumerate(branch.items):
            lines: set[int] = set()
            for token in item.tokens:
                lines.update(range(self._line(token.start), self._line(token.end) + 1))
            for line in lines:
                by_line.setdefault(line, []).append(ordinal)
        return by_line

    def _bind_in_list(self, comment: Segment, number: int) -> Binding:
        by_line = self._by_line[number]
        first, last = self._line(comment.start), self._line(comment.end - 1)
        ordinals = by_line.get(first) or by_line.get(last) or []
        if len(ordinals) > 1:
            return self._candidates(number, ordinals)
        ordinal = ordinals[0] if ordinals else self._own_line(comment, number)
        if ordinal is None:
            return Binding()
        self._refuse_missing_comma(comment, self._layout.branches[number].items[ordinal])
        output = self._output(number, ordinal)
        return Binding(None, output.listed) if output.listed else _of_item(output)

    def _refuse_missing_comma(self, comment: Segment, item: Item) -> None:
        """`status -- @not_null`, and on the next line `amount,`: amount is the name of status."""
        word = name_behind(item, comment.start)
        if word is not None and self._line(word.start) > self._line(comment.start):
            raise BindingProblem(
                f"without a comma before this comment, {word.text} on the next line is the name"
                " of this column",
                f"write the comma, or: as {word.text}",
            )

    def _own_line(self, comment: Segment, number: int) -> int | None:
        branch = self._layout.branches[number]
        if self._line(branch.select) == self._line(comment.start):
            raise BindingProblem(
                "it is not clear which column this annotation is about",
                "put it on the line of a column, or on a separate line above one",
            )
        ordinal = bisect_right(self._ends[number], comment.start)
        if ordinal < len(branch.items):
            return ordinal
        if not branch.has_clause:
            return None
        raise BindingProblem(
            "no column follows this annotation",
            "put it on the line of a column, or after FROM if it is about the model",
        )

    def _candidates(self, number: int, ordinals: list[int]) -> Binding:
        items = [self._output(number, ordinal) for ordinal in ordinals]
        names = tuple(n for item in items for n in (item.listed or (item.name,)) if n is not None)
        star = next((item for item in items if item.is_star), None)
        if star is None and names:
            return Binding(None, names)
        return replace(_of_item(star or items[0]), candidates=names)

    def _output(self, number: int, ordinal: int) -> Item:
        """The output column that a branch's projection feeds: the first branch names them."""
        outputs = self._layout.items
        if number == 0:
            return outputs[ordinal]
        own = self._layout.branches[number].items[: ordinal + 1]
        if ordinal >= len(outputs) or any(i.is_star for i in (*outputs[: ordinal + 1], *own)):
            raise BindingProblem(
                "the first SELECT of the set operation names no column at this place",
                "annotate the columns of the first SELECT",
            )
        return outputs[ordinal]


def _of_item(item: Item) -> Binding:
    if item.is_star:
        return Binding(unbound=_STAR)
    return Binding(item.name, unbound=_NO_NAME if item.name is None else None)


_STAR = (
    "an annotation on * could be about any column",
    "list the column by name, or name it here: @not_null(the_column)",
)
_NO_NAME = "the annotated expression has no name", "give it one: expression as name"
