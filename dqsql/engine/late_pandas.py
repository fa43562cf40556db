"""Keeps Arrow from importing pandas before it is needed.

Arrow looks for pandas when the first value is handed to it, to know a Series by sight. That takes a
quarter of a second, a fifth of a run that finds nothing new, which has no Series. So a program that
ends with its command lets Arrow look while pandas is out of sight, and lets it look again before a
session is opened.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

postpones = False
"""Whether the process may do so: nothing else in it hands pandas to Arrow."""


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        """Refuse pandas, and leave the rest to others."""
        if name == "pandas":
            raise ImportError("pandas is not looked for yet", name=name)


def postpone_pandas() -> None:
    """Import Arrow without pandas, where the process may do so."""
    if not postpones or "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)


def find_pandas() -> None:
    """Let Arrow look for pandas again, where that was postponed."""
    if postpones:
        import pyarrow as pa

        pa.table({"none": pa.nulls(0)}).to_pandas()
