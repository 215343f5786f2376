"""Locks that engines take around their own removal of run folders: held beside ours.

pi-subagents: a folder `.async-retention.lock` with a file that names process, machine and start. It takes one
over whose process is gone or that is a day old; so does this, by the same rules, but never a live one's.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

from afterrun.core.errors import Refused, StoreLocked
from afterrun.profiles.registry import EngineLock
from afterrun.stores.directory.folders import open_folder, read_file, remove_entry, rename_new
from afterrun.stores.directory.process import start_of

PI_LOCK: Final = ".async-retention.lock"
PI_OWNER: Final = "owner.json"
DAY: Final = 86_400.0
TRIES: Final = 4


def engine_lock(name: EngineLock | None, root: int, *, ours: int) -> AbstractContextManager[None]:
    """Hold the engine's own lock, if it has one. Raises `StoreLocked` if the engine is at work.

    ``ours`` is our own folder in the store, where the lock is made whole before it is put in its place: one
    without an owner would keep the engine from its work for a day.
    """
    return nullcontext() if name is None else _pi_lock(root, ours)


@contextmanager
def _pi_lock(root: int, ours: int) -> Iterator[None]:
    token = secrets.token_hex(16)
    try:
        _take(root, token, ours)
    except OSError as error:
        raise Refused("rights", f"the engine's lock {PI_LOCK} cannot be made: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):
            if _owner(root).get("token") == token:
                aside = f"lock-{secrets.token_hex(8)}"
                rename_new(PI_LOCK, aside, at=root, to=ours)
                remove_entry(aside, ours, device=os.fstat(ours).st_dev)


def _take(root: int, token: str, ours: int) -> None:
    made = f"lock-{token}"
    _write(ours, made, token)
    try:
        for _ in range(TRIES):
            try:
                rename_new(made, PI_LOCK, at=ours, to=root)
            except FileExistsError:
                if not _is_stale(root):
                    raise StoreLocked("the engine's own retention is at work; try again later") from None
                _put_aside(root)
            else:
                return
        raise StoreLocked("the engine's own retention takes its lock again and again; try again later")
    finally:
        with suppress(FileNotFoundError):
            remove_entry(made, ours, device=os.fstat(ours).st_dev)


def _write(ours: int, made: str, token: str) -> None:
    os.mkdir(made, 0o700, dir_fd=ours)
    start = start_of(os.getpid())
    owner = {
        "version": 1,
        "token": token,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "startedAt": int(time.time() * 1_000),
        "processStartIdentity": f"linux:{start}",
    }
    folder = open_folder(made, ours)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(PI_OWNER, flags, 0o600, dir_fd=folder)
        try:
            os.write(descriptor, json.dumps(owner).encode())
        finally:
            os.close(descriptor)
    finally:
        os.close(folder)


def _owner(root: int) -> dict[str, Any]:
    folder = open_folder(PI_LOCK, root)
    try:
        data = json.loads(read_file(PI_OWNER, folder, limit=4_096)[0])
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(folder)
    return data if isinstance(data, dict) else {}


def _is_stale(root: int) -> bool:
    owner = _owner(root)
    pid, started = owner.get("pid"), owner.get("startedAt")
    if not isinstance(pid, int) or not isinstance(started, int | float):
        return time.time() - os.stat(PI_LOCK, dir_fd=root, follow_symlinks=False).st_mtime >= DAY
    if owner.get("hostname") != socket.gethostname():
        return False
    start, known = start_of(pid), owner.get("processStartIdentity")
    if start is None or (isinstance(known, str) and known.startswith("linux:") and known != f"linux:{start}"):
        return True
    return not isinstance(known, str) and time.time() - started / 1_000 >= DAY


def _put_aside(root: int) -> None:
    aside = f"{PI_LOCK}.stale-{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):
        rename_new(PI_LOCK, aside, at=root)
        remove_entry(aside, root, device=os.fstat(root).st_dev)
