"""The lines that `dqsql run` prints, in the manner of dbt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from dqsql.model.batches import batch_order
from dqsql.model.events import RunListener
from dqsql.model.project import NoData, Severity
from dqsql.model.results import BatchFinding, ModelResult, RunResult, Status
from dqsql.model.wording import first_of, plural
from dqsql.report import findings
from dqsql.report.errors import print_error
from dqsql.report.terminal import Progress, Terminal
from dqsql.report.text import duration, file_size, padded, printable, shorten

_MAX_FINDINGS = 10
_MAX_BATCHES = 10
_MAX_NAMED = 3
# Of a run of more models the last line names those that failed, of which so many.
_MANY_MODELS, _MOST_FAILED = 20, 10
_WIDTH = 80
_COLORS = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.NO_DATA: "yellow",
    Status.FAIL: "red",
    Status.ERROR: "red",
    Status.SKIPPED: "dim",
}
_LABELS = {Status.NO_DATA: "NODATA", Status.SKIPPED: "SKIP"}


def label(status: Status) -> str:
    """Return the word for a status on the console: PASS, WARN, FAIL, NODATA, ERROR, SKIP."""
    return _LABELS.get(status, status.value.upper())


def styled_label(status: Status, out: Terminal) -> str:
    """The word in the colour of the status."""
    return out.style(label(status), _COLORS[status])


class ConsoleListener(RunListener):
    """Prints the progress of a run, the spinner on standard error; or failures only, if `quiet`.

    The files of errors may be relative to `roots`. `places` are file and line of checks by their
    ids, as `checks/flights.sql:12`, and `upstream` the models that each reads (`models_upstream`);
    `clock` gives the time at the beginning of each line.
    """

    def __init__(
        self,
        out: Terminal,
        progress: Progress,
        *,
        quiet: bool = False,
        roots: Sequence[Path] = (),
        places: Mapping[str, str] | None = None,
        upstream: Mapping[str, Collection[str]] | None = None,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._out = out
        self._progress = progress
        self._quiet = quiet
        self._roots = roots
        self._places = places or {}
        self._upstream = upstream or {}
        self._batches_done = 0
        self._bytes_done = 0
        self._sizes: Mapping[str, int] = {}
        self._place_in_run = ""
        self._clock = clock

    def run_started(self, run_id: str, models: int, checks: int, target: str) -> None:
        """Print what was found in the project."""
        self._say(
            f"Found {plural(models, 'check model')}, {plural(checks, 'check')}, target {target}"
        )

    def inputs_found(self, sizes: Mapping[str, int]) -> None:
        """Remember the sizes, for the share that is done."""
        self._sizes = sizes

    def session_starting(self) -> None:
        """Show that Spark is starting."""
        self._progress.step("Starting Spark")

    def model_started(self, index: int, total: int, model: str) -> None:
        """Print the line `1 of 3 START check model flights ........ [RUN]`."""
        text = f"{index} of {total} START check model {printable(model)} "
        self._say(f"{padded(text, _WIDTH - 7, '.')} {'[RUN]'}")
        self._place_in_run = self._place(index, total, self._sizes.get(model))
        self._progress.step(f"{printable(model)}{self._place_in_run}")

    def _place(self, index: int, total: int, size: int | None) -> str:
        """How far the run is: by bytes where those of all models are known, else by models."""
        parts = [] if size is None else [f"{file_size(size)} to read"]
        if total > 1:
            known = sum(self._sizes.values()) if len(self._sizes) == total else 0
            share = self._bytes_done / known if known else (index - 1) / total
            parts = [f"model {index} of {total}", f"{int(100 * share)}%", *parts]
        if self._batches_done:
            done = plural(self._batches_done, "batch")
            read = f" and {file_size(self._bytes_done)}" if self._bytes_done else ""
            parts.append(f"{done}{read} done")
        return f" ({', '.join(parts)})" if parts else ""

    def model_step(self, model: str, step: str) -> None:
        """Show the step."""
        self._progress.step(printable(f"{model}: {step}{self._place_in_run}"))

    def tasks_done(self, done: int, total: int) -> None:
        """Show how far Spark is with what it is at."""
        self._progress.note(f"{done:,} of {total:,} tasks done")

    def model_finished(self, index: int, total: int, result: ModelResult) -> None:
        """Print the model's line, its error and its findings."""
        self._progress.step("")
        self._batches_done += len(result.batches)
        self._bytes_done += self._sizes.get(result.model, 0)
        status = result.status
        if not self._quiet or status in (Status.FAIL, Status.ERROR):
            text = (
                f"{index} of {total} {styled_label(status, self._out)} {printable(result.model)}: "
            )
            self._line(f"{text}{_outcome(result)}")
        if result.error is not None:
            with self._progress.hidden():
                print_error(self._out, result.error, self._roots)
        self._print_findings(result)
        for note in result.notes:
            self._say(f"  note: {printable(note)}")

    def run_finished(self, result: RunResult) -> None:
        """Print the summary."""
        self._progress.step("")
        # Of a run that checks nothing they are all that there is, as of a model that was renamed.
        for warning in () if self._quiet and result.models else result.warnings:
            self._line(f"{self._out.style('WARNING', 'yellow')} {printable(warning)}")
        if self._quiet:
            return
        if not result.models:
            self._say("Nothing to do.")
            return
        counts = findings.tally(*result.models)
        self._print_batches(result)
        self._print("")
        self._say(f"{_work_done(result)} in {duration(result.seconds)}.")
        self._say(self._verdict(result))
        numbers = " ".join(f"{label(status)}={n}" for status, n in counts.items())
        self._say(f"Done. {numbers} TOTAL={sum(counts.values())}")

    def _print_findings(self, result: ModelResult) -> None:
        groups = findings.group_findings(result.results, result.groups)
        if self._quiet:
            groups = tuple(g for g in groups if g.status in (Status.FAIL, Status.ERROR))
        roots, following = findings.parted(groups, result.groups)
        for group in roots[:_MAX_FINDINGS]:
            self._print(f"            {self._finding(group, len(result.batches))}")
        if following:
            names = list(map(findings.label_of, following))
            summary = plural(len(names), "warning follows", "warnings follow")
            self._print(f"            {summary} from these: {first_of(names, _MAX_NAMED)}")
        rest = len(roots) - _MAX_FINDINGS
        if rest > 0:
            self._print(f"            ... and {rest} more: see dq_results or `dqsql report`")

    def _print_batches(self, result: RunResult) -> None:
        """Print what several checks found in the same batch: failures, the newest, upstream first.

        Batches in which the same checks failed have one line.
        """
        several = (g for m in result.models for g in m.groups if len(g.findings) > 1)
        groups = sorted(
            findings.repeated(several), key=lambda g: batch_order(g.newest.batch), reverse=True
        )
        groups.sort(key=lambda g: g.newest.severity is not Severity.ERROR)
        if not groups:
            return
        reported = {(m.model, g.batch) for m in result.models for g in m.groups}
        self._print("")
        self._say("Batches with several findings:")
        for group in groups[:_MAX_BATCHES]:
            causes = self._causes(group.newest, reported)
            self._print(f"            {self._batch(group)}{causes}")
        rest = len(groups) - _MAX_BATCHES
        if rest > 0:
            batches = sum(len(g.batches) for g in groups[_MAX_BATCHES:])
            self._print(f"            ... and {plural(batches, 'more batch', 'more batches')}")

    def _causes(self, finding: BatchFinding, reported_batches: Collection[tuple[str, str]]) -> str:
        first = findings.odd_upstream(
            finding.model, finding.batch, reported_batches, self._upstream
        )
        return f"; may follow from {printable(first)}" if first else ""

    def _batch(self, group: findings.RepeatedFinding) -> str:
        newest = group.newest
        status = Status.FAIL if newest.severity is Severity.ERROR else Status.WARN
        where = f"{printable(newest.model)} {group.extent}".strip()
        text = shorten(findings.describe_batch(newest), 400)
        return f"{styled_label(status, self._out)} {where}: {text}"

    def _finding(self, group: findings.FindingGroup, batches: int) -> str:
        # A run need not list its batches (one without `batch_by` may not), the findings do.
        known = max(batches, group.batches)
        place = self._places.get(group.check_id)
        described = shorten(findings.describe(group, known), 400)
        text = f"{styled_label(group.status, self._out)} {described}"
        return text if place is None else f"{text} {self._out.style(f'({place})', 'dim')}"

    def _verdict(self, result: RunResult) -> str:
        counts = findings.tally(*result.models)
        models, why = result.models, Status.ERROR.words
        empty = sum(m.gone == 0 and m.no_data is NoData.ERROR for m in models)
        lost = ("model without the rows that it had", "models without the rows that they had")
        counted = (
            (counts[Status.ERROR], f"error ({why})", f"errors ({why})"),
            (counts[Status.FAIL], "failure", "failures"),
            (counts[Status.WARN], "warning", "warnings"),
            (counts[Status.NO_DATA], "verdict without data", "verdicts without data"),
            (sum(len(m.waiting) for m in models), "unreviewed batch", "unreviewed batches"),
            (empty, "model without rows", "models without rows"),
            (sum(bool(m.gone) for m in models), *lost),
            (sum(m.left_out for m in models), "model not reached", "models not reached"),
            (sum(m.unbatched for m in models), "row without a batch", "rows without a batch"),
        )
        problems = [plural(*problem) for problem in counted if problem[0]]
        if not problems:
            return self._out.style("Completed successfully", "green")
        color = "yellow" if result.exit_code == 0 else "red"
        failed = [m.model for m in models if m.status in (Status.FAIL, Status.ERROR)]
        # Of few models, their lines are still on the screen.
        many = failed and len(models) > _MANY_MODELS
        where = f"; failed: {printable(first_of(failed, _MOST_FAILED))}" if many else ""
        return self._out.style(f"Completed with {', '.join(problems)}{where}", color)

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._line(text)

    def _line(self, text: str) -> None:
        self._print(f"{self._clock():%H:%M:%S}  {text}")

    def _print(self, text: str) -> None:
        with self._progress.hidden():
            self._out.line(text)


