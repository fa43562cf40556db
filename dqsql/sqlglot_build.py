"""sqlglot by its source, also where its compiled build is installed (`sqlglot[c]`).

Other tools bring that into the environment. dqsql extends sqlglot's parser and generator of Spark,
and compiled classes cannot be extended; nor does a compiled module work with one that is not. The
build has the source of each module beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class SourceFinder(MetaPathFinder):
    """Finds the source of sqlglot's modules, where they are compiled."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The source of a compiled module of sqlglot; None of anything else."""
        if not fullname.startswith("sqlglot."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
            return None
        source = Path(str(spec.origin)).with_name(f"{fullname.rpartition('.')[2]}.py")
        if not source.is_file():
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(fullname, source)


def use_source() -> None:
    """Load sqlglot's modules from their source, unless some are loaded already."""
    if "sqlglot" not in sys.modules:
        sys.meta_path.insert(0, SourceFinder())
