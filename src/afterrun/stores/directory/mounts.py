"""Mount points: where another file system, or another part of the same one, lies in a store.

A bind mount of the same device looks like any folder, so the kernel's table is asked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from afterrun.core.errors import StoreFailure

TABLE: Final = Path("/proc/self/mountinfo")
POINT: Final = 4
"""Place of the mount point in a line of the table."""

_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")


def mount_points(table: bytes, *, below: str) -> frozenset[str]:
    """Return the mount points below a folder, as paths relative to it."""
    start = below.encode("utf-8", "surrogateescape").rstrip(b"/") + b"/"
    found = set()
    for line in table.splitlines():
        fields = line.split(b" ")
        if len(fields) > POINT:
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), fields[POINT])
            if point.startswith(start):
                found.add(point[len(start) :].decode("utf-8", "surrogateescape"))
    return frozenset(found)


def mounts_below(root: str) -> frozenset[str]:
    """Read the mount points below a store, now. Raises `StoreFailure` where the kernel does not tell."""
    try:
        return mount_points(TABLE.read_bytes(), below=root)
    except OSError as error:
        raise StoreFailure(
            "io", f"{TABLE} cannot be read, so mount points are unknown: {error.strerror}"
        ) from None


def is_mounted(path: tuple[str, ...], points: frozenset[str]) -> bool:
    """Say whether a mount point is at or below a path."""
    if not points:
        return False
    text = "/".join(path)
    return any(point == text or point.startswith(text + "/") for point in points)
