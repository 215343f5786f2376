"""Read small files that people or other programs left: bounded, and without waiting for anybody."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_small_file(path: Path, *, limit: int) -> bytes:
    """Return the whole content of a regular file of at most ``limit`` bytes.

    Raises `OSError`, whose ``strerror`` says what is wrong, also for a FIFO, a device or a larger file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(raw) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return raw
