"""What a person should know of monitors that do not judge yet, or not all that they could."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from dqsql.model.batches import batch_order
from dqsql.model.by_key import by_key
from dqsql.model.results import CONSTRAINT, Result, Status
from dqsql.model.wording import LEARNING, NO_TIME, plural

# A day, with no hour behind it.
_DATED = re.compile(
    r"(?<!\d)(?:19|20)\d\d([-_]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
    r"(?!\d)(?![-_ T]\d\d(?!\d))"
)


def untimed_note(results: Iterable[Result]) -> tuple[str, ...]:
    """A note where names of batches have a date that monitors do not read."""
    skipped = (r for r in results if r.status is Status.SKIPPED and r.message.startswith(NO_TIME))
    dated = ((r.batch, m) for r in skipped if r.batch and (m := _DATED.search(r.batch)))
    batch, match = next(dated, ("", None))
    if match is None:
        return ()
    digits = match[1].join(("[0-9]{4}", "[0-9]{2}", "[0-9]{2}"))
    form = match[1].join(("yyyy", "MM", "dd"))
    return (
        f"batches such as {batch!r} are not named by a time: missing ones are not noticed, and"
        " weekdays are taken for alike. If each day is to be one batch, let batch_by be"
        f" to_date(regexp_extract(name, '{digits}', 0), '{form}') of that name",
    )


def learning_note(results: Iterable[Result]) -> tuple[str, ...]:
    """A note where at least half of the monitors do not judge the newest batch of a run yet."""
    of_monitors = (r for r in results if r.detector != CONSTRAINT and r.segment is None)
    judged = by_key((r.batch, r) for r in of_monitors if r.batch is not None)
    if not judged:
        return ()
    newest = judged[max(judged, key=batch_order)]
    waiting = (r.message for r in newest if r.status is Status.SKIPPED)
    texts = Counter(text for text in waiting if text.startswith(LEARNING))
    if not texts or 2 * texts.total() < len(newest):
        return ()
    monitors = plural(texts.total(), "monitor is", "monitors are")
    (text, _), *others = texts.most_common()
    most = ", most of them" if others else ""
    have = text.removeprefix(f"{LEARNING}: ")
    judge = "judges" if texts.total() == 1 else "judge"
    return (f"{monitors} {LEARNING} and {judge} nothing yet{most}: {have}",)
