"""Findings put together so that a person can read them: one line per check, the worst first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dqsql.model.by_key import by_key
from dqsql.model.results import (
    CONSTRAINT,
    STATUS_ORDER,
    BatchFinding,
    ModelResult,
    Result,
    RunResult,
    Status,
    distance_outside,
    worst_status,
)
from dqsql.model.wording import in_segments, plural, range_words
from dqsql.report.text import number, printable, shorten

# Characters of the name of a check in a list or a message.
SHORT_NAME = 120

_MAX_MESSAGE = 300
# Characters of a message where there is room for it.
LONG = 2000
# So many warnings that follow from others are told in one line.
_SEVERAL = 2
# Further root symptoms of a batch that one line names.
_MAX_ROOTS = 3


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """The findings of one check with one status, over any number of batches and segments."""

    status: Status
    check_id: str
    check_name: str
    column: str | None
    findings: tuple[Result, ...]
    worst: Result

    @property
    def batches(self) -> int:
        """In how many batches."""
        return len({r.batch for r in self.findings})

    @property
    def segments(self) -> int:
        """In how many segments; 0 when the findings are about whole batches."""
        return len({r.segment for r in self.findings if r.segment is not None})


def tally(*models: ModelResult) -> dict[Status, int]:
    """Numbers of verdicts by status. Models that could not be checked count as errors."""
    counts = {status: sum(m.count(status) for m in models) for status in Status}
    counts[Status.ERROR] += sum(m.error is not None and not m.results for m in models)
    return counts


def tally_record(*models: ModelResult) -> dict[str, int]:
    """The same under the names of the statuses, with their total."""
    counts = tally(*models)
    return {**{status.value: n for status, n in counts.items()}, "total": sum(counts.values())}


def run_status(result: RunResult) -> Status:
    """Return the worst status of the run's models."""
    return worst_status(m.status for m in result.models)


def group_findings(
    results: Iterable[Result], batches: Iterable[BatchFinding] = ()
) -> tuple[FindingGroup, ...]:
    """Return the findings among the results, grouped by check and status.

    The worst statuses come first; within one status the checks with the most batches, and of as
    many those that come first where the findings of `batches` are ranked.
    """
    place: dict[str, int] = {}
    for batch in batches:
        for rank, finding in enumerate(batch.findings):
            check_id = finding.result.check_id
            place[check_id] = min(rank, place.get(check_id, rank))
    groups = by_key(((r.check_id, r.status), r) for r in results if r.is_finding)
    made = [_group(status, findings) for (_, status), findings in groups.items()]

    def urgency(group: FindingGroup) -> tuple[int, int, int, str]:
        behind = place.get(group.check_id, len(place))
        return STATUS_ORDER.index(group.status), -group.batches, behind, group.check_id

    return tuple(sorted(made, key=urgency))


def parted(
    groups: Sequence[FindingGroup], batches: Iterable[BatchFinding]
) -> tuple[Sequence[FindingGroup], Sequence[FindingGroup]]:
    """The findings to tell, and the warnings of what learns that only follow from them.

    `batches` say what follows from what: a file that lacks rows moves metrics of all columns. One
    such warning is told like the others.
    """
    follow = {f.result.id for batch in batches for f in batch.findings if f.cause is not None}
    roots: list[FindingGroup] = []
    rest: list[FindingGroup] = []
    for group in groups:
        learned = group.status is Status.WARN and group.worst.detector != CONSTRAINT
        follows = learned and all(r.id in follow for r in group.findings)
        (rest if follows else roots).append(group)
    return (roots, rest) if len(rest) >= _SEVERAL else (groups, ())


def _group(status: Status, findings: list[Result]) -> FindingGroup:
    first = findings[0]
    worst = max(findings, key=_badness)
    return FindingGroup(
        status, first.check_id, first.check_name, first.column, tuple(findings), worst
    )


def _badness(result: Result) -> tuple[bool, float, str]:
    """How far the observation lies outside its bounds; the newest batch where that is not known.

    A whole batch before segments: the smallest of these are the furthest off.
    """
    distance = distance_outside(result.observed, result.lower, result.upper)
    return (result.segment is None, distance, result.batch or "")


def expectation(result: Result) -> str | None:
    """Return the demanded interval in words, None when the check has no simple bounds."""
    demanded = range_words(result.lower, result.upper, number)
    return None if demanded is None else f"expected {demanded}"


def observation(result: Result, most: int = _MAX_MESSAGE) -> str:
    """Return what was seen and what was expected: the check's own message where it has one.

    `most` is how many characters of it are told.
    """
    if result.message:
        return shorten(printable(result.message), most)
    seen = result.observed_text if result.observed is None else number(result.observed)
    parts = (f"observed {seen}" if seen else None, expectation(result))
    return printable(", ".join(p for p in parts if p)) or result.status.value


def beside_label(result: Result) -> str:
    """Return the observation without what was expected, where the check's name says it already."""
    return observation(result).removesuffix(f", expected {printable(result.check_name)}")


