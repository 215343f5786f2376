"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from api.serve_kit import PATIENCE

POLL: Final = 0.02


def eventually(found: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is found
    """Return what is found once it is there."""
    until = time.monotonic() + PATIENCE
    while not (answer := found()):
        assert time.monotonic() < until
        time.sleep(POLL)
    return answer
