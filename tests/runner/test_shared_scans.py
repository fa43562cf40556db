"""Models that read the same rows are scanned once, and nobody can tell by what is found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dqsql.engine import execution
from dqsql.model.results import RunResult
from dqsql.runner.model_run import ModelRun
from dqsql.runner.project_run import ProjectRun

from .conftest import NewProject, Project, by_check

PROFILE = """\
test:
  target: local
  outputs:
    local: {type: spark, method: session, schema: dq, ansi: true}
"""
FROM = "from {{ source('raw', 't') }}"
COLUMNS = {
    "day": "day",
    "id": "id",
    "price": "price",
    "note": "note",
    "place": "upper(place)",
    "half": "id / 2",
}
CHECKS = (
    "unique(id)",
    "approx_count_distinct(id) > 2",
    "mean(price) between 1 and 100",
    "stddev(price) > 100 {scope: cumulative}",
    "median(price) < 90",
    "median(half) < 90 {scope: cumulative}",
    "max(note) < 'n3'",
    "entropy(note) > 0",
    "most_frequent_share(note) < 0.3 {scope: cumulative}",
    "unique(note, place)",
    "not_null(price)",
    "sum(id) > 9 {where: \"place = 'P1'\"}",
    "expect(max(cast(note as int)) > 1)",
    "expect(sum(array(id)) > 1)",
    "references(id, source('raw', 'u'), key => 'k')",
    "row_count > 3",
    "anomaly(row_count)",
    "column_count > 1",
    "schema",
)


def data(days: int) -> str:
    return f"""\
select date '2024-01-01' + cast(id % {days} as int) as day, id, concat('p', id % 2) as place,
    if(id % 11 = 0, null, sqrt(id) * pow(7, id % 5)) as price, concat('n', id % 7) as note
from range({40 * days})
"""


def model(
    columns: Sequence[str] = tuple(COLUMNS),
    checks: Sequence[str] = (),
    where: str = "",
    batch_by: str | None = "day",
) -> str:
    """A model with some columns; all as they are in the source where none are named."""
    config = f"{{{{ config(batch_by = '{batch_by}') }}}}\n" if batch_by else ""
    listed = ",\n    ".join(f"{COLUMNS[c]} as {c}" for c in columns) or "*"
    told = "".join(f"-- @{check}\n" for check in checks)
    return f"{config}select\n    {listed}\n{FROM} {where}\n{told}"


def project_of(new_project: NewProject, models: Sequence[str], name: str) -> Project:
    files: dict[str, str | None] = {f"checks/m{i}.sql": text for i, text in enumerate(models)}
    project = new_project(files={**files, "profiles.yml": PROFILE}, data=data(2), name=name)
    project.data("select id as k from range(150)", "u")
    return project


def alone(patch: pytest.MonkeyPatch) -> None:
    """Scan each model by itself."""
    patch.setattr(ProjectRun, "_sharing", lambda self: {})


def scans(result: RunResult) -> list[int]:
    return [m.scans for m in result.models]


def bytes_read(result: RunResult) -> list[int]:
    return [m.bytes_read or 0 for m in result.models]


def assert_as_alone(
    together: Project, apart: Project, monkeypatch: pytest.MonkeyPatch, threads: int = 1
) -> tuple[RunResult, RunResult]:
    """Run both; the tables are equal."""
    first = together.attempt(threads=threads)
    with monkeypatch.context() as patch:
        alone(patch)
        second = apart.attempt(threads=threads)
    assert together.tables() == apart.tables()
    assert [str(m.error) for m in first.models] == [str(m.error) for m in second.models]
    return first, second


@pytest.mark.parametrize("whole", [True, False])
def test_four_models_are_read_once(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    if not whole:
        # As of many rows: metrics are a statement of their own.
        monkeypatch.setattr(execution, "_READ_TWICE", 0)
    checks = ["mean(price) > 0", "min(id) >= 0", "row_count > 9", "max(half) > 1"]
    columns = [("day", "price"), ("day", "id", "note"), ("day", "place"), ("day", "half")]
    models = [model(c, [check], "where id > 1") for c, check in zip(columns, checks, strict=True)]
    together = project_of(new_project, models, "together")
    apart = project_of(new_project, models, "apart")
    first, second = assert_as_alone(together, apart, monkeypatch)
    assert scans(first) == [2, 0, 0, 0], "for the batches, and for all states"
    assert scans(second) == [2, 2, 2, 2]
    assert bytes_read(first)[0] > 0
    assert bytes_read(first)[1:] == [0, 0, 0]
    assert all(bytes_read(second))
    # One more day.
    for project in (together, apart):
        project.data(data(3))
    first, second = assert_as_alone(together, apart, monkeypatch)
    assert scans(first) == [2, 0, 0, 0]
    assert {m.batches for m in first.models} == {("2024-01-03",)}
    # Nothing new is one question, too.
    for project in (together, apart):
        (project.root / "data" / "t" / "touched").touch()
    first, second = assert_as_alone(together, apart, monkeypatch)
    assert scans(first) == [1, 0, 0, 0]
    assert scans(second) == [1, 1, 1, 1]


def test_a_table_as_it_is_and_some_of_its_columns(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without batches, and with monitors nobody wrote."""
    watched = model((), ["row_count > 3"], batch_by=None).replace(
        FROM, f"{FROM}\n-- @anomaly(mean(price))\n"
    )
    models = [
        model(("id", "note"), ["unique(id)"], batch_by=None)
        .replace("id as id", "id")
        .replace("note as note", "note"),
        watched,
    ]
    together = project_of(new_project, models, "together")
    apart = project_of(new_project, models, "apart")
    first = together.attempt(threads=1)
    with monkeypatch.context() as patch:
        alone(patch)
        second = apart.attempt(threads=1)
    found = []
    for project in (together, apart):
        # Batches are named by when the run began.
        values = {key[1:]: value for key, value in project.metrics().items()}
        statuses = [(r["model"], r["check_name"], r["status"]) for r in project.rows("dq_results")]
        found.append((values, sorted(statuses)))
    assert found[0] == found[1]
    assert len(found[0][0]) > 2
    assert scans(first)[1] == 0
    assert bytes_read(first)[1] == 0
    assert sum(bytes_read(first)) < sum(bytes_read(second))


