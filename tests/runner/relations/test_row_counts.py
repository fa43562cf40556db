"""`@equal_row_count` and `@fewer_rows_than`."""

from __future__ import annotations

from dqsql.model.results import Status

from .conftest import Project, Table, statuses, verdicts

CHECKED = (
    "{{ config(batch_by='day', segment_by=['n']) }}\n-- @equal_row_count(b)\nselect * from a_t"
)


def test_by_batch_where_both_have_batches(project: Project, table: Table) -> None:
    table(
        "a_t",
        "select * from values (date'2020-01-01', 1), (date'2020-01-01', 2), (date'2020-01-02', 1),"
        " (date'2020-01-03', 1) t(day, n)",
    )
    table(
        "b_t",
        "select * from values (date'2020-01-01', 1), (date'2020-01-01', 1), (date'2020-01-02', 1),"
        " (date'2020-01-02', 1), (date'2020-01-04', 1), (null, 1) t(dt, m)",
    )
    project.write("a", CHECKED)
    project.write("b", "{{ config(batch_by='dt') }}\nselect dt from b_t")
    found = verdicts(project.run(select=["a"]))
    # Whole batches only: the other model has no such segments.
    assert {key[1:]: r.status for key, r in found.items()} == {
        ("2020-01-01", None): Status.PASS,
        ("2020-01-02", None): Status.FAIL,
        ("2020-01-03", None): Status.FAIL,
    }
    failed = found["equal_row_count(b)", "2020-01-03", None]
    assert failed.message == ("row_count is 1; row_count_of(b) is 0, expected equal_row_count(b)")
    # A batch that only the other model has, when it is asked for.
    again = verdicts(project.run(select=["a"], batches=["2020-01-01", "2020-01-04"]))
    assert again["equal_row_count(b)", "2020-01-04", None].status is Status.FAIL
    assert again["equal_row_count(b)", "2020-01-01", None].status is Status.PASS


def test_whole_relations(project: Project, table: Table) -> None:
    table("a_t", "select * from range(3)")
    table("empty_t", "select * from range(3) where id < 0")
    project.write(
        "a",
        "-- @equal_row_count(a_t) @fewer_rows_than(a_t) @row_count_of(empty_t) = 0\n"
        "select * from a_t",
    )
    project.write(
        "empty", "-- @equal_row_count(empty_t) @fewer_rows_than(a)\nselect * from empty_t"
    )
    assert statuses(project.run()) == {
        "equal_row_count(a_t)": Status.PASS,
        "fewer_rows_than(a_t)": Status.FAIL,
        "row_count_of(empty_t) = 0": Status.PASS,
        "equal_row_count(empty_t)": Status.PASS,
        "fewer_rows_than(a)": Status.PASS,
    }


def test_a_day_as_text_is_that_day(project: Project, table: Table) -> None:
    """Whichever of two models has the text."""
    table(
        "d_t",
        "select date_add(date'2020-01-01', cast(id % 2 as int)) as day, id as n from range(5)",
    )
    table("e_t", "select day, cast(day as string) as text, n from d_t where n < 4")
    for ours, theirs in (("text", "day"), ("day", "text")):
        project.write(
            f"by_{theirs}", f"{{{{ config(batch_by='{theirs}') }}}}\nselect {theirs}, n from e_t"
        )
        project.write(
            f"{ours}_and_{theirs}",
            f"{{{{ config(batch_by='{ours}') }}}}\n"
            f"-- @expect(sum(n) = metric('by_{theirs}', 'sum(n)')) {{name: sums}}\n"
            f"-- @equal_row_count(by_{theirs}) {{name: rows}}\n"
            "select day, cast(day as string) as text, n from d_t",
        )
    models = project.run(select=["text_and_day", "day_and_text"]).models
    assert len(models) == 2
    for model in models:
        assert {(r.check_name, r.batch): r.status for r in model.results} == {
            ("sums", "2020-01-01"): Status.FAIL,
            ("rows", "2020-01-01"): Status.FAIL,
            ("sums", "2020-01-02"): Status.PASS,
            ("rows", "2020-01-02"): Status.PASS,
        }


