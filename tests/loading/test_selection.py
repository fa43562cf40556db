"""dbt's selection syntax."""

from __future__ import annotations

import pytest

from dqsql.errors import SelectionError
from dqsql.model.project import CheckModel, ModelConfig, Severity
from dqsql.runner.selection import select_models


def model(path: str, *depends_on: str, **config: object) -> CheckModel:
    name = path.rpartition("/")[2].removesuffix(".sql")
    ids = tuple(d if d.startswith("source.") else f"model.{d}" for d in depends_on)
    return CheckModel(name, path, "", "", ModelConfig(**config), (), (), (), ids)  # type: ignore[arg-type]


MODELS = [
    model("checks/raw/a.sql", "source.nyc.flights", tags=("daily", "ops")),
    model("checks/raw/b.sql", "source.nyc.weather", tags=("hourly",), severity=Severity.WARN),
    model("checks/mart/c.sql", "a", "b", tags=("daily",), extra={"meta": {"tier": 1}}),
    model("checks/mart/d.sql", "c"),
    model("checks/e.sql", "b", enabled=True, owner="ann"),
    model("checks/off.sql", "a", enabled=False),
]


@pytest.mark.parametrize(
    ("select", "exclude", "names"),
    [
        ([], [], "abcde"),
        (["a"], [], "a"),
        (["a b"], [], "ab"),
        (["a", "d"], [], "ad"),
        (["[ab]"], [], "ab"),
        (["*"], ["d e"], "abc"),
        ([], ["tag:daily"], "bde"),
        (["tag:daily"], [], "ac"),
        (["tag:*ly,raw"], [], "ab"),
        (["tag:daily,path:checks/raw"], [], "a"),
        (["path:checks/mart"], [], "cd"),
        (["path:checks/*/c.sql"], [], "c"),
        (["checks/raw/"], [], "ab"),
        (["path:checks"], [], "abcde"),
        (["mart.c"], [], "c"),
        (["d.sql"], [], "d"),
        (["file:e*"], [], "e"),
        (["config.severity:warn"], [], "b"),
        (["config.owner:ann"], [], "e"),
        (["config.tags:ops"], [], "a"),
        (["config.meta.tier:1"], [], "c"),
        (["config.enabled:true"], [], "abcde"),
        (["source:nyc"], [], "ab"),
        (["source:nyc.weather"], [], "b"),
        (["source:nyc.weather+"], [], "bcde"),
        (["+c"], [], "abc"),
        (["c+"], [], "cd"),
        (["a+"], [], "acd"),
        (["1+d"], [], "cd"),
        (["2+d"], [], "abcd"),
        (["a+1"], [], "ac"),
        (["1+c+1"], [], "abcd"),
        (["@a"], [], "abcd"),
        (["+d,tag:hourly"], [], "b"),
        (["nothing"], [], ""),
        (["off"], [], ""),
        ([""], [], "abcde"),
    ],
)
def test_selection(select: list[str], exclude: list[str], names: str) -> None:
    assert [m.name for m in select_models(MODELS, select, exclude)] == list(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tgas:x", "unknown selection method 'tgas'"),
        ("state:modified", "unknown selection method 'state'"),
        ("a,,b", "cannot read the selection"),
        ("a+b", "cannot read the selection"),
        ("+", "cannot read the selection"),
        ("tag:", "cannot read the selection"),
        ("@a+", "mixes @ and +"),
        ("config:x", "names no setting"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SelectionError, match=r".") as caught:
        select_models(MODELS, [text])
    assert message in caught.value.message


def test_the_nearest_method_is_named() -> None:
    with pytest.raises(SelectionError, match="did you mean 'tag'"):
        select_models(MODELS, ["tags:x"])


def test_more_methods() -> None:
    methods = {"result": lambda m, _, value: m.name == "a" and value == "fail"}
    assert [m.name for m in select_models(MODELS, ["result:fail+1"], methods=methods)] == ["a", "c"]
