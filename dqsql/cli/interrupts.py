"""What ends a command before its end: Ctrl-C, and SIGTERM of schedulers. Imports nothing heavy."""

from __future__ import annotations

import signal
import threading
from typing import NoReturn

# Exit codes of programs that a signal ended are this and its number.
KILLED = 128


class Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM."""


def heed_sigterm() -> None:
    """Let SIGTERM end a command as Ctrl-C does, which PySpark and Python give no handler."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def signal_of(interrupt: BaseException | None) -> signal.Signals:
    """The signal that an interrupt comes from."""
    return signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
