"""Contracts of a project: written from check models, read into them, and compared."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Unpack

from dqsql.decisions.contract import ContractChange, contract_changes
from dqsql.errors import ConfigError, Span, UsageError, error_of
from dqsql.loading.contracts.expand import SETTING, read_contract
from dqsql.loading.contracts.odcs import object_names, read_odcs
from dqsql.model.contract import Contract
from dqsql.model.plain_names import plain_name
from dqsql.model.project import CheckModel, Project
from dqsql.model.tables import COLUMNS
from dqsql.report.artefacts import write_atomically
from dqsql.report.odcs import odcs_text
from dqsql.runner.compilation import Place, Where
from dqsql.runner.warehouse import Opening, open_tables, opened


@dataclass(frozen=True)
class ImportedContract:
    """A check model for one object of a contract: its file in the project, and its text."""

    path: str
    text: str
    contract: Contract
    written: bool


def export_contract(model: str, **at: Unpack[Opening]) -> str:
    """A check model as a data contract in ODCS YAML.

    The types of its columns are those of the last run, of others those of its contract. Rules that
    the standard has no words for are written for the engine `dqsql`. Raises DqsqlError.
    """
    where, spark, step = opened(at)
    compiled = where.compile()
    plan = compiled.plan(model)
    if plan.rejected:
        # What is left out would be no part of the contract.
        raise error_of(plan.rejected)
    with open_tables(compiled.project, spark, step) as store:
        rows = [r for r in store.rows(COLUMNS) if r["model"] == model and r["valid_to"] is None]
    types = {r["column_name"]: r["data_type"] for r in sorted(rows, key=lambda r: r["position"])}
    own = _own_contract(compiled.project, plan.model)
    known = {name.lower() for name in types}
    promised = () if own is None else own.columns
    types |= {c.name: c.type for c in promised if c.name.lower() not in known}
    return odcs_text(compiled.project.name, plan, types, () if own is None else own.key)


def _own_contract(project: Project, model: CheckModel) -> Contract | None:
    """The contract that the model itself names, if it has one."""
    setting = model.config.extra.get(SETTING)
    if not isinstance(setting, str | Mapping):
        return None
    return read_contract(setting, project.root, model.name, Span(model.path, text=SETTING))


def import_contract(
    file: str | PathLike[str],
    *,
    name: str | None = None,
    write: bool = False,
    project_dir: str | PathLike[str] = ".",
    **place: Unpack[Place],
) -> tuple[ImportedContract, ...]:
    """Check models for the objects of a data contract: each reads its relation and names the file.

    `file` lies in the project's folder; `name` is the object, None: all of them. With `write` the
    files are written into `checks/`; one that is there is left as it is. Raises DqsqlError.
    """
    project = Where(project_dir, **place).project()
    path, shown = _inside(project.root, Path(file))
    names = object_names(path, shown) if name is None else [name]
    is_only = len(object_names(path, shown)) == 1
    contracts: list[ImportedContract] = []
    for each in names:
        contract = read_odcs(path, shown, each)
        text = _model_text(project, contract, shown if is_only else f"{shown}#{each}")
        taken = {contract.path for contract in contracts}
        numbered = (_file_name(each) + (f"_{n}" if n > 1 else "") for n in itertools.count(1))
        target_file = next(p for n in numbered if (p := f"checks/{n}.sql") not in taken)
        written = write and not (project.root / target_file).exists()
        if written:
            (project.root / "checks").mkdir(exist_ok=True)
            write_atomically(project.root / target_file, text)
        contracts.append(ImportedContract(target_file, text, contract, written))
    return tuple(contracts)


def compare_contracts(
    before: str | PathLike[str], now: str | PathLike[str], name: str | None = None
) -> Mapping[str, tuple[ContractChange, ...]]:
    """What a new version of a contract changes, by object.

    Either may name an object, `contracts/orders.odcs.yaml#orders`; two that are named are compared
    whatever their names are. Raises ConfigError.
    """
    (old, of_old), (new, of_new) = _with_object(before), _with_object(now)
    earlier, later = object_names(old, str(old)), object_names(new, str(new))
    if name is None and of_old and of_new:
        was, is_now = read_odcs(old, str(old), of_old), read_odcs(new, str(new), of_new)
        return {of_new: contract_changes(was, is_now)}
    for path, described in ((old, earlier), (new, later)):
        if not described:
            raise ConfigError(f"{path} describes no objects", span=Span(str(path), text="schema"))
    name = name or of_old or of_new
    names = earlier if name is None else [name]
    if name is not None and name not in (*earlier, *later):
        # The error that says which there are.
        read_odcs(old, str(old), name)
    changes: dict[str, tuple[ContractChange, ...]] = {}
    for each in names:
        if each not in later:
            changes[each] = (ContractChange("removed", True, each),)
            continue
        changes[each] = contract_changes(
            read_odcs(old, str(old), each), read_odcs(new, str(new), each)
        )
    added = [n for n in later if n not in names and name is None]
    return changes | {n: (ContractChange("added", False, n),) for n in added}


def _with_object(given: str | PathLike[str]) -> tuple[Path, str | None]:
    """The file of a contract, and the object in it that is named."""
    file, _, of_file = str(given).partition("#")
    if not Path(file).is_file():
        raise ConfigError(f"there is no contract {str(given)!r}", span=Span(str(given)))
    return Path(file), of_file or None


def _inside(root: Path, file: Path) -> tuple[Path, str]:
    path = file if file.is_absolute() else Path.cwd() / file
    if not path.is_file() and (root / file).is_file():
        path = root / file
    if not path.is_file():
        raise ConfigError(f"there is no contract {str(file)!r}", span=Span(str(file)))
    resolved = path.resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise UsageError(
            f"the contract {str(file)!r} is outside the project",
            hint="check models name it relative to the project: copy it into contracts/",
        )
    return resolved, resolved.relative_to(root.resolve()).as_posix()


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name.lower())


def _model_text(project: Project, contract: Contract, setting: str) -> str:
    # A column that is gone is a finding of the contract's, and no SELECT that does not work.
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in contract.config.items()}
    config = "".join(f", {name} = {text}" for name, text in texts.items())
    return (
        f"{{{{ config(contract = {_jinja_text(setting)}{config}) }}}}\n"
        f"select *\nfrom {_relation(project, contract.name)}\n"
    )


def _jinja_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _relation(project: Project, name: str) -> str:
    """The source of that name, else the table."""
    for source in project.sources:
        if source.table.lower() == name.lower():
            return f"{{{{ source({_jinja_text(source.name)}, {_jinja_text(source.table)}) }}}}"
    return ".".join(plain_name(part) for part in name.split("."))
