"""What breaks a contract, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dqsql.decisions.contract import (
    change_of_type,
    column_changes,
    contract_changes,
    decide_columns,
    decide_schema,
)
from dqsql.model.contract import (
    ColumnListError,
    Contract,
    ContractCheck,
    ContractColumn,
    column_list,
    column_list_text,
    spark_type,
)
from dqsql.model.project import Severity
from dqsql.model.results import Status


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ("int", "bigint", "widened"),
        ("bigint", "int", "narrowed"),
        ("float", "double", "widened"),
        ("double", "float", "narrowed"),
        ("int", "double", "widened"),
        ("bigint", "double", "retyped"),
        ("decimal(10,2)", "decimal(12,2)", "widened"),
        ("decimal(10,2)", "decimal(12,4)", "widened"),
        ("decimal(10,2)", "decimal(10,4)", "retyped"),
        ("int", "decimal(12,2)", "widened"),
        ("string", "int", "retyped"),
        ("date", "timestamp", "retyped"),
        ("bigint", "bigint", None),
        ("struct<Id:int>", "struct<id:int>", None),
        ("struct<`my col`:int>", "struct<my col:int>", None),
        ("", "bigint", None),
        ("<number>", "decimal(3,1)", None),
        ("<integer>", "double", "retyped"),
        ("<timestamp>", "timestamp_ntz", None),
        ("<array>", "array<int>", None),
        ("struct<a:int>", "struct<a:bigint,b:string>", "widened"),
        ("array<int>", "array<bigint>", "widened"),
        ("array<array<bigint>>", "array<array<int>>", "narrowed"),
        ("array<int>", "array<array<int>>", "retyped"),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:decimal(4,1)>>", "widened"),
        ("map<int,string>", "map<string,string>", "retyped"),
        ("struct<a:int,b:string>", "struct<a:int>", "narrowed"),
        ("array<struct<a:struct<x:int,y:int>>>", "array<struct<a:struct<y:int,x:int>>>", None),
        ("struct<dc:title:string,dc:n:date>", "struct<dc:title:int,dc:n:date>", "retyped"),
        ("struct<a>b:int>", "struct<a>b:string>", "retyped"),
        ("struct<x):int,y:int>", "struct<x):string,y:int>", "retyped"),
        ("struct<a:int,A:string>", "struct<a:int,A:int>", "retyped"),
        ("struct<a,b:int>", "struct<a,b:bigint>", "retyped"),
        ("struct<a:interval day to second>", "struct<a:interval year to month>", "retyped"),
        (
            "struct<a:string collate UNICODE_CI>",
            "struct<a:string collate UNICODE_CI,b:int>",
            "widened",
        ),
        ("struct<a:int>", "array<struct<a:int>>", "retyped"),
        ("map<string,int>", "map<string,bigint>", "widened"),
    ],
)
def test_types(before: str, now: str, change: str | None) -> None:
    assert change_of_type(before, now) == change


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("VARCHAR(18)", "string"),
        ("double precision", "double"),
        ("Decimal( 10 , 2 )", "decimal(10,2)"),
        ("numeric", "decimal(10,0)"),
        ("array<struct<long:int, b: integer>>", "array<struct<long:int,b:int>>"),
        (
            "struct<my_id:int, bytes:int, texts: array<text>>",
            "struct<my_id:int,bytes:int,texts:array<string>>",
        ),
        ("struct<`my col`:int, `a:text`:text>", "struct<`my col`:int,`a:text`:string>"),
        ("INT NOT NULL", "int"),
        (
            "struct<a int, `b c` array<struct<x double precision>>>",
            "struct<a:int,`b c`:array<struct<x:double>>>",
        ),
        ("map<string, struct<a decimal(10, 2) not null>>", "map<string,struct<a:decimal(10,2)>>"),
        ("json", None),
        ("number(10,2)", None),
        ("", None),
    ],
)
def test_names_of_types(text: str, kind: str | None) -> None:
    assert spark_type(text) == kind


def test_lists_of_columns() -> None:
    columns = {"id": "bigint", "a,`b": "map<string,int>", "n": "<number>"}
    assert column_list(column_list_text(columns)) == columns
    for text, reason in (
        ("id", "not a column with its type"),
        ("id bigint, ID int", "appears twice"),
        ("id bigint not null", "write @not_null"),
        ("id <numbers>", "not a type of Spark"),
        (" ", "no column is named"),
    ):
        with pytest.raises(ColumnListError, match=reason):
            column_list(text)


def test_verdicts_on_columns() -> None:
    promised = {"id": "bigint", "amount": "decimal(10,2)"}

    def told(now: dict[str, str], *, closed: bool = False, soft: bool = False) -> tuple[str, str]:
        severity = Severity.WARN if soft else Severity.ERROR
        found = decide_columns(promised, now, closed=closed, severity=severity)
        return found.status.value, found.message

    assert told({"AMOUNT": "decimal(10,2)", "Id": "bigint"}) == ("pass", "2 columns, as promised")
    assert told({"id": "int", "x": "date"}) == (
        "fail",
        "breaking: removed amount (decimal(10,2)), narrowed id (bigint -> int);"
        " compatible: added x (date)",
    )
    assert told({"id": "int"}, soft=True)[0] == Status.WARN.value
    more = {**promised, "x": "date"}
    assert told(more) == ("pass", "compatible: added x (date)")
    assert told(more, closed=True) == ("fail", "breaking: added x (date)")


def test_what_a_new_version_changes() -> None:
    old = Contract(
        "t",
        (
            ContractColumn("id", "bigint", required=True, key=1),
            ContractColumn("a", "int", required=True, checks=(ContractCheck("matches('x')"),)),
            ContractColumn("b", "int"),
        ),
    )
    new = Contract(
        "t",
        (
            ContractColumn("id", "bigint", required=True),
            ContractColumn("a", "bigint", unique=True),
            ContractColumn("c", "int"),
        ),
    )
    assert [(c.breaking, c.kind, c.text) for c in contract_changes(old, new)] == [
        (True, "removed", "b (int)"),
        (True, "now nullable", "a"),
        (True, "no longer promised", "a: matches('x')"),
        (True, "key", "id -> none"),
        (False, "widened", "a (int -> bigint)"),
        (False, "added", "c (int)"),
        (False, "now unique", "a"),
    ]


def test_a_weaker_promise_is_one_that_breaks() -> None:
    def contract(
        *rules: ContractCheck, kind: str = "decimal(10,2)", closed: bool = True
    ) -> Contract:
        return Contract("t", (ContractColumn("ID", kind, key=1),), rules, closed)

    def rule(condition: str, severity: Severity | None = None) -> ContractCheck:
        return ContractCheck(
            "expect(count(*) = 0)", severity=severity, settings={"where": condition}
        )

    old = contract(rule("x < 0"), rule("x > 9"))
    assert contract_changes(old, replace(old, columns=(replace(old.columns[0], name="id"),))) == ()
    for new, kind in (
        (contract(rule("x < 0")), "no longer promised"),
        (contract(rule("x < 0"), rule("x > 99")), "no longer promised"),
        (contract(rule("x < 0"), rule("x > 9", Severity.WARN)), "no longer promised"),
        (contract(rule("x < 0"), rule("x > 9"), closed=False), "no longer closed"),
        (contract(rule("x < 0"), rule("x > 9"), kind=""), "less typed"),
        (contract(rule("x < 0"), rule("x > 9"), kind="<number>"), "less typed"),
    ):
        assert [c.kind for c in contract_changes(old, new) if c.breaking] == [kind]


def test_a_bound_that_moved_is_told_as_one_change() -> None:
    def contract(bound: int, where: str) -> Contract:
        check = ContractCheck(f"row_count > {bound}", settings={"where": where})
        return Contract("t", (ContractColumn("id", "int"),), (check,))

    (stricter,) = contract_changes(contract(0, "x"), contract(10, "x"))
    assert (stricter.kind, stricter.breaking) == ("stricter", False)
    assert stricter.text == "row_count > 0 {where: x} -> row_count > 10 {where: x}"
    (weaker,) = contract_changes(contract(10, "x"), contract(0, "x"))
    assert (weaker.kind, weaker.breaking) == ("weaker", True)
    old, new = (
        Contract("t", (ContractColumn("x", "int", checks=(ContractCheck(f"min >= {n}"),)),))
        for n in (0, 5)
    )
    assert [c.kind for c in contract_changes(old, new)] == ["stricter"]
    # Of other rows, it is another rule.
    assert len(contract_changes(contract(0, "x"), contract(10, "y"))) == 2


def test_the_same_rules_in_other_places_and_words_are_no_change() -> None:
    counted = "expect(coalesce(duplicate_count(`a`, `B`), 0) < 10)"
    rule = ContractCheck("expect(count_if({c} is null) < 1)")
    old = Contract(
        "t",
        (ContractColumn("a", required=True, key=1), ContractColumn("b", checks=(rule,))),
        (ContractCheck(counted),),
    )
    written = ContractCheck("expect(count_if(`b` IS NULL) < 1)")
    new = Contract(
        "t",
        (ContractColumn("a", key=1, checks=(ContractCheck(counted.lower()),)), ContractColumn("b")),
        (written,),
    )
    assert contract_changes(old, new) == ()


def test_what_people_read_is_no_promise() -> None:
    rules = [
        ContractCheck("not_null", settings={"description": text, "name": text, "severity": "warn"})
        for text in ("one", "two")
    ]
    old, new = (Contract("t", (ContractColumn("a", checks=(rule,)),)) for rule in rules)
    assert contract_changes(old, new) == ()


def test_rules_that_cannot_be_read_and_those_of_columns_that_are_gone() -> None:
    odd = [ContractCheck("row_count() >= {{ var('min') }}", settings={"mostly": s}) for s in (1, 2)]
    old = Contract("t", (ContractColumn("b", checks=(ContractCheck("{c} > 0"),)),), (odd[0],))
    found = contract_changes(old, Contract("t", (), (odd[1],)))
    assert [(c.kind, c.breaking) for c in found] == [
        ("removed", True),
        ("no longer promised", True),
        ("newly promised", False),
    ]


def test_a_column_of_any_type_is_promised_all_the_same() -> None:
    promised = {"a": "int", "b": "<any>"}
    (gone,) = column_changes(promised, {"a": "int"}, closed=True)
    assert (gone.kind, gone.breaking, gone.text) == ("removed", True, "b")
    assert column_changes(promised, {"a": "int", "b": "array<string>"}, closed=True) == []


def test_of_changes_that_are_not_all_allowed_each_says_which_it_is() -> None:
    before, now = {"a": "int", "b": "string"}, {"a": "int", "bb": "string"}

    def told(*allow: str) -> tuple[str, str]:
        found = decide_schema(now, before, allow=allow, severity=Severity.ERROR)
        return found.status.value, found.message

    assert told() == ("fail", "added bb (string); dropped b (string)")
    assert told("added") == ("fail", "dropped b (string); added bb (string) (allowed)")
    both = "added bb (string); dropped b (string) (allowed)"
    assert told("added", "dropped") == ("pass", both)


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (
            "struct<zip:string>",
            "struct<zip:string,geo:struct<x:int>>",
            "added t.geo (struct<x:int>)",
        ),
        ("struct<zip:string,city:string>", "struct<zip:string>", "dropped t.city (string)"),
        (
            "array<struct<price:int>>",
            "array<struct<price:bigint>>",
            "retyped t.price (int -> bigint)",
        ),
        (
            "struct<geo:struct<x:int,y:decimal(9,6)>>",
            "struct<geo:struct<x:int,y:double>>",
            "retyped t.geo.y (decimal(9,6) -> double)",
        ),
        ("struct<a:int,b:int>", "struct<b:int,a:int>", "1 column, as before; in another order"),
        ("struct<a:int>", "string", "retyped t (struct<a:int> -> string)"),
        ("struct<>", "struct<a:int>", "added t.a (int)"),
        ("struct<A:int>", "struct<a:int>", "1 column, as before"),
        (
            "struct<dc:x:string,dc:y:string>",
            "struct<dc:x:string>",
            "retyped t (struct<dc:x:string,dc:y:string> -> struct<dc:x:string>)",
        ),
        (
            "struct<a(b:int>",
            "struct<a(b:string>",
            "retyped t (struct<a(b:int> -> struct<a(b:string>)",
        ),
    ],
)
def test_fields_of_structs_are_like_columns(before: str, now: str, message: str) -> None:
    found = decide_schema({"t": now}, {"t": before}, allow=(), severity=Severity.ERROR)
    assert found.message == message
