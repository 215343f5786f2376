"""One run of the command line: its screen, and what Ctrl-C means while it removes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, Self

from afterrun.cli.render import Screen

WATCHED: Final = (signal.SIGINT, signal.SIGTERM)
STDERR: Final = 2
NOTICE: Final = b"afterrun: stopping after this batch; once more aborts at once\n"


class Signals:
    """Catches SIGINT and SIGTERM while it is entered.

    While a removal runs, the first one only closes the gate, so that the running batch ends; any other one
    aborts at once. ``aborted`` tells that apart from an error it caused on the way: SQLite swallows an
    exception that is raised while it works, and reports an interrupted statement instead.
    """

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.graceful = False
        self.stopping = False
        self.aborted = False
        self.told: Callable[[], object] = lambda: os.write(STDERR, NOTICE)
        """Says that the gate was closed. Unbuffered: who was interrupted may be in the middle of a write."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Start to watch; a signal that the caller has turned off stays off."""
        if threading.current_thread() is threading.main_thread():
            watched = [number for number in WATCHED if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._receive) for number in watched}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def gate(self) -> bool:
        """Say whether a sweep may go on with another batch."""
        return not self.stopping

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        if self.graceful and not self.stopping:
            self.stopping = True
            self.told()
            return
        self.aborted = True
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Session:
    """What a command gets besides its options."""

    screen: Screen
    signals: Signals
