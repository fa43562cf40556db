"""Libraries of which the import takes longer than most decisions."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

_SLOW = ("statsmodels.tsa.adfvalues", "scipy.signal")


def load_libraries() -> None:
    """Import what detectors import when they need it: for a thread that has time, as at the start.

    One that cannot be imported is left to the detector that needs it.
    """
    for name in _SLOW:
        with suppress(ImportError):
            import_module(name)
