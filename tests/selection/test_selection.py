"""dbt's selection syntax."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dqsql.errors import SelectionError, Span
from dqsql.model.project import (
    DBT_TEST,
    Annotation,
    CheckModel,
    CheckSettings,
    ModelConfig,
    Severity,
)
from dqsql.selection.methods import kept_in_part, project_methods, select_models, unmatched


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
        (["path:checks/*.sql"], [], "e"),
        (["path:checks/*"], [], "abcde"),
        (["path:checks/**/*.sql"], [], "abcde"),
        (["path:**/c.sql"], [], "c"),
        (["mart.c"], [], "c"),
        (["d.sql"], [], "d"),
        (["file:e*"], [], "e"),
        (["config.severity:warn"], [], "b"),
        (["config.owner:ann"], [], "e"),
        (["config.tags:ops"], [], "a"),
        (["config.meta.tier:1"], [], "c"),
        (["config.enabled:true"], [], "abcde"),
        (["config.enabled:True"], [], "abcde"),
        (["source:nyc"], [], "ab"),
        (["source:nyc.weather"], [], "b"),
        (["source:nyc.weather+"], [], "bcde"),
        (["+c"], [], "abc"),
        (["c+"], [], "cd"),
        (["a+"], [], "acd"),
        (["1+d"], [], "cd"),
        (["2+d"], [], "abcd"),
        (["a+1"], [], "ac"),
        (["a+" + "9" * 5000], [], "acd"),
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


def test_methods_about_checks() -> None:
    at = Span("x")
    beside = Annotation("not_null", CheckSettings(), at, "Price")
    behind = Annotation("unique(day, amount)", CheckSettings(severity=Severity.WARN), at)
    models = [replace(m, annotations=(a,)) for m, a in zip(MODELS, (beside, behind), strict=False)]
    names = {
        "severity:error": "a",
        "severity:warn": "b",
        "column:PRICE": "a",
        "column:amount": "b",
        "column:unique": "",
    }
    models[1] = replace(models[1], config=ModelConfig())
    found = {text: "".join(m.name for m in select_models(models, [text])) for text in names}
    assert found == names
    lenient = project_methods("shop", Severity.WARN)
    assert len(select_models(models, ["severity:warn"], methods=lenient)) == 2


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


def with_check(found: CheckModel, **settings: object) -> CheckModel:
    made = CheckSettings(**settings)  # type: ignore[arg-type]
    return replace(found, annotations=(Annotation("not_null", made, Span("x"), "a"),))


def test_tags_of_checks_choose_their_models() -> None:
    tagged = with_check(MODELS[3], tags=("disruption",))
    off = with_check(MODELS[4], tags=("disruption",), enabled=False)
    models = [*MODELS[:3], tagged, off]
    assert [m.name for m in select_models(models, ["tag:disr*"])] == ["d"]
    assert [m.name for m in select_models(models, ["tag:disruption,mart"])] == ["d"]
    assert [m.name for m in select_models(models, [], ["tag:disruption"])] == list("abce")


@pytest.mark.parametrize("exclude", ["tag:flaky", "check:not_null", "column:a", "severity:warn"])
def test_a_model_is_left_out_by_its_checks_only_if_all_of_them_are_meant(exclude: str) -> None:
    flaky = CheckSettings(tags=("flaky",), severity=Severity.WARN)
    meant = Annotation("not_null", flaky, Span("x"), "a")
    other = Annotation("unique", CheckSettings(severity=Severity.ERROR), Span("x"), "b")
    off = replace(other, settings=CheckSettings(enabled=False))
    whole, part = (
        replace(MODELS[i], annotations=(meant, more)) for i, more in ((0, off), (1, other))
    )
    assert [m.name for m in select_models([whole, part], [], [exclude])] == [part.name]
    assert [m.name for m in select_models([whole, part], [exclude])] == [whole.name, part.name]
    (told,) = kept_in_part([whole, part], [exclude], [part.name])
    assert told == (
        f"{exclude!r} is about some checks, and leaves out no model that has others:"
        f" {part.name} will be checked with all checks"
    )
    assert kept_in_part([whole, part], [exclude], []) == ()


def of_dbt(name: str, *fqn: str, package: str = "shop", **more: object) -> CheckModel:
    dbt = {"name": name, "package": package, "fqn": [package, *fqn], **more}
    return model(f"models/{'/'.join(fqn)}.sql", extra={"dbt": dbt})


SHOP = [
    of_dbt("orders", "marts", "orders"),
    replace(of_dbt("customers_v2", "marts", "core", "customers", "v2"), name="customers_v2"),
    with_check(
        of_dbt("payments", "payments"),
        name="unique_payments_id",
        options={DBT_TEST: "test.shop.unique_payments_id.1"},
    ),
    of_dbt("away", "marts", "away", package="other"),
    replace(
        of_dbt("raw__orders", "marts", "raw", "raw_orders", resource_type="source"),
        name="raw__orders",
    ),
]


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("fqn:shop.marts.orders", "orders"),
        ("shop.marts.orders", "orders"),
        ("shop.marts", "orders customers_v2"),
        ("marts", "orders customers_v2 away"),
        ("marts.core", "customers_v2"),
        ("shop", "orders customers_v2 payments"),
        ("shop.*.orders", "orders"),
        ("shop.m*", "orders customers_v2"),
        ("marts.*", "orders customers_v2 away"),
        ("customers", "customers_v2"),
        ("customers.v2", "customers_v2"),
        ("customers_v2", "customers_v2"),
        ("marts.customers", ""),
        ("orders.marts", ""),
        ("unique_payments_id", "payments"),
        ("unique_*", ""),
        ("check:unique_*", "payments"),
        ("raw__orders", "raw__orders"),
        ("raw_orders", ""),
        ("package:this", "orders customers_v2 payments raw__orders"),
        ("package:oth*", "away"),
    ],
)
def test_qualified_names_of_dbt(select: str, names: str) -> None:
    found = select_models(SHOP, [select], methods=project_methods("shop"))
    assert [m.name for m in found] == names.split()


def test_qualified_names_without_dbt() -> None:
    methods = project_methods("nyc")
    assert [m.name for m in select_models(MODELS, ["nyc.raw"], methods=methods)] == ["a", "b"]
    assert [m.name for m in select_models(MODELS, ["package:this"], methods=methods)] == list(
        "abcde"
    )


def test_what_finds_nothing_is_said() -> None:
    told = unmatched(SHOP, ["payment shop.marts", "tag:x", "orders+"])
    assert told == (
        "no check model matches 'payment'; did you mean 'payments'?",
        "no check model matches 'tag:x'",
    )
    assert unmatched(MODELS, ["off"]) == ("no check model matches 'off'",)
    (of_a_check,) = unmatched(MODELS, ["a.price.not_null"])
    assert of_a_check.endswith("checks run with their model: --select a")


def test_names_with_signs_of_the_language_are_taken_as_a_whole() -> None:
    odd = [model(f"checks/{name}.sql") for name in ("my orders", "orders", "a,b", "c+", "[x]")]
    for one in odd:
        for text in (one.name, f"name:{one.name}"):
            assert [m.name for m in select_models(odd, [text])] == [one.name]
            assert unmatched(odd, [text]) == ()
    assert [m.name for m in select_models(odd, ["my orders", "a,b"])] == ["my orders", "a,b"]
    assert [m.name for m in select_models(odd, [], ["my orders"])] == ["orders", "a,b", "c+", "[x]"]


def test_what_is_no_criterion_about_checks_excludes_as_ever() -> None:
    """`state:unmodified` looks at annotations, too: of a model without them it says otherwise."""
    one, other = (Annotation(text, CheckSettings(), Span("x"), "a") for text in ("a > 1", "a < 9"))
    models = [replace(MODELS[0], annotations=(one, other)), MODELS[1]]
    methods = {"state": lambda model, argument, value: len(model.annotations) == 2}
    assert [m.name for m in select_models(models, [], ["state:x"], methods=methods)] == ["b"]


def test_a_model_with_automatic_monitors_is_not_left_out_by_its_checks() -> None:
    config = replace(MODELS[0].config, extra={"monitors": "auto"})
    watched = with_check(replace(MODELS[0], config=config), tags=("flaky",))
    assert select_models([watched], [], ["tag:flaky"]) == [watched]
    assert select_models([watched], [], ["a"]) == []
