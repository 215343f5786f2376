"""How long a transaction held its locks, and how long its statements took."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self


class Timed:
    """Enters a lock and notes, at its end, for how many seconds it was held."""

    def __init__(self, lock: AbstractContextManager[None]) -> None:
        """Take the lock; it is not asked for yet."""
        self._lock = lock
        self._since = 0.0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        """Wait for the lock."""
        self._lock.__enter__()
        self._since = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it, by commit or rollback."""
        try:
            self._lock.__exit__(kind, error, trace)
        finally:
            self.seconds = time.monotonic() - self._since


class Stopwatch:
    """Takes the time of each statement that it is entered around: of the longest, and of all together."""

    def __init__(self) -> None:
        """Begin with none."""
        self._since = 0.0
        self.longest = self.total = 0.0

    def __enter__(self) -> Self:
        """Begin with a statement."""
        self._since = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End with it."""
        taken = time.monotonic() - self._since
        self.longest, self.total = max(self.longest, taken), self.total + taken
