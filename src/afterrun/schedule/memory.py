"""What the schedule remembers of a store across restarts."""

from __future__ import annotations

from typing import Protocol

from afterrun.core.times import Instant


class Memory(Protocol):
    """Two instants of one store. It is asked in the scheduler's thread and may raise any error."""

    def last_completed(self) -> Instant | None:
        """Return when the last sweep of this store was completed, by whichever process."""

    def due_since(self) -> Instant | None:
        """Return since when a first sweep is due. Read only while none was completed."""

    def keep_due_since(self, moment: Instant) -> None:
        """Remember since when a first sweep is due."""
