"""The files under `target/`: written whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.errors import ConfigError
from dqsql.json_text import to_json
from dqsql.redaction import redact

if TYPE_CHECKING:
    from dqsql.model.plan import Query

RUN_RESULTS = "run_results.json"
MANIFEST = "manifest.json"
_COMPILED = "compiled"
# Marks the folder as one that `dqsql clean` may remove (https://bford.info/cachedir/).
CACHE_TAG = "CACHEDIR.TAG"
_CACHE_TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder was created by dqsql and can be removed by `dqsql clean`.
"""


def ensure_writable(target_dir: Path) -> None:
    """Create the target folder and try to write into it, before any work is done.

    Raises ConfigError when that is not possible.
    """
    try:
        fresh = not target_dir.exists() or (target_dir.is_dir() and not any(target_dir.iterdir()))
        try_writing(target_dir)
        for name in (RUN_RESULTS, MANIFEST):
            if (target_dir / name).is_dir():
                raise IsADirectoryError(21, "Is a directory", str(target_dir / name))
    except OSError as error:
        raise ConfigError(
            f"the target folder {target_dir} cannot be written: {_reason(error)}",
            hint="set `target_path` in dqsql_project.yml to a folder that you may write",
        ) from error
    if fresh:
        write_atomically(target_dir / CACHE_TAG, _CACHE_TAG_TEXT)


def try_writing(folder: Path) -> None:
    """Create a folder, if need be, and write a file into it that is gone at once.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def write_atomically(path: Path, text: str, *, redacted: bool = True) -> None:
    """Write a file so that readers see the old one or the new one, never a part.

    Secrets are left out, unless it is a file of the user's: `redacted` False.

    Raises ConfigError when it cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        # Names of files may have bytes that are no UTF-8.
        with open(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(redact(text) if redacted else text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; artefacts are for other people and tools, too.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {_reason(error)}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write a value as JSON, atomically; see `jsonable`. Without `indent` it is a single line."""
    write_atomically(path, to_json(value, indent=indent) + "\n")


def write_compiled(
    target_dir: Path, queries: Mapping[str, Sequence[Query]]
) -> tuple[tuple[str, Path], ...]:
    """Write the statements of each model to `compiled/<model>.sql`; return models and files."""
    written = []
    for model, statements in queries.items():
        path = target_dir / _COMPILED / f"{_file_name(model)}.sql"
        write_atomically(path, "\n".join(_statement(query) for query in statements))
        written.append((model, path))
    return tuple(written)


def _statement(query: Query) -> str:
    purpose = " ".join(query.purpose.split())
    columns = ", ".join(" ".join(c.split()) for c in query.columns)
    head = [f"-- {purpose} (scans: {query.scans})"]
    if columns:
        head.append(f"-- columns read: {columns}")
    return "\n".join((*head, f"{query.sql.rstrip().rstrip(';')};", ""))


def _file_name(model: str) -> str:
    return re.sub(r'[/\\:*?"<>|\x00-\x1f]', "_", model).lstrip(".") or "_"


def _umask() -> int:
    # There is no way to ask without setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