def _outcome(result: ModelResult) -> str:
    """What happened to a model, after its name."""
    if result.error is not None and not result.results:
        return f"could not be checked (after {duration(result.seconds)})"
    waiting = ""
    if result.waiting:
        batches = first_of([printable(b) for b in result.waiting], _MAX_BATCHES)
        count = plural(len(result.waiting), "flagged batch", "flagged batches")
        waiting = f", {count} to be reviewed: {batches}"
    if result.waiting and not result.results:
        return f"nothing new{waiting}"
    if result.skipped:
        return printable(result.skipped)
    if not result.batches and not result.results:
        return "nothing new, every batch has been checked"
    counts = findings.tally(result)
    parts = [f"{n:,} {status.words}" for status, n in counts.items() if n]
    return (
        f"{plural(len(result.batches), 'batch')}, {plural(result.checks, 'check')}, "
        f"{plural(sum(counts.values()), 'verdict')}: {', '.join(parts) or 'none'} "
        f"in {duration(result.seconds)}{waiting}"
    )


def _work_done(result: RunResult) -> str:
    models = result.models
    batches = sum(len(m.batches) for m in models)
    if models and not batches and not any(m.results or m.error for m in models):
        if all(m.gone is not None for m in models):
            return f"No rows: {plural(len(models), 'check model')} looked at"
        return f"Nothing new: {plural(len(models), 'check model')} looked at"
    return (
        f"Checked {plural(len(models), 'model')}, {plural(batches, 'batch')}, "
        f"{plural(sum(m.rows for m in models), 'row')} "
        f"with {plural(sum(m.scans for m in models), 'scan')}"
    )
