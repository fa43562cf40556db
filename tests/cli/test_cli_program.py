"""The program as such: help, start-up, exit codes, environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from dqsql.cli.main import COMMANDS, cli
from dqsql.cli.options import expand_multiple, words
from dqsql.errors import ConfigError, EngineError

from .conftest import FakeRun, verdict

# Where nothing is installed, other folders do not know the package.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
HEAVY = ("pyspark", "scipy", "pandas", "numpy", "sqlglot", "statsmodels", "yaml", "jinja2")


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["clean", "--help"]])
def test_help_loads_nothing_heavy(args: list[str]) -> None:
    program = f"""
import sys
from dqsql.cli.main import cli
try:
    cli.main({args!r}, prog_name="dqsql")
except SystemExit as end:
    assert end.code == 0, end.code
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_statistics_and_spark_are_loaded_when_needed() -> None:
    """They take over a second, of which a run that finds nothing new has no use."""
    program = """
import sys
import dqsql.runner.api
late = ("scipy.stats", "scipy.special", "scipy.spatial", "statsmodels", "pandas", "pyspark")
print([name for name in late if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_one_thread_multiplies_small_matrices(given: str | None, expected: str) -> None:
    """Unless the user says otherwise; it is read when numpy is imported."""
    program = """
import os, sys
import dqsql.cli.main
print("numpy" in sys.modules, os.environ["OPENBLAS_NUM_THREADS"])
"""
    name = "OPENBLAS_NUM_THREADS"
    environment = {k: v for k, v in ENVIRONMENT.items() if k != name}
    environment |= {} if given is None else {name: given}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["False", expected]


def test_python_dash_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dqsql", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert done.stdout.startswith("Usage: dqsql [OPTIONS]")


def test_a_reader_that_goes_away_is_no_error(project: Path) -> None:
    """`dqsql ls | head -0`: nobody reads, nobody complains."""
    with subprocess.Popen(
        [sys.executable, "-m", "dqsql", "ls"],
        cwd=project,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (errors, process.returncode) == (b"", 0)


def test_every_command_has_its_module_and_help(dqsql: Callable[..., Result]) -> None:
    listed = dqsql("--help").output
    context = click.Context(cli)
    for name, does in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None and command.name == name
        assert f"  {name}" in listed and does in listed
        assert dqsql(name, "--help").exit_code == 0


def test_version(dqsql: Callable[..., Result]) -> None:
    assert dqsql("--version").output.startswith("dqsql ")


@pytest.mark.parametrize(
    "args", [["rnu"], ["run", "--no-such-option"], ["run", "--output", "xml"], ["run", "extra"]]
)
def test_a_wrong_command_line_exits_2(dqsql: Callable[..., Result], args: list[str]) -> None:
    result = dqsql(*args)
    assert result.exit_code == 2
    assert "Usage: dqsql" in result.output
    assert "Traceback" not in result.output


def test_an_unknown_command_gets_the_nearest_name(dqsql: Callable[..., Result]) -> None:
    assert "did you mean 'run'?" in dqsql("rnu").output


def test_errors_of_dqsql_are_a_block_without_traceback(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.error = EngineError("Spark is away", hint="call it back")
    result = dqsql("run")
    assert result.exit_code == 2
    assert "engine error: Spark is away\n  hint: call it back\n" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("how", ["flag", "group", "environment"])
def test_debug_shows_the_traceback(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun, how: str
) -> None:
    fake_run.error = ConfigError("no")
    result = {
        "flag": lambda: dqsql("run", "--debug"),
        "group": lambda: dqsql("--debug", "run"),
        "environment": lambda: dqsql("run", DQSQL_DEBUG="1"),
    }[how]()
    assert result.exit_code == 2
    assert "Traceback (most recent call last)" in result.stderr


def test_a_defect_is_not_hidden(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.error = ZeroDivisionError("oh")
    result = dqsql("run")
    assert result.exit_code == 2
    assert "ZeroDivisionError: oh" in result.stderr
    assert result.stderr.endswith(
        "This is a bug in dqsql: please report it with the lines above.\n"
    )


def test_an_end_of_file_inside_is_a_defect_not_an_interrupt(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.error = EOFError("socket")
    result = dqsql("run")
    assert result.exit_code == 2
    assert "EOFError: socket" in result.stderr


def test_an_interrupt_exits_130_with_one_line(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.error = KeyboardInterrupt()
    result = dqsql("run")
    assert result.exit_code == 130
    assert result.stderr.strip().count("\n") == 0
    assert result.stderr.strip().startswith("Interrupted")


def test_environment_variables(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun, tmp_path: Path
) -> None:
    result = dqsql(
        "run",
        DQSQL_PROJECT_DIR=str(project),
        DQSQL_SELECT="orders tag:shop",
        DQSQL_FULL_REFRESH="true",
        DQSQL_BATCH="2025-03-01 06:00:00, 2025-03-02 06:00:00,",
        DQSQL_VARS="{min_orders: 1}",
        DQSQL_QUIET="1",
    )
    assert (result.exit_code, result.output) == (0, "")
    (call,) = fake_run.calls
    assert call["project_dir"] == project
    assert call["select"] == ("orders", "tag:shop")
    assert call["full_refresh"] is True
    assert call["batches"] == ("2025-03-01 06:00:00", "2025-03-02 06:00:00")
    assert call["vars"] == "{min_orders: 1}"


def test_an_output_of_another_command_in_the_environment(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    for command in ("compile", "ls", "run"):
        found = dqsql(command, DQSQL_OUTPUT="github", DQSQL_PROJECT_DIR=str(project))
        assert found.exit_code == 0, found.output
    refused = dqsql("compile", "--output", "github", DQSQL_PROJECT_DIR=str(project))
    assert refused.exit_code == 2
    assert dqsql("ls", DQSQL_OUTPUT="gitlab", DQSQL_PROJECT_DIR=str(project)).exit_code == 2


@pytest.mark.parametrize("option", ["--select", "--exclude"])
def test_tables_that_are_watched_are_not_selected(
    dqsql: Callable[..., Result], project: Path, option: str
) -> None:
    found = dqsql("run", "--auto", "sales.*", option, "x", DQSQL_PROJECT_DIR=str(project))
    assert found.exit_code == 2
    assert "--auto about tables without any" in found.output


@pytest.mark.parametrize("name", ["yes", "null", "off"])
def test_names_of_projects_are_texts(
    dqsql: Callable[..., Result], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is no text in YAML" in dqsql("init", name).output
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert dqsql("init").exit_code == 0
    assert f"name: project_{name}" in (folder / "dqsql_project.yml").read_text()


def test_the_command_line_beats_the_environment(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    dqsql("run", "--select", "orders", DQSQL_SELECT="nothing")
    assert fake_run.calls[0]["select"] == ("orders",)


def test_options_before_the_command(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    assert dqsql("--quiet", "run").output == ""
    assert "\x1b[" in dqsql("--color", "run").output
    assert "\x1b[" not in dqsql("--color", "run", "--no-color").output


def test_colour_is_off_where_no_terminal_is(
    dqsql: Callable[..., Result], project: Path, fake_run: FakeRun
) -> None:
    fake_run.verdicts = (verdict("x", fake_run.verdicts[0].status),)
    assert "\x1b[" not in dqsql("run").output


def test_several_values_behind_one_option() -> None:
    params = [
        click.Option(["--select", "-s"], multiple=True),
        click.Option(["--exclude"], multiple=True),
        click.Option(["--target"]),
        click.Option(["--quiet"], is_flag=True),
    ]
    expand = lambda text: " ".join(expand_multiple(text.split(), params))  # noqa: E731
    assert expand("-s a b --exclude c") == "-s a -s b --exclude c"
    assert expand("--select=a b --target dev") == "--select=a --select b --target dev"
    assert expand("--target dev x") == "--target dev x"
    assert expand("--quiet x -s a") == "--quiet x -s a"
    assert expand("-s a -- b c") == "-s a -- b c"
    assert expand_multiple(["-s", "a", "b"], [*params, click.Argument(["name"])]) == [
        "-s",
        "a",
        "b",
    ]


def test_words() -> None:
    assert words(["a b", "c", " "]) == ("a", "b", "c")


def test_arrow_finds_pandas_when_a_session_is_opened(tmp_path: Path) -> None:
    """A quarter of a second, of which a run that finds nothing new has no use."""
    program = """
import sys
from dqsql.cli import main
from dqsql.engine import late_pandas
from dqsql.engine.storage import open_tables
from dqsql.model.project import Target
from dqsql.model.tables import RUNS
main.late_pandas.postpones = True
store = open_tables(Target("p", "t", warehouse=sys.argv[1]))
print("pyarrow.dataset" in sys.modules, list(store.rows(RUNS)), "pandas" in sys.modules)
late_pandas.find_pandas()
import pandas, pyarrow
print(pyarrow.array(pandas.Series([1.5, float("nan")])).null_count)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert done.stdout.splitlines() == ["True [] False", "1"]
