"""`dqsql init`: write a starter project."""

from __future__ import annotations

import re
from pathlib import Path

import click

from dqsql.cli.group import Command
from dqsql.cli.options import options
from dqsql.cli.session import Session, with_session
from dqsql.errors import ConfigError, UsageError
from dqsql.loading.dbt.project import FILE_NAME as DBT_PROJECT
from dqsql.loading.documents import load_yaml
from dqsql.report.text import printable, shorten
from dqsql.resources import expanded, resource_dir

_STARTER = "starter"
# Files in which the starter's name stands for the project's.
_NAMED = frozenset({"dqsql_project.yml", "profiles.yml"})
# A real .gitignore would apply to the template itself.
_RENAMED = {"gitignore": ".gitignore"}


@click.command("init", cls=Command)
@click.argument("name", required=False)
@options("project_dir")
@with_session
def command(session: Session, *, name: str | None, project_dir: Path) -> int:
    """Write a starter project into the folder NAME, or into the current one without NAME.

    Files that exist are never overwritten.
    """
    parent = expanded(project_dir).resolve()
    folder = parent / name if name is not None else parent
    project = _project_name(name if name is not None else folder.name, given=name is not None)
    written = write_starter(folder, project)
    session.say(f"Created the project {project!r} in {printable(str(folder))}:")
    for file in written:
        session.say(f"  {file}")
    if ".gitignore" not in written:
        session.say("  (.gitignore exists: add target/ and warehouse/ to it)")
    session.say()
    session.say("Next:")
    if folder != Path.cwd():
        session.say(f"  cd {printable(_shown(folder))}")
    session.say("  dqsql debug     # are Java, Spark and the project in order?")
    session.say("  dqsql run       # check data/orders.csv as checks/orders.sql says")
    return 0


def write_starter(folder: Path, project: str) -> tuple[str, ...]:
    """Write the starter project and return the files, relative to the folder.

    Raises ConfigError when a file exists (a `.gitignore` is left as it is) or cannot be written,
    and in a dbt project, which is a project of dqsql's as it is.
    """
    if (folder / DBT_PROJECT).exists():
        raise ConfigError(
            f"{folder} is a dbt project: nothing was written",
            hint="dqsql checks it as it is: `dbt parse`, then `dqsql run --dbt-tests`; a project of"
            " its own needs another folder: dqsql init <name>",
        )
    files = _files(project)
    if (folder / ".gitignore").exists():
        files.pop(".gitignore", None)
    existing = [name for name in files if (folder / name).exists()]
    if existing:
        raise ConfigError(
            f"{folder} already has {', '.join(existing)}: nothing was written",
            hint="choose another folder: dqsql init <name>",
        )
    for name, content in files.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"{folder / name} cannot be written: {reason}") from error
    return tuple(files)


def _files(project: str) -> dict[str, bytes]:
    """The files of the starter project by relative path, in order."""
    template = resource_dir("templates") / _STARTER
    files: dict[str, bytes] = {}
    for file in sorted(f for f in template.rglob("*") if f.is_file()):
        relative = file.relative_to(template)
        content = file.read_bytes()
        if file.name in _NAMED:
            content = re.sub(rb"\bstarter\b", project.encode(), content)
        renamed = relative.with_name(_RENAMED.get(file.name, file.name))
        files[renamed.as_posix()] = content
    return files


def _project_name(name: str, *, given: bool) -> str:
    """The name for the project file; made usable where the user did not choose it."""
    is_text = load_yaml(name) == name if re.fullmatch(r"\w+", name) else True
    if not given:
        name = re.sub(r"\W", "_", name)
        usable = is_text and re.match(r"[^\W\d]", name)
        return name if usable else f"project_{name}".rstrip("_")
    if not is_text:
        raise UsageError(f"the project name {name!r} is no text in YAML", hint="take another name")
    # File systems take 255 bytes, and a letter may have four.
    if not re.fullmatch(r"[^\W\d]\w{,62}", name):
        raise UsageError(
            f"the project name {shorten(name, 100)!r} is not usable",
            hint="use letters, digits and underscores, at most 63; in the folder of the project,"
            " leave the name out",
        )
    return name


def _shown(folder: Path) -> str:
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)
