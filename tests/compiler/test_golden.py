"""The compiled SQL of check models, as files that people can read and review.

`golden/<name>.sql` is a check model, `golden/<name>.compiled` what it compiles to. After a wanted
change, write them anew with DQSQL_UPDATE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dqsql.dialect import to_sql
from dqsql.model.plan import Plan

from .conftest import Compiled, CompileModel

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("DQSQL_UPDATE_GOLDEN"))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sql")), ids=lambda p: p.stem)
def test_compiled_sql(path: Path, compile_model: CompileModel) -> None:
    compiled = compile_model(path.read_text(encoding="utf-8"), name=path.stem)
    assert compiled.errors == ()
    text = described(compiled)
    golden = path.with_suffix(".compiled")
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_model() -> None:
    assert {p.stem for p in GOLDEN.glob("*.compiled")} == {p.stem for p in GOLDEN.glob("*.sql")}


def test_compiling_twice_gives_the_same_text(compile_model: CompileModel) -> None:
    sql = (GOLDEN / "segments.sql").read_text(encoding="utf-8")
    assert described(compile_model(sql)) == described(compile_model(sql))


def described(compiled: Compiled) -> str:
    """States, metrics, checks and statements as text."""
    sections = [*_plan(compiled.plan)]
    for query in compiled.queries:
        reads = f"; reads {', '.join(query.columns)}" if query.columns else ""
        sections.append(f"-- {query.purpose}; scans: {query.scans}{reads}\n{query.sql}")
    return "\n\n".join(sections) + "\n"


def _plan(plan: Plan) -> list[str]:
    states = "".join(
        f"\n{s.name} [{type(s.source).__name__ if s.source else s.buffer}]"
        f"\n    scan:  {to_sql(s.scan)}"
        f"\n    merge: {to_sql(s.merge) if s.merge is not None else 'none'}"
        for s in plan.states
    )
    metrics = "".join(
        f"\n{m.alias}: {m.text} | column {m.column} | {m.name} ({m.parameters})"
        f"\n    finish: {to_sql(m.finish)}"
        for m in plan.metrics
    )
    checks = "".join(
        f"\n{c.id} [{c.severity}] @ line {c.span.line}, column {c.span.column}"
        f"\n    {to_sql(c.predicate)}"
        + (f" | bounds {c.bounds.lower} .. {c.bounds.upper}" if c.bounds else "")
        for c in plan.checks
    )
    notes = "".join(f"\n{n}" for n in plan.notes)
    return [
        f"== states =={states}",
        f"== metrics =={metrics}",
        f"== checks =={checks}",
        *([f"== notes =={notes}"] if notes else []),
        "== statements ==",
    ]
