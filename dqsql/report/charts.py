"""Small charts of a metric's history: where its line, its band and its anomalies lie in a picture.

Only geometry: the template draws it, so that every text is escaped there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dqsql.report.text import number, printable, shorten

WIDTH, HEIGHT = 640, 110
_TOP, _BOTTOM, _SIDE = 6, 6, 6
_MAX_TITLE = 240
_LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One batch of a series.

    `value` is None where nothing was measured, a bound where there is none; `message` says what is
    wrong with an anomaly.
    """

    batch: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    anomalous: bool = False
    message: str = ""

    @property
    def banded(self) -> bool:
        """Whether the value was held against a bound."""
        return self.lower is not None or self.upper is not None


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the picture, with the text that it shows under the pointer."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of WIDTH by HEIGHT: y grows downwards.

    `lines` and `bands` are lists of points as SVG writes them; `anomalies` are told apart from the
    `dots` of values that have no neighbour. `low` and `high` are the ends of the scale in words.
    """

    title: str
    about: str
    lines: tuple[str, ...]
    bands: tuple[str, ...]
    dots: tuple[Mark, ...]
    anomalies: tuple[Mark, ...]
    first: str
    last: str
    low: str
    high: str
    newest: str


def chart(title: str, about: str, points: Sequence[ChartPoint]) -> Chart | None:
    """Lay out a series, one point a batch in their order; None when there is nothing to see."""
    points = [_finite(p) for p in points]
    values = [p.value for p in points if p.value is not None]
    if not values:
        return None
    low, high = _scale(points)
    step = (WIDTH - 2 * _SIDE) / max(len(points) - 1, 1)

    def x(place: float) -> float:
        return WIDTH / 2 if len(points) == 1 else _SIDE + place * step

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return _TOP + (high - inside) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    runs = list(_runs(points, lambda p: p.value is not None))
    marks = [
        (i, p, Mark(_round(x(i)), _round(y(p.value)), _title(p)))
        for i, p in enumerate(points)
        if p.value is not None
    ]
    alone = {run[0] for run in runs if len(run) == 1}
    return Chart(
        title=printable(title),
        about=printable(about),
        lines=tuple(
            _path((x(i), y(points[i].value or 0.0)) for i in run) for run in runs if len(run) > 1
        ),
        bands=tuple(
            _band([points[i] for i in run], run[0], x, y, (low, high), step)
            for run in _runs(points, lambda p: p.banded)
        ),
        dots=tuple(m for i, _, m in marks if i in alone),
        anomalies=tuple(m for _, p, m in marks if p.anomalous),
        first=printable(points[0].batch),
        last=printable(points[-1].batch),
        low=number(low),
        high=number(high),
        newest=number(values[-1]),
    )


def _finite(point: ChartPoint) -> ChartPoint:
    def clean(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        # Differences of the largest numbers there are would be infinite.
        return min(max(value, -_LARGEST), _LARGEST)

    return ChartPoint(
        point.batch,
        clean(point.value),
        clean(point.lower),
        clean(point.upper),
        point.anomalous,
        point.message,
    )


def _scale(points: Sequence[ChartPoint]) -> tuple[float, float]:
    """The ends of the scale.

    Values that are no anomalies, and bounds and anomalies that are not far away from them: one
    value that is a thousand times too large must not make a line of all others. What lies beyond
    the ends is drawn at the edge.
    """
    every = [p.value for p in points if p.value is not None]
    usual = [p.value for p in points if p.value is not None and not p.anomalous] or every
    low, high = min(usual), max(usual)
    reach = (high - low) or abs(high) or 1.0
    others = [v for p in points for v in (p.value, p.lower, p.upper) if v is not None]
    near = [v for v in others if low - reach <= v <= high + reach]
    far = [v for v in others if not low - reach <= v <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    # Room for what is drawn at the edge.
    room = (high - low) / 4
    low = low - room if any(v < low for v in far) else low
    high = high + room if any(v > high for v in far) else high
    if high > low:
        return low, high
    return low - abs(low or 1.0) / 2, high + abs(high or 1.0) / 2


def _runs(points: Sequence[ChartPoint], holds: Callable[[ChartPoint], bool]) -> Iterable[list[int]]:
    """The places of neighbouring points for which something holds."""
    run: list[int] = []
    for place, point in enumerate(points):
        if holds(point):
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _band(
    points: Sequence[ChartPoint],
    first: int,
    x: Callable[[float], float],
    y: Callable[[float], float],
    scale: tuple[float, float],
    step: float,
) -> str:
    """A band in steps, each as wide as a batch; an open side reaches the edge."""
    low, high = scale
    half = min(step, WIDTH) / 2
    above: list[tuple[float, float]] = []
    below: list[tuple[float, float]] = []
    for offset, point in enumerate(points):
        middle = x(first + offset)
        edges = (max(middle - half, 0.0), min(middle + half, float(WIDTH)))
        upper = y(high if point.upper is None else point.upper)
        lower = y(low if point.lower is None else point.lower)
        above += [(edge, upper) for edge in edges]
        below += [(edge, lower) for edge in edges]
    return _path([*above, *reversed(below)])


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_round(x):g},{_round(y):g}" for x, y in points)


def _round(value: float) -> float:
    return round(value, 1)


def _title(point: ChartPoint) -> str:
    seen = number(point.value or 0.0)
    text = f"{point.batch}: {point.message}" if point.message else f"{point.batch}: {seen}"
    return shorten(printable(text), _MAX_TITLE)