def test_what_fails_in_one_model_is_told_of_that_one(new_project: NewProject) -> None:
    bad = ["expect(max(cast(note as int)) > 1)", "row_count > 3"]
    models = [model(checks=bad), model(checks=["max(note) < 'n9'"]), "select x\nfrom nowhere"]
    result = project_of(new_project, models, "bad").attempt()
    statuses = [{r.check_name: str(r.status) for r in m.results} for m in result.models]
    assert statuses[0] == {bad[0]: "error", bad[1]: "pass"}
    assert statuses[1] == {"max(note) < 'n9'": "pass"}
    assert "The value 'n0'" in by_check(result)[bad[0]].message


def test_other_batches_are_scanned_apart(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is new has all batches to check, one that is known the new one."""
    old, new = model(checks=["mean(price) > 0"]), model(checks=["max(id) > 0"])
    projects = [project_of(new_project, [old], name) for name in ("together", "apart")]
    for project in projects:
        project.run()
        project.write({"checks/m1.sql": new})
        project.data(data(3))
    first, _ = assert_as_alone(*projects, monkeypatch)
    assert [len(m.batches) for m in first.models] == [1, 3]
    assert scans(first) == [2, 1], "the question which batches there are is asked once"


def test_a_killed_run_heals(new_project: NewProject, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [model(checks=CHECKS[:5]), model(checks=CHECKS[3:9])]
    together = project_of(new_project, models, "together")
    apart = project_of(new_project, models, "apart")
    turns = count()
    work = ModelRun._work

    def killed(self: ModelRun, *found: object) -> object:
        if next(turns):
            raise RuntimeError("killed")
        return work(self, *found)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ModelRun, "_work", killed)
        with pytest.raises(RuntimeError, match="killed"):
            together.attempt()
    first, _ = assert_as_alone(together, apart, monkeypatch)
    assert [len(m.batches) for m in first.models] == [2, 2]


some_models = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(COLUMNS)), unique=True),
        st.lists(st.sampled_from(CHECKS), min_size=1, max_size=6, unique=True),
    ),
    min_size=2,
    max_size=4,
)


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(
    models=some_models,
    wheres=st.sampled_from(["", "where id > 3", "where note <> 'n2' and id % 3 <> 1"]),
    batch_by=st.sampled_from(["day", "date_trunc('month', day)"]),
    threads=st.sampled_from([1, 2]),
)
def test_random_projects_have_the_tables_of_single_scans(
    new_project: NewProject,
    monkeypatch: pytest.MonkeyPatch,
    models: list[tuple[list[str], list[str]]],
    wheres: str,
    batch_by: str,
    threads: int,
) -> None:
    number = next(_NUMBERS)
    texts = []
    for columns, checks in models:
        # A check names the columns that it needs.
        needed = [c for c in COLUMNS if c == "day" or c in columns or c in " ".join(checks)]
        texts.append(model(needed, checks, wheres, batch_by.replace("'", "\\'")))
    together = project_of(new_project, texts, f"together{number}")
    apart = project_of(new_project, texts, f"apart{number}")
    assert_as_alone(together, apart, monkeypatch, threads)
    for project in (together, apart):
        project.data(data(3))
    assert_as_alone(together, apart, monkeypatch, threads)


_NUMBERS = count()
