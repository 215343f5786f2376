"""Where the server of a store is found on this machine: a folder that is closed to others.

``<state>/servers/<digest of the store>`` holds the server's lock, its token, its address and, if it listens
there, its socket. The kernel frees the lock with the process, so an address that a killed server left behind
counts for nothing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterrun.core.errors import Refused, UsageError
from afterrun.reading import read_small_file
from afterrun.server.errors import StoreHeld
from afterrun.state import StateDirectory
from afterrun.stores.place import place_of

MAX_FILE: Final = 64 * 1024
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{32,512}=*", re.ASCII)
TOKEN_BYTES: Final = 32
PRIVATE: Final = 0o700
CLOSED: Final = 0o600
OTHERS: Final = 0o077
TRIES: Final = 50
"""How often a server tries to take its lock: who only looks whether it is held takes it for a moment."""

BETWEEN: Final = 0.02
"""Seconds between two tries."""


class Address(BaseModel):
    """How a server is reached. ``socket`` is the path of its Unix socket, if it listens there."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = Field(pattern=r"^http://[A-Za-z0-9.:\[\]-]+$")
    socket: str | None = None
    token_file: str
    backups: str | None = None


class ServerFolder:
    """The folder of one store's server."""

    def __init__(self, location: str, *, state: Path | None = None) -> None:
        """Name the folder of the server of a store at a URL or path."""
        name = hashlib.sha256(place_of(location).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.path = StateDirectory(state).path / "servers" / name
        self.socket = self.path / "http.sock"
        self.token_file = self.path / "token"
        self._lock = self.path / "lock"
        self._address = self.path / "address.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the store for a server. Raises `StoreHeld` if another one has it, `Refused` without rights."""
        private_folder(self.path)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, CLOSED)
        try:
            if not any(_taken(descriptor, fcntl.LOCK_EX, rest=BETWEEN) for _ in range(TRIES)):
                raise StoreHeld("another server of this machine holds this store: stop it first")
            self._withdraw()
            try:
                yield
            finally:
                self._withdraw()
        finally:
            os.close(descriptor)

    def publish(self, address: Address) -> None:
        """Let callers find the server; it holds the folder."""
        descriptor, name = tempfile.mkstemp(dir=self.path)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(address.model_dump_json())
        Path(name).replace(self._address)

    def find(self) -> Address | None:
        """Return how the server is reached, or nothing if none holds the store on this machine.

        Raises `StoreHeld` while it starts or ends.
        """
        if not self._is_held():
            return None
        try:
            return Address.model_validate_json(read_small_file(self._address, limit=MAX_FILE))
        except FileNotFoundError:
            raise StoreHeld("the server of this store starts or ends at this moment: try again") from None
        except OSError as error:
            raise Refused("rights", f"{self._address} cannot be read: {error.strerror}") from None
        except ValidationError:
            raise Refused("address", f"{self._address} is damaged: start the server anew") from None

    def token(self, file: Path | None = None) -> str:
        """Return the token of a file, by default this folder's, which is made if there is none."""
        path = file or self.token_file
        if not os.path.lexists(path):
            with suppress(FileExistsError):
                _write_token(path)
        return read_token(path)

    def _is_held(self) -> bool:
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Refused("rights", f"{self._lock} cannot be opened: {error.strerror}") from None
        try:
            return not _taken(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _withdraw(self) -> None:
        for path in (self._address, self.socket):
            path.unlink(missing_ok=True)


def private_folder(path: Path) -> None:
    """Make a folder that nobody else can look into. Raises `Refused` for one that others can, or a link."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(exist_ok=True, mode=PRIVATE)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise Refused("rights", f"{path} is no folder of its own: a server needs one")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & OTHERS:
        raise Refused("rights", f"the folder {path} is open to others: make it yours, with mode 0700")


def read_token(path: Path) -> str:
    """Return the token of a file. Raises `Refused` for a file that others can read, or without a token."""
    try:
        found = path.lstat()
        raw = read_small_file(path, limit=MAX_FILE)
    except OSError as error:
        raise Refused("token", f"the token file {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Refused("token", f"the token file {path} is no regular file: a link is not followed")
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & OTHERS:
        raise Refused("token", f"the token file {path} is open to others: make it yours, with mode 0600")
    token = raw.decode("utf-8", "replace").strip()
    if TOKEN.fullmatch(token) is None:
        raise Refused("token", f"the token file {path} holds no token: 32 to 512 letters, digits and -._~+/")
    return token


def backup_folder(path: Path) -> Path:
    """Return the real path of the folder for backups. Raises `UsageError` if there is none."""
    if not path.is_dir():
        raise UsageError(f"server.backups: there is no folder {path}")
    return path.resolve()


def _write_token(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, CLOSED)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")


def _taken(descriptor: int, how: int, *, rest: float = 0.0) -> bool:
    """Take a lock if it is free; say whether it was. Wait for so long if it was not."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise Refused("rights", f"the lock of the server cannot be taken: {error.strerror}") from None
        time.sleep(rest)
        return False
    return True
