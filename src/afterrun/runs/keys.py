"""Sealing keys: 32 bytes each, from a file, from the environment, or made here. They are never stored.

The first key of a text is the current one, under which content is sealed; the others open what was sealed
before. A key's id is derived from the key, so a wrong key can be told from damage. A name before a colon is
for people.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from afterrun.core.errors import UsageError

SIZE: Final = 32
"""Bytes of a key: AES-256."""

VARIABLE: Final = "AFTERRUN_SEALING_KEY"
FILE_VARIABLE: Final = "AFTERRUN_SEALING_KEY_FILE"

MAX_FILE: Final = 64 * 1024
"""Bytes of a key file."""

PRIVATE: Final = 0o600
OTHERS: Final = 0o077
"""Rights that nobody but the owner may have."""

HEX: Final = re.compile(r"[0-9A-Fa-f]{64}")
NAMED: Final = re.compile(r"[\w.-]{1,64}:(?P<key>.*)")


@dataclass(frozen=True, slots=True)
class Key:
    """One key. ``id`` is stored with what it seals; it tells nothing of the key."""

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> Self:
        """Return the key of 32 bytes. Raises `UsageError`."""
        if len(secret) != SIZE:
            raise UsageError(f"a sealing key has {SIZE} bytes")
        return cls(hmac.digest(secret, b"afterrun key id 1", "sha256").hex()[:16], secret)


@dataclass(frozen=True, slots=True)
class Keys:
    """The current key and those before it."""

    current: Key
    older: tuple[Key, ...] = ()

    @classmethod
    def generate(cls) -> Self:
        """Return a new key. Keep its `text`: what is sealed under a lost key is lost."""
        return cls(Key.of(secrets.token_bytes(SIZE)))

    @classmethod
    def parse(cls, text: str, *, source: str = "the sealing key") -> Self:
        """Read keys, one a line, the current one first: 32 bytes in base64 or hex, maybe after ``NAME:``.

        Empty lines and lines that begin with ``#`` are passed by. Raises `UsageError`, which does not repeat
        the text.
        """
        lines = [line.strip() for line in text.splitlines()]
        wanted = [line for line in lines if line and not line.startswith("#")]
        if not wanted:
            raise UsageError(f"{source} is empty")
        keys = [_key(line, f"{source}, key {place}") for place, line in enumerate(wanted, start=1)]
        return cls(keys[0], tuple(keys[1:]))

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read keys from a file that is the owner's alone. Raises `UsageError`."""
        return cls.parse(_read_private(Path(path)), source="the file of the sealing key")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """Read keys from ``AFTERRUN_SEALING_KEY`` or the file that ``AFTERRUN_SEALING_KEY_FILE`` names.

        Returns ``None`` if neither is set. Raises `UsageError`.
        """
        given = os.environ if environment is None else environment
        text, path = given.get(VARIABLE), given.get(FILE_VARIABLE)
        if text and path:
            raise UsageError(f"{VARIABLE} and {FILE_VARIABLE} are both set: keep one of them")
        if text:
            return cls.parse(text, source=VARIABLE)
        return cls.from_file(path) if path else None

    def rotated(self) -> Self:
        """Return these keys behind a new one."""
        return type(self)(self.generate().current, (self.current, *self.older))

    def text(self) -> str:
        """Return the keys as `parse` reads them, one a line in base64. This is the secret itself."""
        return "".join(f"{base64.b64encode(key.secret).decode()}\n" for key in (self.current, *self.older))

    def by_id(self) -> dict[str, Key]:
        """Return all keys by their ids."""
        return {key.id: key for key in (*self.older, self.current)}

    def write(self, path: str | Path) -> None:
        """Write the keys to a new file that is the owner's alone. Raises `UsageError` if there is one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, PRIVATE)
        except FileExistsError:
            raise UsageError("there is a file already: a key is written to a new one only") from None
        except OSError as error:
            raise UsageError(f"the file of the sealing key cannot be made: {error.strerror}") from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(descriptor, PRIVATE)  # whatever the umask takes away or a folder's default adds
            file.write(self.text())
            file.flush()
            os.fsync(descriptor)


def _key(line: str, source: str) -> Key:
    named = NAMED.fullmatch(line)
    text = named["key"].strip() if named else line
    try:
        raw = bytes.fromhex(text) if HEX.fullmatch(text) else _base64(text)
    except (binascii.Error, ValueError):
        raise UsageError(f"{source} is neither base64 nor hex") from None
    if len(raw) != SIZE:
        raise UsageError(f"{source} has {len(raw)} bytes, and a sealing key has {SIZE}")
    return Key.of(raw)


def _base64(text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)
    return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)


def _read_private(path: Path) -> str:
    """Return the text of a file that is neither a link nor anybody else's. Raises `UsageError`."""
    said = "the file of the sealing key"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise UsageError(f"{said} is not read: {why}") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise UsageError(f"{said} is not read: it is no regular file")
        if about.st_mode & OTHERS:
            raise UsageError(f"{said} is not read: others than its owner may open it, so chmod 600 it first")
        if about.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{said} is not read: it belongs to another user")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(MAX_FILE + 1)
    finally:
        os.close(descriptor)
    if len(raw) > MAX_FILE:
        raise UsageError(f"{said} is not read: it is larger than {MAX_FILE} bytes")
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise UsageError(f"{said} is not text: a key is written in base64 or hex") from None
