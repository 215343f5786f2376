"""Work on the store that is done again after a failure that passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from afterrun.core.errors import StoreFailure

T = TypeVar("T")

UNDONE: Final = frozenset({"busy", "deadlock", "serialization"})
"""Kinds of failure after which nothing was done, and the same work may succeed."""

PASSING: Final = UNDONE | {"lost-connection"}
"""Kinds of failure that pass; after the last of them nobody knows whether the work was committed."""

TRIES: Final = 6
FIRST_PAUSE: Final = 0.05
"""Seconds before the second try; each further pause is twice as long."""


def again(work: Callable[[], T], *, after: Collection[str] = UNDONE) -> T:
    """Do a transaction's work, again after a failure of these kinds. Raises what its last try raises."""
    pause = FIRST_PAUSE
    for _ in range(TRIES - 1):
        try:
            return work()
        except StoreFailure as error:
            if error.kind not in after:
                raise
        time.sleep(pause)
        pause *= 2
    return work()
