"""Ids of runs: UUIDs of version 7, which sort by the time they were made.

Neighbours in time are neighbours in every index, so that a run that ends with others is removed from few
pages. Within a process each id is greater than all before it, whatever the clock does.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from typing import Final

FRACTION_BITS: Final = 12
"""Bits after the milliseconds (``rand_a``), the fraction of a millisecond (RFC 9562, 6.2, method 3)."""

RANDOM_BITS: Final = 62
VERSION: Final = 7
VARIANT: Final = 0b10
NANOSECONDS: Final = 1_000_000
"""Nanoseconds of a millisecond."""


class IdSource:
    """Makes ids, from any thread."""

    def __init__(self) -> None:
        """Start below every id."""
        self._lock = threading.Lock()
        self._last = 0

    def new(self) -> str:
        """Return a new id, greater than the last one."""
        return str(uuid.UUID(int=self._number()))

    def _number(self) -> int:
        moment = self._moment()
        milliseconds, fraction = divmod(moment, 1 << FRACTION_BITS)
        head = (milliseconds << 16 | VERSION << FRACTION_BITS | fraction) << 64
        return head | VARIANT << RANDOM_BITS | secrets.randbits(RANDOM_BITS)

    def _moment(self) -> int:
        """Return milliseconds and a fraction in one number that grows with each call."""
        milliseconds, rest = divmod(time.time_ns(), NANOSECONDS)
        now = milliseconds << FRACTION_BITS | (rest << FRACTION_BITS) // NANOSECONDS
        with self._lock:
            self._last = max(now, self._last + 1)
            return self._last


new_id: Final = IdSource().new
"""Makes the ids of this process."""
