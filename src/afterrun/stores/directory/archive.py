"""A tar archive as backups of directories use it: written as pax, and read by rules of our own.

It is input when it is read again. So only what is written here is admitted: regular files, folders and
symbolic links, with headers of bounded size; anything else makes the whole archive no backup.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from afterrun.core.errors import BackupFailed

BLOCK: Final = 512
CHUNK: Final = 1 << 20
MAX_HEADER: Final = 64 * 1024
"""Bytes of one extended header: a path of 4,096 bytes and a link fit well."""

ZEROS: Final = bytes(BLOCK)
KEYS: Final = ("path", "linkpath", "size", "mtime", "uid", "gid", "hdrcharset")
KINDS: Final = {tarfile.REGTYPE: stat.S_IFREG, tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK}
PERMISSIONS: Final = 0o777
"""Bits of a mode that come back: no setuid, setgid or sticky bit does."""

NANOS: Final = 1_000_000_000
TIME: Final = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?")


class Mark(NamedTuple):
    """A place in an archive that is being written, to which it can go back."""

    offset: int
    digest: hashlib._Hash


class Writer:
    """Writes members one after another; ``offset`` is how long the archive is, by then."""

    def __init__(self, file: BinaryIO) -> None:
        """Take an empty file."""
        self._file = file
        self._sum = hashlib.sha256()
        self.offset = 0

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of all that was written."""
        return self._sum.hexdigest()

    def mark(self) -> Mark:
        """Remember this place."""
        return Mark(self.offset, self._sum.copy())

    def back_to(self, mark: Mark) -> None:
        """Take back all that was written since."""
        self._file.seek(mark.offset)
        self._file.truncate()
        self.offset, self._sum = mark.offset, mark.digest

    def header(self, name: str, facts: os.stat_result, *, link: str = "") -> None:
        """Write the header of an entry of a store."""
        info = tarfile.TarInfo(name)
        kinds = {mode: kind for kind, mode in KINDS.items()}
        info.type = kinds[stat.S_IFMT(facts.st_mode)]
        info.mode, info.uid, info.gid = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
        info.size = facts.st_size if info.type == tarfile.REGTYPE else 0
        info.linkname = link
        info.mtime = max(facts.st_mtime_ns // NANOS, 0)
        seconds, rest = divmod(abs(facts.st_mtime_ns), NANOS)
        sign = "-" if facts.st_mtime_ns < 0 else ""
        info.pax_headers = {"mtime": f"{sign}{seconds}.{rest:09d}"}
        self.raw(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))

    def record(self, name: str, raw: bytes) -> None:
        """Write a file of our own."""
        info = tarfile.TarInfo(name)
        info.mode, info.size = 0o600, len(raw)
        self.raw(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        self.raw(raw)
        self.pad(len(raw))

    def raw(self, part: bytes) -> None:
        """Write bytes."""
        self._file.write(part)
        self._sum.update(part)
        self.offset += len(part)

    def pad(self, size: int) -> None:
        """Fill up the last block of a file of this size."""
        self.raw(bytes(-size % BLOCK))

    def end(self) -> None:
        """Write what ends an archive."""
        self.raw(ZEROS * 2)
        self._file.flush()


class Member(NamedTuple):
    """A member of an archive. ``before`` is the SHA-256 of all that stands before it."""

    name: str
    kind: int
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    link: str
    before: str


@dataclass(slots=True)
class Reader:
    """Reads members one after another. Raises `BackupFailed` for anything that a `Writer` does not write."""

    file: BinaryIO

    def members(self) -> Iterator[Member]:
        """Yield all members; what of the content of one was not read is passed over.

        Each has the checksum of what stands before it.
        """
        self._sum = hashlib.sha256()
        self._left = self._padding = 0
        while True:
            self._skip()
            before = self._sum.hexdigest()
            block = self._take(BLOCK)
            if block == ZEROS:
                if self._take(BLOCK) != ZEROS or self.file.read(1):
                    raise corrupt("it goes on behind its end")
                return
            yield self._member(block, before)

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of the member that was yielded last, piece by piece."""
        while self._left:
            part = self._take(min(CHUNK, self._left))
            self._left -= len(part)
            yield part

    def content(self, *, limit: int) -> bytes:
        """Return the content of the member that was yielded last, if it is small."""
        if self._left > limit:
            raise corrupt("a record in it is too large")
        return b"".join(self.chunks())

    def _member(self, block: bytes, before: str) -> Member:
        more: dict[str, str] = {}
        info = _info(block)
        if info.type == tarfile.XHDTYPE:
            if not 0 <= info.size <= MAX_HEADER:
                raise corrupt("a header in it is too large")
            more = _records(self._take(info.size))
            self._take(-info.size % BLOCK)
            info = _info(self._take(BLOCK))
        if info.type not in KINDS:
            raise corrupt("it has a member that is neither file, folder nor link")
        try:
            size = int(more.get("size", info.size))
            mtime = _nanos(more["mtime"]) if "mtime" in more else int(info.mtime) * NANOS
            uid, gid = int(more.get("uid", info.uid)), int(more.get("gid", info.gid))
        except ValueError:
            raise corrupt("a header in it has a malformed number") from None
        if size < 0 or (size and info.type != tarfile.REGTYPE) or min(uid, gid) < 0:
            raise corrupt("a header in it has a number that cannot be")
        self._left, self._padding = size, -size % BLOCK
        name, link = more.get("path", info.name), more.get("linkpath", info.linkname)
        return Member(name, KINDS[info.type], info.mode & PERMISSIONS, uid, gid, size, mtime, link, before)

    def _skip(self) -> None:
        for _ in self.chunks():
            pass
        if any(self._take(self._padding)):
            raise corrupt("it has something between its members")
        self._padding = 0

    def _take(self, size: int) -> bytes:
        part = self.file.read(size)
        if len(part) != size:
            raise corrupt("it is cut off")
        self._sum.update(part)
        return part

    _sum: hashlib._Hash = None  # type: ignore[assignment]
    _left: int = 0
    _padding: int = 0


def _info(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        raise corrupt("a header in it is malformed") from None


def _records(raw: bytes) -> dict[str, str]:
    """Read an extended header: records of a length, a key and a value."""
    found: dict[str, str] = {}
    while raw:
        length, space, _ = raw.partition(b" ")
        if not space or not length.isdigit() or len(length) > len(str(MAX_HEADER)):
            raise corrupt("a header in it is malformed")
        record, raw = raw[: int(length)], raw[int(length) :]
        key, equals, value = record[len(length) + 1 : -1].partition(b"=")
        name = key.decode("ascii", "replace")
        if len(record) != int(length) or record[-1:] != b"\n" or not equals or name not in KEYS:
            raise corrupt("a header in it is malformed")
        found[name] = value.decode("utf-8", "surrogateescape")
    return found


def _nanos(text: str) -> int:
    """Read a time in seconds, exactly. Raises `ValueError`."""
    match = TIME.fullmatch(text)
    if match is None:
        raise ValueError("no time")
    nanos = int(match[2]) * NANOS + int((match[3] or "0").ljust(9, "0"))
    return -nanos if match[1] else nanos


def corrupt(why: str) -> BackupFailed:
    """Return the error for a file that is damaged, or that is no backup of ours."""
    return BackupFailed("corrupt", f"the backup is damaged, or it is none: {why}")
