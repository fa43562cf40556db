"""What a person should know after a run that no check says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dqsql.compiler.auto import SETTING
from dqsql.decisions.constraints import LEFT_TO_DBT
from dqsql.decisions.reviews import ended_with
from dqsql.engine.batches import BatchChoice, BatchRequest
from dqsql.model.batches import TIME_ZONE, is_utc
from dqsql.model.by_key import by_key
from dqsql.model.project import CheckModel, NoData, Project, Target
from dqsql.model.results import BatchRecord, ModelResult, Result, Status
from dqsql.model.tables import MODELS
from dqsql.model.wording import first_of, gone_rows, plural

if TYPE_CHECKING:
    from dqsql.engine.storage_base import Store


def project_warnings(project: Project) -> tuple[str, ...]:
    """What a person should know after a run: stale files, tests that are left to dbt."""
    warnings = (*project.warnings, *_time_zone(project.target), *_unchecked(project.models))
    of_dbt = [m for m in project.models if m.relation is not None]
    if of_dbt and not any(m.annotations or m.config.extra.get(SETTING) for m in of_dbt):
        return (
            *warnings,
            "no model has an annotation; `--dbt-tests` adopts the generic tests of the project",
        )
    left = sum(not t.unique_id.startswith("source.") for t in project.left_tests)
    if not left:
        return warnings
    tests = "1 test of dbt is" if left == 1 else f"{left} tests of dbt are"
    return (
        *warnings,
        f"{tests} left to `dbt test`; `dqsql ls --dbt-tests --resource-type left_test` says which"
        " and why",
    )


def _unchecked(models: Iterable[CheckModel]) -> tuple[str, ...]:
    """What contracts promise and no check is about, in one line."""
    texts = [text for model in models for text in model.unchecked]
    if not texts:
        return ()
    promises = plural(len(texts), "promise of a contract is", "promises of contracts are")
    return (f"{promises} not checked: {first_of(texts, 2)}",)


def _time_zone(target: Target) -> tuple[str, ...]:
    """A time zone that the target asks for in vain: batches must not move with the session."""
    zone = target.spark_conf.get(TIME_ZONE, "UTC")
    if is_utc(zone):
        return ()
    return (
        f"{TIME_ZONE} is {zone} for the target {target.name!r}, and dqsql works in UTC;"
        f" from_utc_timestamp(the_column, '{zone}') in a SELECT gives the times of that zone",
    )


def model_warnings(models: Sequence[ModelResult]) -> Iterator[str]:
    """What a person should know of the models of a run that no check says."""
    yield from _left_while_running(r for m in models for r in m.results)
    yield from (
        f"{m.model} has {gone_rows(m.gone)}"
        for m in models
        if m.gone is not None and m.no_data is not NoData.IGNORE
    )
    yield from _no_rows(models)
    yield from unbatched_warnings(models)


def gone_warnings(
    store: Store,
    gone: Collection[str],
    ledgers: Mapping[str, Mapping[str, BatchRecord]],
    findings: Mapping[str, Sequence[Mapping[str, Any]]],
    new: Iterable[CheckModel],
) -> Iterator[str]:
    """What is told of models that are `gone`: what that ends, or which new one has their text.

    `findings` are the rows of dq_findings by model, `new` the models without a history. Raises
    StorageError.
    """
    if not gone:
        return
    rows = store.select(MODELS, ("model", "checksum", "valid_to"), {"model": sorted(gone)})
    ordered = sorted(rows, key=lambda row: str(row["model"]))
    names = by_key((r["checksum"], r["model"]) for r in ordered if r["valid_to"] is None)
    left = {*gone}
    for model in new:
        if names.get(model.checksum):
            old = names[model.checksum].pop(0)
            left.discard(old)
            batches = plural(len(ledgers[old]), "batch", "batches")
            yield (
                f"{model.name} has the text of {old}, which is gone: if you renamed it, the history"
                f" of {batches} stays under the name {old}, and monitors of {model.name} start"
                f" again. Name it {old} to go on with that history"
            )
    for name in sorted(left):
        yield ended_with(name, ledgers[name], findings.get(name, ()))


def _left_while_running(results: Iterable[Result]) -> Iterator[str]:
    """Sentences about the adopted tests that only the data's types showed to be dbt's."""
    reasons = {
        r.check_name: r.message.removeprefix(LEFT_TO_DBT)
        for r in results
        if r.status is Status.SKIPPED and r.message.startswith(LEFT_TO_DBT)
    }
    return (f"{name} is left to `dbt test`: {reason}" for name, reason in reasons.items())


def nothing_new_note(choice: BatchChoice, request: BatchRequest) -> str:
    """Why a model has no batch to check."""
    if choice.gone is not None:
        return gone_rows(choice.gone)
    asked = request.start or request.end
    return "no batch in the time that was asked for" if asked else "nothing new"


def _no_rows(models: Iterable[ModelResult]) -> Iterator[str]:
    """What is told of batches that were looked for, have no rows and are not stored."""
    for model in models:
        if model.empty:
            names = first_of([repr(batch) for batch in model.empty], 3)
            one = "of batch {}: nothing of it is stored, and once it has rows, it is new"
            many = "of batches {}: nothing of them is stored, and once they have rows, they are new"
            told = (one if len(model.empty) == 1 else many).format(names)
            yield f"{model.model} has no rows {told}"


def unbatched_warnings(models: Iterable[ModelResult]) -> Iterator[str]:
    """What is told of rows that no batch has, so that no check has seen them."""
    for model in models:
        if model.unbatched:
            belong = plural(model.unbatched, "row belongs", "rows belong")
            yield f"{model.model}: {belong} to no batch, because batch_by is null there"
