"""Kill a removal before its n-th changing system call, by strace.

A call that strace answers with SIGKILL is not made any more, so the killed run made exactly the calls before.
Reads are not counted, and of the opens only those that may create a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from crash.aged import Request

CHANGING: Final = (
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "copy_file_range", "sendfile"),
    *("fsync", "fdatasync", "sync_file_range", "ftruncate", "truncate", "fallocate"),
    *("open", "openat", "creat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2"),
    *("chmod", "fchmod", "fchmodat", "utimensat"),
)
OPENING: Final = ("open", "openat")
TESTS: Final = Path(__file__).resolve().parents[1]
_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)\((.*)$")


class Call(NamedTuple):
    """One changing call: its name, which of that name it is (opens that only read count), its text."""

    name: str
    ordinal: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """What a traced removal came to: exit code (negative: the signal), changing calls begun."""

    code: int
    calls: tuple[Call, ...]


class Victims:
    """Runs removals one after another, each in a process of its own that can be killed on the way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wrap a server that is ready."""
        self._process = process

    def run(self, request: Request, log: Path, *, kill: Call | None = None) -> Run:
        """Run one removal, killed before the given call or to its end."""
        child = int(self._ask(asdict(request)))
        return traced(child, lambda: int(self._ask("go")), log, kill=kill)

    def _ask(self, question: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks the victims is gone"
        return answer


@contextmanager
def victims(warm_up: Path, *profile: Path) -> Iterator[Victims]:
    """Start the process that forks the victims; the store at ``warm_up`` is removed from once."""
    command = [sys.executable, str(TESTS / "crash" / "victim.py"), "serve", str(warm_up), *map(str, profile)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == '"ready"\n'
            yield Victims(process)
        finally:
            process.kill()


@contextmanager
def holding(request: Request) -> Iterator[subprocess.Popen[str]]:
    """Start a removal in a process of its own that holds the sweep lock until a line comes."""
    command = [sys.executable, str(TESTS / "crash" / "victim.py"), "hold", json.dumps(asdict(request))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == '"held"\n'
            yield process
        finally:
            process.kill()


def environment() -> dict[str, str]:
    """Return the environment of a process that imports from tests and writes no bytecode."""
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


def traced(child: int, go: Callable[[], int], log: Path, *, kill: Call | None = None) -> Run:
    """Trace a process that waits, killed before the given call or to its end.

    ``go`` lets it run, and returns its exit code.
    """
    command = ["strace", "-f", "-y", "-s", "0", "-o", str(log), "-p", str(child)]
    command += ["-e", f"trace={','.join(_known())}", "-e", "signal=none"]
    if kill is not None:
        command += ["-e", f"inject={kill.name}:signal=SIGKILL:when={kill.ordinal}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        told = tracer.stderr.readline()
        assert "attached" in told, told + tracer.stderr.read()
        code = go()
        tracer.communicate(timeout=30)
    return Run(code, tuple(_changing(log)))


def places(run: Run, stride: int) -> list[int]:
    """Return which calls, counted from 1, are killed: all, or some of each row of equal ones."""
    numbers: list[int] = []
    in_row = 0
    for number, call in enumerate(run.calls, 1):
        in_row = in_row + 1 if number > 1 and call.name == run.calls[number - 2].name else 0
        if in_row % stride == 0:
            numbers.append(number)
    return numbers


def _known() -> list[str]:
    """Mark each call as one that this machine may lack: arm64 has no plain `open`."""
    return [f"?{name}" for name in CHANGING]


def _changing(log: Path) -> Iterator[Call]:
    seen: Counter[str] = Counter()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        found = _CALL.match(line)
        if found is None:
            continue
        name, text = found.groups()
        seen[name] += 1
        if name not in OPENING or "O_CREAT" in text:
            yield Call(name, seen[name], text)