def check_label(name: str, column: str | None, most: int | None = None) -> str:
    """Return `mean on dep_delay`, or the name alone for a check about the model or naming it.

    Of a name, which may list accepted values, at most so many characters where `most` is given.
    """
    shown = shorten(name, most or len(name))
    if column is None or re.search(rf"(?<!\w){re.escape(column)}(?!\w)", shown, re.IGNORECASE):
        return printable(shown)
    return printable(f"{shown} on {column}")


def label_of(found: Result | FindingGroup) -> str:
    """The check of a verdict, or of several, for people."""
    return check_label(found.check_name, found.column)


def place(result: Result) -> str:
    """Return the batch and segment of a verdict: `2013-02-09 [EWR]`, empty without batches."""
    segment = f" [{result.segment}]" if result.segment is not None else ""
    return printable(f"{result.batch or ''}{segment}".strip())


def describe(group: FindingGroup, batches: int) -> str:
    """Return one line about the group; `batches` is how many the model had in the run."""
    label = label_of(group)
    worst = group.worst
    seen = beside_label(worst)
    alike = [r for r in group.findings if r.batch == worst.batch]
    if len(group.findings) > 1 and len(alike) == len(group.findings) and worst.segment is None:
        where = printable(in_segments(None, (r.segment for r in alike)))
        return f"{label}: {f'{place(worst)}: ' if batches > 1 else ''}{seen}{where}"
    if len(group.findings) == 1:
        if batches > 1 and (where := place(worst)):
            return f"{label}: {where}: {seen}"
        return f"{f'{label} {place(replace(worst, batch=None))}'.rstrip()}: {seen}"
    extent = f"{group.batches:,} of {plural(batches, 'batch')}"
    if group.segments > 1:
        extent += f", {plural(group.segments, 'segment')}"
    return f"{label}: {extent}, worst {place(worst)} ({seen})"


@dataclass(frozen=True, slots=True)
class RepeatedFinding:
    """Batches of a model, oldest first, in which the same checks found something."""

    batches: tuple[BatchFinding, ...]

    @property
    def newest(self) -> BatchFinding:
        """The newest of them."""
        return self.batches[-1]

    @property
    def extent(self) -> str:
        """Which batches: `2024-01-31`, or `30 batches, 2024-01-01 to 2024-01-30`."""
        first, last = self.batches[0], self.newest
        if len(self.batches) == 1:
            return printable(last.batch)
        return printable(f"{plural(len(self.batches), 'batch')}, {first.batch} to {last.batch}")


def repeated(groups: Iterable[BatchFinding]) -> tuple[RepeatedFinding, ...]:
    """Put batches together in which the same failed; `groups` are oldest first.

    Only warnings that come and go beside the same failures do not tell batches apart.
    """
    by_checks: dict[tuple[object, ...], list[BatchFinding]] = {}
    for group in groups:
        failed = {f.result.check_id for f in group.findings if f.result.status is Status.FAIL}
        checks = failed or {f.result.check_id for f in group.findings}
        by_checks.setdefault((group.model, group.severity, *sorted(checks)), []).append(group)
    return tuple(RepeatedFinding(tuple(batches)) for batches in by_checks.values())


def headline(result: Result, alike: Iterable[Result]) -> str:
    """Return one finding in a line of its own, without its batch: which check, what was seen.

    `alike` are all that the check found in the batch: in which segments is said behind it.
    """
    where = printable(in_segments(result.segment, (r.segment for r in alike)))
    if result.detector != CONSTRAINT and result.message:
        return f"{observation(result)}{where}"
    return f"{label_of(result)}: {beside_label(result)}{where}"


def describe_batch(finding: BatchFinding) -> str:
    """Return one line about all that was found in a batch: the first root symptom, and the rest.

    What failed comes before what only warns, even where a warning explains it.
    """
    first = min(
        finding.findings, key=lambda f: (STATUS_ORDER.index(f.result.status), f.cause is not None)
    ).result
    others = [r for r in finding.roots if r is not first]
    alike = (f.result for f in finding.findings if f.result.check_id == first.check_id)
    text = headline(first, alike)
    # The same check on other segments is no news.
    labels = dict.fromkeys(label for r in others if (label := label_of(r)) != label_of(first))
    named = list(labels)[:_MAX_ROOTS]
    parts = [f"also {', '.join(named)}"] if named else []
    further = len({label_of(f.result) for f in finding.findings}) - 1 - len(named)
    if further > 0:
        parts.append(f"and {plural(further, 'further symptom')}")
    return "; ".join([text, *parts])


def odd_upstream(
    model: str,
    batch: str,
    reported_batches: Collection[tuple[str, str]],
    upstream: Mapping[str, Collection[str]],
) -> str:
    """The models that a model reads, the first ones, that have findings in the same batch.

    `reported_batches` are the models and batches of all findings; `upstream` is as of
    `models_upstream`.
    """
    parents = [m for m in upstream.get(model, ()) if (m, batch) in reported_batches]
    return ", ".join(
        sorted(m for m in parents if not set(upstream.get(m, ())).intersection(parents))
    )
