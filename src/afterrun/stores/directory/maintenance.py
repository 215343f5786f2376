"""The log of passes in a store: JSON lines, bounded. Counts, reasons and times, also when nothing ran.

The ids of what went stand in it, at most a hundred a pass: whoever misses a run looks here.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from afterrun.stores.directory.sweeping import Sweeping

LOG: Final = "log.jsonl"
OLDER: Final = "log.1.jsonl"
MAX_BYTES: Final = 1_000_000
MAX_IDS: Final = 100
MAX_REASONS: Final = 50


def note_pass(held: Sweeping, *, seconds: float) -> None:
    """Add a line about a pass. What cannot be written is left out: the report says the same."""
    done = held.done
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "removed": dict(done.removed),
        "skipped": dict(done.skipped.most_common(MAX_REASONS)),
        "ids": done.ids[:MAX_IDS],
        "index_entries": done.strays,
        "notices": len(held.notices),
        "seconds": round(seconds, 3),
    }
    with suppress(OSError):
        _append(held.folder, json.dumps(line).encode() + b"\n")


def _append(folder: int, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(LOG, flags, 0o600, dir_fd=folder)
    try:
        full = os.fstat(descriptor).st_size + len(line) > MAX_BYTES
    finally:
        os.close(descriptor)
    if full:
        os.replace(LOG, OLDER, src_dir_fd=folder, dst_dir_fd=folder)
    descriptor = os.open(LOG, flags, 0o600, dir_fd=folder)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
