"""`selectors.yml`: selections with a name, as in dbt; and `source_status:fresher`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dqsql.errors import ConfigError, DqsqlError, SelectionError, UsageError
from dqsql.loading import load_project
from dqsql.runner.compilation import compile_project
from dqsql.selection.choosing import chosen_names, selection
from dqsql.selection.methods import select_models
from dqsql.selection.state import state_of
from tests.loading.conftest import Write

MODELS = {
    "checks/a.sql": "{{ config(tags = ['daily']) }} select 1 as x -- @not_null",
    "checks/b.sql": "{{ config(tags = ['hourly']) }} select x from {{ ref('a') }} -- @not_null",
    "checks/mart/c.sql": "{{ config(tags = ['daily']) }} select x from {{ ref('b') }} -- @not_null",
    "checks/mart/d.sql": "select x from {{ ref('c') }} -- @not_null",
}


def selectors(*definitions: str) -> str:
    text = "selectors:\n"
    for at, definition in enumerate(definitions):
        text += f"  - name: s{at}\n    definition: {definition}\n"
    return text


@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ('"tag:daily"', "ac"),
        ('"+c"', "abc"),
        ("{tag: daily}", "ac"),
        ("{path: checks/mart}", "cd"),
        ("{method: tag, value: hourly}", "b"),
        ("{method: tag, value: hourly, children: true}", "bcd"),
        ("{method: tag, value: hourly, children: true, children_depth: 1}", "bc"),
        ("{method: fqn, value: c, parents: true, parents_depth: 1}", "bc"),
        ("{method: fqn, value: c, childrens_parents: true}", "abcd"),
        ("{method: config.enabled, value: true}", "abcd"),
        ("{method: path, value: checks, exclude: [{tag: daily}, d]}", "b"),
        ("{union: [{tag: hourly}, d]}", "bd"),
        ("{union: [{path: checks}, {exclude: [{method: tag, value: daily}]}]}", "bd"),
        ("{intersection: [{tag: daily}, {path: checks/mart}]}", "c"),
        ("{union: [a, {intersection: [{tag: daily}, 'b+']}]}", "ac"),
        ("{method: selector, value: mart}", "cd"),
        ("{union: [{method: selector, value: mart}, a], }", "acd"),
        ("{method: tag, value: daily, indirect_selection: eager}", "ac"),
    ],
)
def test_definitions(write: Write, definition: str, names: str) -> None:
    mart = "  - {name: mart, description: x, definition: {path: checks/mart}}\n"
    project = load_project(write({**MODELS, "selectors.yml": selectors(definition) + mart}))
    assert chosen_names(project, ["selector:s0"]) == list(names)


def test_a_selector_among_other_criteria(write: Write) -> None:
    root = write({**MODELS, "selectors.yml": selectors("{tag: hourly}")})
    project = load_project(root)
    assert chosen_names(project, ["selector:s0+1", "a"]) == ["a", "b", "c"]
    assert chosen_names(project, ["checks/mart,selector:s0+"]) == ["c", "d"]
    assert chosen_names(project, [], ["selector:s0"]) == ["a", "c", "d"]
    assert [p.model.name for p in compile_project(root, selector="s0").plans] == ["b"]
    with pytest.raises(UsageError, match="--selector stands alone") as caught:
        compile_project(root, selector="s0", select=["a"])
    assert "selector:s0" in str(caught.value.hint)


def test_the_default_holds_where_nothing_is_selected(write: Write) -> None:
    text = selectors("{tag: hourly}") + "    default: \"{{ var('by_default') }}\"\n"
    settings = "name: shop\nvars: {by_default: true}\n"
    root = write({**MODELS, "dqsql_project.yml": settings, "selectors.yml": text})
    project = load_project(root)
    assert selection(project, [], [], None, by_default=True) == ("selector:s0",)
    assert selection(project, ["a"], [], None, by_default=True) == ["a"]
    assert selection(project, [], ["a"], None, by_default=True) == []
    assert selection(project, [], [], None, by_default=False) == []


@pytest.mark.parametrize(
    ("definition", "message", "line"),
    [
        ("{method: tagg, value: x}", "unknown selection method 'tagg'", 3),
        ("{method: tag}", "'tag' needs a value", 3),
        ("{method: tag, value: x, parent: true}", "unknown key 'parent'", 3),
        ("{union: []}", "'union' selects nothing", 3),
        ("{union: [{exclude: [a]}]}", "'union' selects nothing", 3),
        ("[a, b]", "this is not a definition", 3),
        ("{method: selector, value: s0}", "selectors in a circle: s0 -> s0", 3),
        ("{method: selector, value: s1}", "there is no selector 's1'", 3),
        ("{method: tag, value: x, parents: true, parents_depth: no}", "whole number", 3),
    ],
)
def test_mistakes_have_places(write: Write, definition: str, message: str, line: int) -> None:
    project = load_project(write({**MODELS, "selectors.yml": selectors(definition)}))
    with pytest.raises(ConfigError, match=message) as caught:
        chosen_names(project, ["selector:s0"])
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("selectors.yml", line)


@pytest.mark.parametrize(
    "definitions",
    [
        ('"selector:s0"',),
        ('{union: ["selector:s0", a]}',),
        ('"selector:s1"', "{method: selector, value: s0}"),
        ('"a,selector:s1"', '"+selector:s0"'),
    ],
)
def test_circles_by_the_method_in_texts(write: Write, definitions: tuple[str, ...]) -> None:
    project = load_project(write({**MODELS, "selectors.yml": selectors(*definitions)}))
    with pytest.raises(DqsqlError, match="selectors in a circle: s0 -> "):
        chosen_names(project, ["selector:s0"])


def test_a_selector_that_is_not_there(write: Write) -> None:
    project = load_project(write({**MODELS, "selectors.yml": selectors("a")}))
    with pytest.raises(SelectionError, match="there is no selector 's' in") as caught:
        chosen_names(project, ["selector:s"])
    assert "s0" in str(caught.value.hint)
    (project.root / "selectors.yml").unlink()
    with pytest.raises(SelectionError, match=r"there is no selectors\.yml"):
        chosen_names(project, ["selector:s0"])
    twice = selectors("a") + selectors("b").removeprefix("selectors:\n")
    (project.root / "selectors.yml").write_text(twice, encoding="utf-8")
    with pytest.raises(DqsqlError, match="the selector 's0' is defined twice"):
        chosen_names(project, ["selector:s0"])


def sources(file: Path, when: str, **loaded: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    results = [{"unique_id": f"source.shop.raw.{n}", "max_loaded_at": t} for n, t in loaded.items()]
    if "broken" not in loaded:
        error = {"error": "no", "status": "runtime error"}
        results.append({"unique_id": "source.shop.raw.broken", **error})
    text = json.dumps({"metadata": {"generated_at": when}, "results": results})
    file.write_text(text, encoding="utf-8")


def test_sources_that_were_loaded_since(write: Write, tmp_path: Path) -> None:
    project = load_project(write(MODELS))
    names = ("old", "fresh", "new", "broken")
    models = [
        type(m)(
            **{
                **{f: getattr(m, f) for f in m.__dataclass_fields__},
                "name": name,
                "config": type(m.config)(
                    extra={"dbt": {"unique_id": f"source.shop.raw.{name}", "name": name}}
                ),
            }
        )
        for m, name in zip(project.models, names, strict=True)
    ]
    before = tmp_path / "before"
    sources(before / "sources.json", "1", old="2025-01-01T00:00:00Z", fresh="2025-01-01T00:00:00Z")
    state = state_of(project, before)
    with pytest.raises(UsageError, match=r"there is no sources\.json"):
        select_models(models, ["source_status:fresher"], methods=state.methods())
    now = {"old": "2025-01-01T01:00:00+01:00", "fresh": "2025-01-02T00:00:00Z"}
    own = project.target_dir
    sources(own / "sources.json", "3", **now, new="2025-01-01T00:00:00Z", broken="2025-01-02")
    # Of two artefacts the newer one counts.
    sources(own.parent / "sources.json", "2", old="2025-01-03T00:00:00Z")
    found = select_models(
        models, ["source_status:fresher"], methods=state_of(project, before).methods()
    )
    assert [m.name for m in found] == ["fresh", "new"]
    with pytest.raises(SelectionError, match="unknown status of a source 'older'"):
        select_models(models, ["source_status:older"], methods=state.methods())
    with pytest.raises(UsageError, match="needs an earlier state"):
        select_models(models, ["source_status:fresher"], methods=state_of(project, None).methods())
