"""Lower ends of confidence intervals for a share, and bounds that are easy to read."""

from __future__ import annotations

import math
from decimal import Decimal

_TINY = 1e-300  # below it, powers of ten have few digits left
_Z = 1.96  # 95 % of a normal distribution lie within so many standard deviations


def wald_lower(share: float, n: int) -> float:
    """Lower end of the Wald interval of a share in [0, 1] seen in `n` > 0 trials, in [0, 1].

    Source: Schelter et al., VLDB 2018, section 3.3 (a value is present or not: Bernoulli).
    """
    return max(0.0, share - _Z * math.sqrt(share * (1 - share) / n))


def wilson_lower(share: float, n: int) -> float:
    """Lower end of Wilson's score interval, in [0, 1]; for shares near 0 and 1.

    Source: Wilson, JASA 1927. Unlike Wald's, it is not 1 for a share of 1.
    """
    center = share + _Z * _Z / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return max(0.0, (center - half) / (1 + _Z * _Z / n))


def floor_to(value: float, digits: int = 2) -> float:
    """The value rounded down to some digits behind the point."""
    scale = float(10**digits)
    # 0.29 * 100 is 28.999999999999996
    return math.floor(value * scale + 1e-9) / scale


def round_down(value: float, width: float = math.inf) -> float:
    """The value rounded down to three significant digits, and by no more than `width` > 0.

    >>> round_down(1_234_567), round_down(1_234_567, 25), round_up(0.12345)
    (1230000.0, 1234560.0, 0.124)
    """
    if abs(value) < _TINY or not math.isfinite(value):
        return value
    places = math.floor(math.log10(abs(value))) - 2
    if width < math.inf:
        # Finer than its digits no number can be rounded.
        width = max(width, 4 * math.ulp(value))
        places = min(places, math.floor(math.log10(width)))
    unit = 10.0**places
    steps = math.floor(value / unit + 1e-9)
    rounded = _steps_of(unit, steps)
    # 1.1 * 1.1 is a little more than 1.21, which is no bound of it then.
    return rounded if rounded <= value else _steps_of(unit, steps - 1)


def _steps_of(unit: float, steps: int) -> float:
    return steps * unit if unit >= 1 else steps / round(1 / unit)


def round_up(value: float, width: float = math.inf) -> float:
    """The value rounded up to three significant digits, and by no more than `width` > 0."""
    return -round_down(-value, width)


def round_up_by(value: float, width: float) -> float:
    """The value rounded up to a hundredth of `width` > 0 or less."""
    if width < _TINY or not math.isfinite(value):
        return value
    digits = 2 - math.floor(math.log10(width))
    unit = float(10 ** abs(digits))
    if digits <= 0:
        return math.ceil(value / unit - 1e-9) * unit
    return math.ceil(value * unit - 1e-9) / unit


def written(value: float) -> str:
    """A number as SQL that reads back as the same number, without an exponent."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = repr(value)
    return f"{Decimal(text):f}" if "e" in text and abs(value) < 1 else text
