"""A selection that is one text, as people write it in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dqsql
from dqsql.runner.compilation import Where, compile_project
from dqsql.runner.request import RunRequest
from dqsql.selection.choosing import chosen_names


def test_a_text_alone_is_one_criterion(make_project: Callable[..., Path]) -> None:
    model = "select 1 as id -- @not_null\n"
    root = make_project({"checks/orders.sql": model, "checks/o.sql": model})
    for select in ("orders", ["orders"]):
        compiled = compile_project(root, select=select)
        assert [p.model.name for p in compiled.plans] == ["orders"]
        assert not compiled.project.warnings
        assert chosen_names(compiled.project, select) == ["orders"]
    compiled = compile_project(root, exclude="orders")
    assert [p.model.name for p in compiled.plans] == ["o"]
    request = RunRequest(Where(root), batches_of={"orders": "2024-01-01"})
    assert request.batches_for("orders").batches == ("2024-01-01",)
    result = dqsql.run(root, select="nothing", batches="2024-01-01")
    assert result.arguments["select"] == ["nothing"]
    assert result.arguments["batches"] == ["2024-01-01"]
