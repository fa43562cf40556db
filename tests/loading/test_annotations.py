"""The grammar of annotations inside one comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqsql.loading.annotations import (
    AnnotationProblem,
    ParsedAnnotation,
    parse_comment,
    prose_offsets,
)
from dqsql.model.project import CheckSettings, NoData, Scope, Severity

KNOWN = frozenset({"unique", "not_null"})


def parse(comment: str) -> list[ParsedAnnotation]:
    found = list(parse_comment(comment, KNOWN))
    assert all(isinstance(f, ParsedAnnotation) for f in found), found
    return [f for f in found if isinstance(f, ParsedAnnotation)]


@pytest.mark.parametrize(
    ("comment", "expressions"),
    [
        (" nothing here, me@x.com, @ 3 dollars", []),
        ("@not_null", ["not_null"]),
        (
            " @not_null @accepted_values('EWR', '@x', \"y\")",
            ["not_null", "accepted_values('EWR', '@x', \"y\")"],
        ),
        (" @completeness >= 0.95 @pattern", ["completeness >= 0.95", "pattern"]),
        (" @mean between -5 and 60 {severity: warn} @avh", ["mean between -5 and 60", "avh"]),
        (" @avh(fpr => 0.001)", ["avh(fpr => 0.001)"]),
        (
            " @anomaly(row_count, holt_winters(period => 7))",
            ["anomaly(row_count, holt_winters(period => 7))"],
        ),
        (
            " @expect(sum(a) / sum(b) between 5 and 9)   any SQL aggregate works.",
            ["expect(sum(a) / sum(b) between 5 and 9)"],
        ),
        (" mail me@x.com, don't @not_null, @unique; it is always there!", ["not_null", "unique"]),
        ("@not a is null", ["not a is null"]),
        ("@if(a, b) @exists @pattern", ["if(a, b)", "exists", "pattern"]),
        ("@x = 5 @y = '@z @w'", ["x = 5", "y = '@z @w'"]),
        ("@a {where: \"x = '}'\"} @b", ["a", "b"]),
        ("@a {description: it's @home} @b", ["a", "b"]),
        ("@matches('^[A-Z]{2,3}$') {tags: [a, b]}", ["matches('^[A-Z]{2,3}$')"]),
        ("@min > (select 1)\n@max\n  < 5", ["min > (select 1)", "max\n  < 5"]),
        ("@gültig", ["gültig"]),
    ],
)
def test_expressions(comment: str, expressions: list[str]) -> None:
    assert [a.expression for a in parse(comment)] == expressions


def test_settings() -> None:
    text = (
        "@a {severity: WARN, where: 'x > 0', name: n, tags: t, description: d, enabled: false, "
        "scope: cumulative, pii: true, no_data: ignore, fpr: 0.01, window: 7}"
    )
    assert parse(text)[0].settings == CheckSettings(
        severity=Severity.WARN,
        where="x > 0",
        name="n",
        tags=("t",),
        description="d",
        enabled=False,
        scope=Scope.CUMULATIVE,
        pii=True,
        no_data=NoData.IGNORE,
        fpr=0.01,
        options={"window": 7},
    )


@pytest.mark.parametrize(
    ("comment", "message", "text_at"),
    [
        ("@not_null unique", "'unique' after an annotation", "unique"),
        ("@a Not_Null", "'Not_Null' after an annotation", "Not_Null"),
        ("@a it's ok", "text after the annotation", "it's"),
        ("@a, 10 times", "text after the annotation", ", 10"),
        ("@a b + 3", "text after the annotation", "b + 3"),
        ("@a) x", "text after the annotation", ") x"),
        ("@a me@x.com", "text after the annotation", "me@x"),
        ("@a b {severity: warn}", "text after the annotation", "b {"),
        ("@a {severity: warn} {enabled: true}", "text after the annotation", "{enabled"),
        ("@a {severity: wran}", "'severity' must be 'warn' or 'error'", "severity"),
        ("@a {sevrity: warn}", "unknown setting 'sevrity'", "sevrity"),
        ("@a {warn}", "the setting 'warn' has no value", "warn"),
        ("@a {fpr: 1, severity: warn, 'fpr': 2}", "'fpr' appears twice", "'fpr'"),
        ("@a {1: 2}", "keys must be names", "{1"),
        ("@a {severity: [}", "not a YAML mapping", "{severity"),
        ("@a {x", "not a YAML mapping", "{x"),
        ("@a {x\n y}", "has no value", "{x"),
        ("@a {window: 2024-99-99}", "cannot be read", "{window"),
        ("@a {[b]: 1}", "cannot be read", "{[b]"),
        ("@a {fpr: 2}", "between 0 and 1", "fpr"),
        ("@a {fpr: true}", "between 0 and 1", "fpr"),
        ("@a {tags: 3}", "text or a list of texts", "tags"),
        ("@a {enabled: 1}", "true or false", "enabled"),
        ("@expect(a", "cannot parse the expression", "expect"),
        ("@min > 3 *", "cannot parse the expression", "min"),
        ("x @(a > 3)", "starts with @ and a name", "@("),
        ("@`x y` > 3", "starts with @ and a name", "@`"),
        ("@@x", "starts with @ and a name", "@@"),
        ("@5 = row_count", "starts with @ and a name", "@5"),
        ("@'b' = min(k)", "starts with @ and a name", "@'b'"),
        ("@-1 < min(x)", "starts with @ and a name", "@-1"),
        ("@!(row_count = 5)", "starts with @ and a name", "@!"),
    ],
)
def test_problems(comment: str, message: str, text_at: str) -> None:
    problems = [p for p in parse_comment(comment, KNOWN) if isinstance(p, AnnotationProblem)]
    assert message in problems[0].message
    assert problems[0].offset == comment.index(text_at)


@pytest.mark.parametrize(
    ("comment", "offset", "hint"),
    [
        ("@a {owner: me}", 4, "it is a setting of whole models: {{ config(owner = ..) }}"),
        ("@notnull", 1, "did you mean @not_null?"),
        ("@between(0, 1000)", 1, "did you mean @in_range(0, 1000)?"),
        ("@between 0 and 2.5", 1, "did you mean @in_range(0, 2.5), or a metric: @mean between 0"),
        ("@like 'x%'", 1, "@matches('regex')"),
        ("@completeness > 80%", 1, "0.8, not 80%"),
        ("@completeness > 80% and x < 1", 1, "0.8, not 80%"),
        ("@sum(amount) >= 10 and <= 1000", 1, "write a whole comparison after and"),
        ("@row_count between 5 and", 1, "missing at the end"),
        ("@row_count > 5 @min >=", 16, "missing at the end"),
        ("@min >=", 1, "missing at the end"),
        ("@accepted_values(values=['a'])", 1, "write the values one after the other"),
        ("@expect(min(a) > 1 && max(a) < 3)", 1, "SQL uses and, not &&"),
        ("@mean > 3 AND ", 1, "leave AND out"),
        ("@not  null", 0, "did you mean @not_null?"),
        ("@accepted_values('paid, 'open')", 1, "a quote is not closed"),
        ("@accepted_values('paid'", 1, "a parenthesis is not closed"),
        ("@accepted_values('paid',", 1, "an annotation of several lines must be in /* .. */"),
        ("@min > 3 *", 1, "put prose before the @"),
        ("@mean => 5", 6, "did you mean @mean >= 5?"),
        ("@mean =< 5", 1, "did you mean @mean <= 5?"),
        ("@mean > = 5", 1, "did you mean @mean >= 5?"),
        ("@mean ≥ 5", 6, "did you mean @mean >= 5?"),
        ("@mean is > 5", 6, "did you mean @mean > 5?"),
        ("@mean greater than 5", 6, "did you mean @mean > 5?"),
        ("@row_count at least 5", 11, "did you mean @row_count >= 5?"),
        ("@mean between 5", 1, "between needs two bounds: @mean between 5 and 10"),
        ("@mean between", 1, "between needs two bounds: @mean between 5 and 10"),
        ("@mean between 5, 10", 1, "write @mean between 5 and 10"),
        ("@mean between 5 10", 1, "write @mean between 5 and 10"),
        ("@mean between -5 10 in all", 1, "write @mean between -5 and 10"),
        ("@mean between 5 to 10", 1, "write @mean between 5 and 10"),
        ("@mean between 5 - 10", 1, "write @mean between 5 and 10"),
        ("@mean between (5, 10)", 1, "write @mean between 5 and 10"),
        ("@mean in 5..10", 1, "write @in_range(5, 10), or @mean between 5 and 10"),
        ("@pattern(V-<digit>)", 1, "quote the pattern: @pattern('V-<digit>')"),
        (r"@matches(^V-\d+$)", 1, r"quote the regular expression: @matches(r'^V-\d+$')"),
        ("@pattern(code, V-<digit>)", 1, "quote the pattern: @pattern(code, 'V-<digit>')"),
        (r"@matches(`a b`, ^V\d+$)", 1, r"@matches(`a b`, r'^V\d+$')"),
        ("@pattern '<digit>+'", 9, "put it into parentheses: @pattern('<digit>+')"),
        ("@in_range 1, 5", 10, "put it into parentheses: @in_range(1, 5)"),
        ("@expect sum(x) > 5", 8, "put it into parentheses: @expect(sum(x) > 5)"),
        ("@mean 5", 6, "compare it, for example: @mean >= 5"),
        ("@mean: 5", 5, "compare it, for example: @mean >= 5"),
        ("@mean > 5,000", 9, "numbers have no comma: write 5000"),
        ("@completeness > 0,95", 17, "numbers have no comma: write 0.95"),
        ("@freshness < 2 days", 15, "freshness is in hours: write 48"),
        ("@completeness > 95 percent", 19, "shares are numbers between 0 and 1: 0.95"),
        ("@mean > 3 (severity: warn)", 10, "write {severity: warn}"),
        ("@mean > 3 [severity: warn]", 10, "write {severity: warn}"),
        (
            "@mean > 3 {where: x > 1} {severity: warn}",
            25,
            "put all settings into one pair of braces",
        ),
        ("@expect(min(x) > 5))", 19, "there is one closing parenthesis too many"),
        ("@in_range(1 5)", 1, "is a comma missing?"),
        ("@relationships(to: x)", 1, "name a parameter like this: to => .."),
        ("@accepted_values(\u2018a\u2019)", 1, "write straight quotes"),
        ("@not-null", 0, "did you mean @not_null?"),
        ("@mean > 3 {severity=warn}", 11, "write {severity: warn}"),
        ("@mean > 3 severity: warn", 10, "write {severity: warn}"),
        ("@mean > 3, where: x > 1", 9, "write {where: x > 1}"),
        ("(@not_null)", 1, "put a space before the @"),
        ("checked:@unique", 8, "put a space before the @"),
        ("-@not_null", 1, "put a space before the @"),
        ("key --@unique", 6, "put a space before the @"),
        (">@not_null", 1, "put a space before the @"),
        ("\u200b@not_null", 1, "put a space before the @"),
        (" @ not_null", 1, "no space behind the @"),
        (r"@matches('^\d+$')", 11, r"write it twice: \\d, or put an r before the text: r'..\d..'"),
        (r"@matches('a\.b') > 0.5", 11, r"write it twice: \\."),
        (r"@mean > 3 {where: s rlike '\d'}", 10, r"write it twice: \\d"),
    ],
)
def test_hints_on_what_people_write(comment: str, offset: int, hint: str) -> None:
    (problem,) = [p for p in parse_comment(comment, KNOWN) if isinstance(p, AnnotationProblem)]
    assert (problem.offset, hint in (problem.hint or "")) == (offset, True), problem.hint


@pytest.mark.parametrize(
    "comment",
    [
        r"@matches('^\\d+$') @matches(r'^\d+$')",
        r"@equal_to('it\'s \n\t\\') @satisfies(s like '50\%' and t = 'it''s \u00e9')",
        "see (me@not_null.org), @ 3 pm, @ unique prose, (@john) @not_null",
        "@min > 3: the least",
    ],
)
def test_what_is_right_has_no_hint(comment: str) -> None:
    assert parse(comment)


@given(st.text(alphabet="@ab ('\"){}:,.;>=1\n-`", max_size=40))
def test_nothing_is_dropped_silently(comment: str) -> None:
    starts = [i for i, c in enumerate(comment) if c == "@" and comment[i + 1 : i + 2].isalpha()]
    plain = [i for i in starts if i == 0 or comment[i - 1].isspace()]
    assert bool(list(parse_comment(comment))) >= bool(plain)


@pytest.mark.parametrize(
    ("comment", "prose"),
    [
        ("@todo fix", ["@todo"]),
        ("@john: ask @mary (or me)", ["@john", "@mary"]),
        ("@param x", ["@param"]),
        ("@@x", ["@@x"]),
        ("@Unique @todo @not_nul @notnull", ["@todo"]),
        ("@todo(john) @foo = 1 @bar in (1) @baz between 1 and 2 @qux is not null", []),
        ("@foo {severity: warn}", []),
        ("@(x) > 1", []),
        ("@@not_null", []),
    ],
)
def test_prose_with_an_at(comment: str, prose: list[str]) -> None:
    offsets = prose_offsets(comment, KNOWN)
    assert [comment[at:].split(maxsplit=1)[0].rstrip(":") for at in offsets] == prose
    left = [f for f in parse_comment(comment, KNOWN, KNOWN) if f.offset in offsets]
    assert left == []
    assert list(parse_comment(f"see (@unique): {' '.join(prose)}", KNOWN, KNOWN)) == []


@pytest.mark.parametrize(
    "text", ["bought @1.5, total = 3", "from @5% => ok", "@2x <- that", "@ 5 > 4"]
)
def test_an_at_before_a_number_may_be_prose(text: str) -> None:
    assert list(parse_comment(text)) == []