def test_a_month_as_text_is_no_day(project: Project, table: Table) -> None:
    table("a_t", "select date'2020-01-01' as day, '2020-01' as month")
    project.write("a", "{{ config(batch_by='day') }}\n-- @equal_row_count(b)\nselect * from a_t")
    project.write("b", "{{ config(batch_by='month') }}\nselect month from a_t")
    (found,) = project.run(select=["a"]).results
    assert found.status is Status.ERROR
    assert "those of b of type string" in found.message


def test_names_that_never_meet_are_an_error(project: Project, table: Table) -> None:
    table(
        "f_t",
        "select string(day) as day, date_format(day, 'yyyyMMdd') as short, day as real,"
        " date_format(day, 'yyyy-MM') as month, date_format(day, 'yyyy/MM/dd') as slashes"
        " from values (date'2020-01-01'), (date'2020-01-02') as t(day)",
    )
    pairs = (("day", "short"), ("short", "day"), ("month", "real"), ("slashes", "day"))
    names = [f"{ours}_and_{theirs}" for ours, theirs in pairs]
    for name, (ours, theirs) in zip(names, pairs, strict=True):
        other = f"by_{theirs}"
        both = f"-- @equal_row_count({other})\n-- @expect(row_count >= row_count_of({other}))\n"
        project.write(name, f"{{{{ config(batch_by='{ours}') }}}}\n{both}select * from f_t")
        project.write(other, f"{{{{ config(batch_by='{theirs}') }}}}\nselect * from f_t")
    found = {m.model: m.results for m in project.run(select=names).models}
    assert found.keys() == set(names)
    for name, results in found.items():
        assert {r.status for r in results} == {Status.ERROR}, name
        assert "and no batch is in both" in results[0].message, name


def test_other_names_may_be_missing_today(project: Project, table: Table) -> None:
    table("g_t", "select * from values ('DE'), ('FR2') as t(shop)")
    table("h_t", "select * from values ('USA'), ('DE') as t(shop)")
    project.write("a", "{{ config(batch_by='shop') }}\n-- @equal_row_count(b)\nselect * from g_t")
    project.write("b", "{{ config(batch_by='shop') }}\nselect * from h_t")
    found = {r.batch: r.status for r in project.run(select=["a"]).results}
    assert found == {"DE": Status.PASS, "FR2": Status.FAIL}


def test_batches_of_another_kind_are_an_error(project: Project, table: Table) -> None:
    table("a_t", "select date'2020-01-01' as day, 1 as n")
    project.write("a", CHECKED)
    project.write("b", "{{ config(batch_by='n') }}\nselect n from a_t")
    (found,) = project.run(select=["a"]).results
    assert found.status is Status.ERROR
    assert "the batches of a are of type date, those of b of type int" in found.message


def test_a_condition_is_about_both(project: Project, table: Table) -> None:
    table("c_t", "select id as n from range(10)")
    table("d_t", "select id as n from range(5)")
    checks = '-- @equal_row_count(d_t) {where: "n < 3"}\n-- @equal_row_count(d_t) {where: "n < 6"}'
    project.write("c", f"select n from c_t\n{checks}")
    found = project.run(select=["c"]).results
    assert [(r.status, r.message) for r in found] == [
        (Status.PASS, "row_count where n < 3 is 3; row_count_of(d_t) where n < 3 is 3"),
        (
            Status.FAIL,
            "row_count where n < 6 is 6; row_count_of(d_t) where n < 6 is 5,"
            " expected equal_row_count(d_t)",
        ),
    ]


def test_a_condition_is_named_with_the_rows_that_it_chooses(project: Project, table: Table) -> None:
    table("i_t", "select id, id % 2 as g from range(10)")
    table("j_t", "select id from range(7)")
    check = '@references(j_t, id) {where: "g = 1"}'
    project.write("i", f"select id, -- {check}\n  g from i_t")
    (found,) = project.run(select=["i"]).results
    assert found.message.startswith("2 rows where g = 1 have no match for id in j_t.id")
