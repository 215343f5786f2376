"""A process that removes a store's runs and is killed before it removes the first blob of them."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from afterrun.stores.sql.blobs import SqlBlobs
from payloads.blob_kit import MONTH, opened_at


def killed(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - in the place of a method
    """Die at once, as nothing can keep a process from."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    SqlBlobs.remove = killed  # type: ignore[method-assign]
    location, profile, state = sys.argv[1:]
    with opened_at(location, profile, state) as retention:
        retention.prune(MONTH)
