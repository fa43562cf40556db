"""What there is to know of the kinds of monitors before anything runs.

Loading asks which words may be settings, the compiler which metrics a monitor watches. Both lie
below `dqsql.monitors`, where each kind is a file that says so: `dqsql.monitors.registry` hands it
in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dqsql.model.plan import Family
from dqsql.model.project import Annotation, CheckModel, Severity
from dqsql.model.settings import Reader

# A setting that dqsql puts into models whose text does not name their columns: the types of these
# by name, as Spark told them last.
COLUMN_TYPES = "types_of_columns"
# `monitors: auto` watches all of these; where scans are bounded, the last are left out first.
AUTO = "auto"
FEATURES = ("volume", "cadence", "segments", "schema", "columns", "alive", "keys", "novelty")


DEFAULT_FPR = 0.01


@dataclass(frozen=True)
class Rates:
    """The false-positive rates of monitors that name none, in (0, 1).

    Attributes:
        of_columns: of a monitor of one column.
        of_models: of a monitor of a whole model: its rows, its batches, all columns together.
    """

    of_columns: float = DEFAULT_FPR
    of_models: float = DEFAULT_FPR

    def of(self, column: str | None) -> float:
        """That of a monitor of a column, or of a whole model."""
        return self.of_models if column is None else self.of_columns


DEFAULT_RATES = Rates()


@dataclass(frozen=True)
class WatchedMetric:
    """A metric that a monitor needs, as the text of an annotation.

    Attributes:
        family: the type of columns that it is for.
        name: what the monitor calls it.
        expression: the metric.
        about: the column whose type must be of the family.
        in_context: whether the expression stands on the line of that column.
    """

    family: Family
    name: str
    expression: str
    about: str | None = None
    in_context: bool = False


@dataclass(frozen=True)
class MonitorUse:
    """A monitor as it is written in a check model.

    Attributes:
        arguments: those of its call by position, as SQL texts.
        annotation: where it stands.
        model: the check model.
        options: its settings by name: the project's, the model's, its own.
    """

    arguments: Sequence[str]
    annotation: Annotation
    model: CheckModel
    options: Mapping[str, object]


@dataclass(frozen=True)
class MonitorSpec:
    """One kind of monitor.

    Attributes:
        name: what stands behind the `@`.
        settings: its settings, each with what reads it.
        watches: the metrics that it needs. Raises CompileError.
        about_column: it is about one column: `config(name = true)` gives it to all of them.
        configurable: its settings may stand in a model's config and in the project file, too.
        several: one column or model may well have several: they are told apart by their names.
        listed: settings that are lists of words, with all that may stand in them.
        mistaken: words that people take for its settings: it says itself what is wrong.
        relations: the other relations that it reads, as annotations name them.
        compared: it gives a number, which the annotation compares: `@drift(psi) < 0.2`.
        severity: where its annotation says none; None: that of the model, or of the project.
        symptom: its place in the chain of causes, one of `dqsql.decisions.grouping.STAGES`; None
            where the metric that it is about says it.
    """

    name: str
    settings: Mapping[str, Reader]
    watches: Callable[[MonitorUse], Sequence[WatchedMetric]]
    about_column: bool = False
    configurable: bool = True
    several: bool = False
    listed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mistaken: tuple[str, ...] = ()
    symptom: str | None = None
    relations: Callable[[MonitorUse], Sequence[str]] = lambda use: ()
    compared: bool = False
    severity: Severity | None = None


_SPECS: dict[str, MonitorSpec] = {}


def register_spec(spec: MonitorSpec) -> None:
    """Make a kind known."""
    _SPECS[spec.name] = spec


def forget_spec(name: str) -> None:
    """Make a kind unknown again."""
    _SPECS.pop(name, None)


def monitor_specs() -> Mapping[str, MonitorSpec]:
    """All kinds by name. Raises RuntimeError: nobody has handed them in."""
    if not _SPECS:
        raise RuntimeError("no kind of monitor is known: import dqsql.monitors.registry first")
    return _SPECS
