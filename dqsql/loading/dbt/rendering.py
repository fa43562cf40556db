"""Renders dbt models as far as their annotations need it.

Only comments and the names of columns are read from a dbt model's text: what runs is a query of the
relation that dbt built. A model whose Jinja needs nothing but `config`, `ref`, `source`, `var`,
`env_var`, `target`, `this` and `is_incremental` is rendered. In any other one each `{{ .. }}` is
replaced by a stand-in word of the same length and each `{% .. %}` by spaces, which leaves columns
and comments where they are; a column whose name contains a stand-in cannot be annotated there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dqsql.errors import JinjaError
from dqsql.loading.rendering import RenderedComment, Rendering, render_model
from dqsql.loading.scanner import blank, scan
from dqsql.templating import MacroLibrary

# A letter that no name of a column has.
STAND_IN = "\ua66e"
_CONFIG = re.compile(r"\{\{-?\s*config\s*\(")
_QUERY = re.compile(r"\b(select|with|from)\b", re.IGNORECASE)


def render_dbt_model(
    raw: str, path: str, library: MacroLibrary, relation_of: Callable[..., str]
) -> Rendering:
    """Render a dbt model, or mask its Jinja. Raises JinjaError for Jinja inside an annotation.

    `relation_of('ref' or 'source', *names)` is the relation that a call renders to.
    """
    context = _context(relation_of)
    try:
        return render_model(raw, lambda text: library.render(text, path, context))
    except JinjaError:
        return _masked(raw, lambda text: library.render(text, path, context))


def _context(relation_of: Callable[..., str]) -> Mapping[str, object]:
    return {
        "config": lambda *_, **__: "",
        "ref": lambda *names, **_: relation_of("ref", *names),
        "source": lambda *names: relation_of("source", *names),
        "this": "this",
        "is_incremental": lambda: False,
        "execute": False,
    }


def _masked(raw: str, render: Callable[[str], str]) -> Rendering:
    """The text with stand-ins for Jinja; comments are rendered, since they hold annotations."""
    found = scan(raw)
    start = _QUERY.search(blank(blank(raw, found.jinja), found.comments))
    first = start.start() if start else len(raw)
    parts: list[str] = []
    position = 0
    comments = {c.start: c for c in found.comments}
    for segment in sorted([*found.jinja, *found.comments], key=lambda s: s.start):
        if segment.start < position:
            # Jinja inside a comment, which was rendered whole.
            continue
        parts.append(raw[position : segment.start])
        text = raw[segment.start : segment.end]
        if segment.start in comments:
            parts.append(render(text) if "{" + "{" in text or "{%" in text else text)
        else:
            parts.append(_stand_in(text, hidden=segment.start < first))
        position = segment.end
    sql = "".join([*parts, raw[position:]])
    rendered = scan(sql, jinja=False).comments
    pairs = zip(rendered, found.comments, strict=False)
    same = len(rendered) == len(found.comments)
    return Rendering(
        raw,
        sql,
        tuple(RenderedComment(r, c if same else None) for r, c in pairs),
        tuple(range(1, sql.count("\n") + 2)),
    )


def _stand_in(block: str, *, hidden: bool) -> str:
    """Something of the same length and lines: a word for an expression, else blanks."""
    blank = re.sub(r"[^\n]", " ", block)
    if hidden or not block.startswith("{{") or _CONFIG.match(block):
        return blank
    width = len(block.split("\n", 1)[0])
    return STAND_IN * width + blank[width:]
