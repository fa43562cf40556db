"""Where the seconds of a run went, as text for `dqsql run --timing`."""

from __future__ import annotations

from collections.abc import Sequence

from dqsql.model.phases import OF_MODELS, START, WRITE
from dqsql.model.results import RunResult
from dqsql.report.text import padded, printable

_NUMBER = 10
_LONGEST = 40


def timing_lines(result: RunResult, load: float, artefacts: float) -> list[str]:
    """A table of seconds: what the run did once, and a row for each model.

    `load` and `artefacts` are the seconds of reading and compiling the project, and of writing its
    files. Models that are checked at the same time share the processor: their seconds overlap.
    """
    names = {m.model: printable(m.model)[:_LONGEST] for m in result.models}
    width = max(map(len, (*names.values(), "read and compile the project")), default=0)
    once = [
        ("read and compile the project", load),
        ("start Spark", result.phases.get(START, 0.0)),
        ("write tables", result.phases.get(WRITE, 0.0)),
        ("write files in target/", artefacts),
    ]
    return [
        "Where the seconds went:",
        *(_line(what, width, [seconds]) for what, seconds in once),
        padded("model", width) + "".join(f"{phase:>{_NUMBER}}" for phase in OF_MODELS),
        *(
            _line(names[m.model], width, [m.phases.get(phase, 0.0) for phase in OF_MODELS])
            for m in result.models
        ),
    ]


def _line(what: str, width: int, seconds: Sequence[float]) -> str:
    return padded(what, width) + "".join(f"{value:>{_NUMBER}.2f}" for value in seconds)
