"""What the pages of one model show: its checks with their history, its findings and its SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dqsql.model import results
from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.wording import plural
from dqsql.report.findings import LONG, check_label, label_of, observation
from dqsql.report.page import LETTERS, ModelFacts, causes_of, letter_of, profile_record
from dqsql.report.series import MetricValues, Record, series_of, undrawn_segments
from dqsql.report.text import printable, shorten

_MAX_ROWS = 10
_MAX_SQL = 20_000
_MAX_MESSAGES = 30


def model_record(facts: ModelFacts) -> Record:
    """What the pages of one model need."""
    batches = [str(row["batch"]) for row in facts.batches]
    by_check = by_key((r.check_id, r) for r in facts.results)
    # A finding may be about older batches than those of the report.
    for row in facts.shown_findings:
        by_check.setdefault(row["check_id"], [])
    findings = {row["check_id"]: row for row in facts.findings}
    dimensions = {row["check_id"]: row for row in facts.checks}
    learned = {row["check_id"]: _learned(row) for row in facts.programs}
    causes = {key: label_of(cause) for key, cause in causes_of(facts.groups).items()}
    gone = facts.gone_checks
    checks = [
        {
            **_check(
                verdicts,
                {**findings.get(check_id, {}), **dimensions.get(check_id, {})},
                batches,
                facts.values,
                causes,
                learned.get(check_id),
                facts.file,
            ),
            "gone": not verdicts or check_id in gone,
        }
        for check_id, verdicts in by_check.items()
    ]
    return {
        "batches": [printable(b) for b in batches],
        "rows": [row.get("rows") for row in facts.batches],
        "reviews": {
            printable(b): printable(f"{r['verdict']}ed by {r['author'] or '?'}: {r['reason']}")
            for b, r in facts.reviews.items()
        },
        "checks": sorted(checks, key=lambda c: (c["rank"], c["column"], c["label"])),
        "columns": [
            [printable(c["column_name"]), c["data_type"], c["checks"]]
            for c in sorted(facts.columns, key=lambda c: c["position"] or 0)
        ],
        "failures": _failing_rows(facts),
        "sql": {"file": printable(facts.file), "text": shorten(facts.sql.rstrip(), _MAX_SQL)},
        "profile": None if facts.profile is None else profile_record(facts.profile),
    }


def _failing_rows(facts: ModelFacts) -> Record:
    """By finding, the newest of its batches of which rows were kept, some of these, how many."""
    rows = by_key(((f["check_id"], str(f["batch"])), str(f["row"])) for f in facts.failures)
    shown = {}
    for finding in facts.shown_findings:
        kept_of = ((b, rows.get((finding["check_id"], b))) for b in reversed(finding["batches"]))
        newest = next(((b, found) for b, found in kept_of if found), None)
        if newest is not None:
            batch, found = newest
            some = [printable(row) for row in found[:_MAX_ROWS]]
            shown[printable(finding["finding_id"])] = [printable(batch), some, len(found)]
    return shown


def _check(
    verdicts: Sequence[results.Result],
    row: Mapping[str, Any],
    batches: Sequence[str],
    values: MetricValues,
    causes: Mapping[str, str],
    learned: Record | None,
    file: str,
) -> Record:
    """A check with its verdicts, perhaps none; `row` is its row of dq_checks or dq_findings."""
    first = verdicts[0] if verdicts else None
    name = first.check_name if first else row["check_name"]
    column = first.column if first else row["column_name"]
    statuses = by_key((r.batch or "", r.status) for r in verdicts)
    # Told from the last one on: in each batch all of its rows come first, then segments by name.
    by_segment = sorted(verdicts, key=lambda r: r.segment or "", reverse=True)
    bad = sorted(
        (r for r in by_segment if r.status in results.FINDINGS),
        key=lambda r: (batch_order(r.batch or ""), r.segment is None),
    )
    written = None if first is None else first.details.get("expression")
    return {
        "id": printable(first.check_id if first else row["check_id"]),
        "label": check_label(name, column),
        "name": printable(name),
        "column": printable(column or ""),
        "detector": first.detector if first else row.get("detector") or results.CONSTRAINT,
        "severity": first.severity.value if first else row["severity"],
        "rank": _rank(statuses.get(batches[-1], ()) if batches else (), bool(bad)),
        "strip": "".join(letter_of(statuses.get(b, ())) for b in batches),
        "expression": printable(str(row.get("expression") or written or name)),
        "where": printable(row.get("where") or ""),
        "description": printable(row.get("description") or ""),
        "tags": [printable(t) for t in row.get("tags") or ()],
        "place": printable(f"{row['file']}:{row['line']}") if row.get("file") else "",
        # In the text of the model's file; a check may stand in another.
        "line": row.get("line") if file and row.get("file") == file else None,
        "series": series_of(verdicts, batches, values) if verdicts else [],
        "undrawn": undrawn_segments(verdicts),
        "verdicts": len(bad),
        "messages": [
            [
                printable(r.batch or ""),
                printable(r.segment or ""),
                LETTERS[r.status],
                observation(r, LONG),
                causes.get(r.id, ""),
                _basis(r),
            ]
            for r in reversed(bad[-_MAX_MESSAGES:])
        ],
        "learned": learned,
    }


def _rank(now: Iterable[results.Status], ever: bool) -> int:
    """What is wrong now before what was wrong once."""
    worst = results.worst_status(now)
    return results.STATUS_ORDER.index(worst) if worst in results.FINDINGS else 5 if ever else 9


def _basis(result: results.Result) -> str:
    """What history a learned verdict rests on, in words."""
    history = result.details.get("history")
    if not isinstance(history, Sequence) or len(history) != 3:
        return ""
    first, last, count = history
    return printable(f"{plural(count, 'batch')}, {first} to {last}")


def _learned(row: Mapping[str, Any]) -> Record:
    fpr = row.get("fpr")
    rate = "" if fpr is None else f", false-positive rate {fpr:.2g}"
    return {
        "bounds": [printable(part) for part in str(row["description"] or "").split("; ")],
        "basis": printable(
            f"{row['batches']} batches, {row['learned_from']} to {row['learned_to']}{rate}"
        ),
    }
