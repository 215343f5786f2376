"""The sweep lock of a store that is a file: an flock on a file beside it, never on the store itself."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from afterrun.core.errors import Refused, StoreLocked

SUFFIX: Final = ".afterrun-lock"


class SweepLock:
    """Holds one sweep a store while it is entered, across processes. The kernel frees it with the process.

    The file stays behind: removing it would let two sweeps lock two files of one name.
    """

    def __init__(self, store: Path) -> None:
        """Name the lock of the store at this path, which must be its real path."""
        self.path = store.with_name(store.name + SUFFIX)
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Take the lock at once. Raises `StoreLocked` if another process has it, `Refused` without rights."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            why = (
                "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be opened: {error.strerror}"
            )
            raise Refused("rights", f"the sweep lock {self.path} {why}; nothing was removed") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise Refused("rights", f"{self.path} cannot be locked: {error.strerror}") from None
            raise StoreLocked(f"another sweep holds this store (lock {self.path}); try again later") from None
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the lock go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
