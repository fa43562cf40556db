"""Streams: every micro-batch is a batch, and its checks decide whether it goes on.

Structured Streaming gives a micro-batch the same number when it is repeated after a restart. That
number is the batch's name here, so that what was stored of it is replaced: however often a query is
killed, no row is lost and none is there twice.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.engine.ledger import read_ledgers
from dqsql.engine.storage import open_store
from dqsql.errors import CheckFailedError, UsageError, error_of, nearest
from dqsql.model.events import RunListener
from dqsql.model.limits import refuse_shared_tables
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord, BatchStatus, ModelResult, Status
from dqsql.model.tables import RUNS
from dqsql.runner.compilation import CompileResult, Place, Where, compile_project
from dqsql.runner.project_run import ProjectRun
from dqsql.runner.request import STREAM, RunRequest
from dqsql.runner.warehouse import ensure_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOP, QUARANTINE, WARN = "stop", "quarantine", "warn"
_ON_FAILURE = (STOP, QUARANTINE, WARN)
_DIGITS = 12

_Sink = Callable[["DataFrame", int], None]


def stream(
    rows: DataFrame,
    model: str,
    project_dir: str | PathLike[str] = ".",
    *,
    checkpoint: str | PathLike[str],
    source: str | None = None,
    on_failure: str = STOP,
    then: _Sink | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    listener: RunListener | None = None,
    **place: Unpack[Place],
) -> StreamingQuery:
    """Check a stream with a check model, each micro-batch as a batch, and start it.

    Args:
        rows: a streaming DataFrame, which the model reads instead of its source.
        model: name of the check model; its `batch_by` is ignored here.
        project_dir: folder of `dqsql_project.yml`.
        checkpoint: folder where Spark stores the progress of the query; one for each stream.
        source: the source that the stream replaces (`shop.orders`), if the model reads several.
        on_failure: what happens to a micro-batch on which a check of severity `error` fails.
            `stop`: the query ends with an error, and repeats the batch when it is started again.
            `quarantine`: its bad rows (all rows if the check is not about single rows) go to the
            quarantine table, good rows are passed on. `warn`: all rows are passed on.
        then: called with the rows that are passed on (the result of the model's SELECT) and the
            number of the micro-batch. It is called again when a batch is repeated.
        trigger: arguments of Spark's `trigger`, for example `{"availableNow": True}`.
        name: put before the numbers in the names of batches; also the query's name in Spark.
        **place: target, profile and variables, as in `Place`.
        listener: receives the progress.

    Returns:
        Spark's query, which is running. An error of a micro-batch ends it: `awaitTermination()`
        raises it.

    Raises:
        DqsqlError: the project or an argument is wrong.
    """
    if not getattr(rows, "isStreaming", False):
        raise UsageError("the DataFrame is not a stream", hint="read it with spark.readStream")
    checker = stream_checker(
        model,
        project_dir,
        checkpoint=checkpoint,
        source=source,
        on_failure=on_failure,
        then=then,
        name=name,
        listener=listener,
        **place,
    )
    writer = rows.writeStream.foreachBatch(checker.check)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def stream_checker(
    model: str,
    project_dir: str | PathLike[str] = ".",
    *,
    checkpoint: str | PathLike[str] | None = None,
    source: str | None = None,
    on_failure: str = STOP,
    then: _Sink | None = None,
    name: str | None = None,
    listener: RunListener | None = None,
    **place: Unpack[Place],
) -> MicroBatches:
    """What `stream` passes to `foreachBatch`, for queries that you start yourself.

    Raises DqsqlError: the project or an argument is wrong.
    """
    if on_failure not in _ON_FAILURE:
        raise UsageError(
            f"on_failure is {on_failure!r}", hint=f"write one of {', '.join(_ON_FAILURE)}"
        )
    compiling = partial(
        compile_project, project_dir, select=(f"name:{model}",), change=_without_batches, **place
    )
    view = f"dqsql_stream__{uuid.uuid4().hex}"
    compiled = compiling(in_place_of={_source_of(model, source, compiling()): view})
    compiled.raise_errors()
    if not any(plan.checks or plan.monitors for plan in compiled.plans):
        raise UsageError(
            f"{model} has no checks that are enabled",
            hint="without checks, no row can be held back",
        )
    splits = on_failure == QUARANTINE
    refuse_shared_tables([p.model for p in compiled.plans], compiled.project, splits)
    ensure_target(compiled.project)
    return MicroBatches(
        Where(project_dir, **place),
        compiled,
        model,
        view,
        on_failure,
        then,
        name,
        None if checkpoint is None else str(checkpoint),
        listener or RunListener(),
    )


def _without_batches(model: CheckModel) -> CheckModel:
    return replace(model, config=replace(model.config, batch_by=None))


def _source_of(model: str, source: str | None, compiled: CompileResult) -> str:
    """The source that the stream takes the place of. Raises UsageError."""
    models = {m.name: m for m in compiled.project.models}
    if model not in models:
        raise UsageError(f"there is no check model {model}", hint=nearest(model, list(models)))
    if source is not None:
        return source
    if wrong := compiled.project.broken.get(model):
        raise error_of(wrong)
    read = [s for s in compiled.project.sources if s.unique_id in models[model].depends_on]
    if len(read) == 1:
        return read[0].full_name
    if not read:
        raise UsageError(
            f"{model} itself reads no source that a stream could replace",
            hint="let its SELECT read source(..), or name a source that it reads by way of another"
            " model: source='shop.orders'",
        )
    raise UsageError(
        f"{model} reads several sources: which one is the stream?",
        hint=" or ".join(f"source='{s.full_name}'" for s in read),
    )


@dataclass
class MicroBatches:
    """Checks the micro-batches of one stream; `check` is what `foreachBatch` calls."""

    where: Where
    compiled: CompileResult
    model: str
    view: str
    on_failure: str
    then: _Sink | None
    name: str | None
    checkpoint: str | None
    listener: RunListener
    _query: str | None = field(default=None, init=False)

    def check(self, rows: DataFrame, number: int) -> None:
        """Check one micro-batch.

        Raises DqsqlError: it could not be checked, or may not go on. Then the query ends, and
        repeats the micro-batch when it is started again.
        """
        # Imported here because it starts with pyspark, which takes half a second.
        from dqsql.engine.session_use import drop_view, using_session

        spark = rows.sparkSession
        batch = self.batch(number)
        # Checked, split and handed on: the source is to be read once.
        cached = rows.storageLevel.useMemory or rows.storageLevel.useDisk
        kept = rows if cached else rows.persist()
        try:
            kept.createOrReplaceTempView(self.view)
            run = self._run(spark, batch, number)
            # Good rows are read by way of the run's views.
            with using_session(spark, run.compiled.project.log_dir):
                (model,) = run.execute(spark).models
                self._refuse(model, run.ledgers[self.model].get(batch))
                if self.then is not None:
                    good = run.good.get(self.model)
                    self.then(self._rows(spark) if good is None else good, number)
        finally:
            drop_view(spark, self.view)
            if not cached:
                kept.unpersist()

    def batch(self, number: int) -> str:
        """The name of a micro-batch."""
        text = f"{number:0{_DIGITS}d}"
        return text if self.name is None else f"{self.name}-{text}"

    def _run(self, spark: SparkSession, batch: str, number: int) -> ProjectRun:
        query = self._query_id(spark)
        self._refuse_other_stream(spark, batch, query)
        request = RunRequest(
            self.where,
            select=(self.model,),
            quarantine=True if self.on_failure == QUARANTINE else None,
            only_new=True,
            labels={self.model: batch},
            stream={"query": query, "micro_batch": number, "on_failure": self.on_failure},
        )
        arguments = request.arguments(self.compiled.project)
        return ProjectRun(self.compiled, request, self.listener, arguments)

    def _rows(self, spark: SparkSession) -> DataFrame:
        """All rows of the micro-batch, as the model's SELECT gives them."""
        from dqsql.engine.relations import read_model

        (plan,) = self.compiled.plans
        return read_model(spark, plan.model)

    def _refuse(self, model: ModelResult, record: BatchRecord | None) -> None:
        """Raise what keeps a micro-batch from going on."""
        if model.error is not None:
            raise model.error
        if record is None:
            raise CheckFailedError(f"{self.model} was not checked: it has no checks")
        failed = [r for r in model.results if r.status in (Status.ERROR, Status.FAIL)]
        reasons = "; ".join(r.message or r.check_name for r in failed)
        if record.status is BatchStatus.ACCEPTED:
            return
        if self.on_failure in (WARN, QUARANTINE) and record.status is not BatchStatus.INCOMPLETE:
            return
        raise CheckFailedError(
            f"micro-batch {record.batch} of {self.model} is held back: {reasons}",
            hint=f"repair the data, or `dqsql review accept {self.model} {record.batch}"
            " --reason '..'`, and start the query again",
        )

    def _query_id(self, spark: SparkSession) -> str | None:
        """What Spark calls the query, also after a restart; None where that is not to be had."""
        from dqsql.engine.frames import query_id

        if self._query is None and self.checkpoint is not None:
            self._query = query_id(spark, self.checkpoint)
        return self._query

    def _refuse_other_stream(self, spark: SparkSession, batch: str, query: str | None) -> None:
        """Raise UsageError where the batch was checked by a query with another checkpoint.

        Its numbers begin at 0 again, and would replace what is stored of other rows.
        """
        store = open_store(spark, self.compiled.project.target)
        ledger = read_ledgers(store).get(self.model, {})
        record = ledger.get(batch)
        if record is None or query is None:
            return
        runs = store.select(RUNS, ("arguments",), {"run_id": [record.run_id]})
        queries = [json.loads(r["arguments"]).get(STREAM, {}).get("query") for r in runs]
        # A query repeats its newest micro-batch alone, also where its run was killed and is in no
        # table. The run of an older one may have been deleted by `clean`.
        alike = re.compile(re.escape(batch[:-_DIGITS]) + rf"\d{{{_DIGITS}}}").fullmatch
        unknown = not queries and batch != max(filter(alike, ledger))
        if unknown or any(before not in (None, query) for before in queries):
            raise UsageError(
                f"micro-batch {batch} of {self.model} was checked by another query: its rows"
                " would be replaced",
                hint="has the checkpoint been deleted? Give this query another `name`",
            )
