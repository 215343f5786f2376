"""Who a process is: its id alone says little, since other processes, namespaces and machines use it too."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
START: Final = 19
"""Place of the start, in clock ticks after boot, behind the name of the program in /proc/<pid>/stat."""

MACHINE_FILES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


@dataclass(frozen=True, slots=True)
class Here:
    """This process, as other ones can tell it: an empty text is what cannot be known."""

    pid: int
    start: str
    namespace: str
    boot: str
    machine: str


def here() -> Here:
    """Return who this process is."""
    return Here(os.getpid(), start_of(os.getpid()) or "", _namespace(), boot_id(), machine_id())


def start_of(pid: int) -> str | None:
    """Return when a process of this namespace was started, in ticks; nothing if there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 1 :].split()
    # a zombie runs no more, but its parent has not been told
    return None if len(fields) <= START or fields[0] in (b"Z", b"X") else fields[START].decode()


def started_at(pid: int) -> float | None:
    """Return when a process was started, in seconds since 1970; nothing if there is none."""
    ticks = start_of(pid)
    if ticks is None:
        return None
    now = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return now + int(ticks) / os.sysconf("SC_CLK_TCK")


def _namespace() -> str:
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


@cache
def boot_id() -> str:
    """Return what names this start of the machine."""
    return _text(PROC / "sys/kernel/random/boot_id")


@cache
def machine_id() -> str:
    """Return what names this machine."""
    return next((text for file in MACHINE_FILES if (text := _text(file))), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
