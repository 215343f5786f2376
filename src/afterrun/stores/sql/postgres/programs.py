"""PostgreSQL's own programs: found, of a version that fits, and let in where we are, with no secret seen."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psycopg

from afterrun.core.errors import BackupFailed, Refused

PG_DUMP: Final = "AFTERRUN_PG_DUMP"
"""Variable of the environment that names the pg_dump to use; pg_restore is the one beside it."""

CHUNK: Final = 1_048_576
LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at whether to go on while a program writes nothing."""

REASON: Final = 200
"""Characters of a program's last words that a message repeats."""

OWN_WAYS: Final = ("password", "passfile", "service", "servicefile", "host", "hostaddr", "port")
"""Parameters of a connection that do not go to a program as they are."""

DEFAULTS: Final = {"sslcertmode": "allow"}
"""Defaults that the library does not report as such, and that an older one of pg_dump's may not know."""

OVERRIDDEN: Final = ("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE")


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that make and read a dump of a server, by their paths."""

    dump: str
    restore: str


def programs(server_version: int) -> Programs:
    """Find pg_dump and pg_restore. Raises `Refused` where they are missing or older than the server."""
    given = os.environ.get(PG_DUMP)
    found = shutil.which(given or "pg_dump")
    if found is None:
        where = f"{PG_DUMP} names {given!r}, which is no program" if given else "there is none on the PATH"
        raise Refused(
            "pg-dump",
            f"a whole backup is made by pg_dump, and {where}: install PostgreSQL's client programs, or give "
            f"the path of pg_dump in {PG_DUMP}; --backup-kind removed needs no program",
        )
    restore = shutil.which(str(Path(found).with_name("pg_restore")))
    if restore is None:
        raise Refused("pg-dump", f"there is no pg_restore beside {found}, which is needed to verify a backup")
    needed, major = server_version // 10_000, _major(found)
    if major < needed:
        raise Refused(
            "pg-dump",
            f"{found} is of PostgreSQL {major} and cannot dump a server of version {needed}: give the path "
            f"of a pg_dump of version {needed} or later in {PG_DUMP}",
        )
    return Programs(found, restore)


def _major(program: str) -> int:
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run([program, "--version"], capture_output=True, check=True, timeout=60).stdout  # noqa: S603 - the user's own
        version = re.search(rb"PostgreSQL\) ([0-9]+)", told)
        if version is not None:
            return int(version[1])
    raise Refused("pg-dump", f"{program} does not say which version of PostgreSQL it is of")


def output(
    command: Sequence[str], environment: Mapping[str, str], *, check: Callable[[], None]
) -> Iterator[bytes]:
    """Yield what a program writes; ``check`` may raise. Raises `BackupFailed` with its words when it fails.

    It ends with us: killed where this ends early, and after a SIGKILL when it finds that nobody reads.
    """
    with tempfile.TemporaryFile() as told, _running(command, environment, told) as process:
        if process.stdout is None:
            raise ValueError(command)
        while True:
            check()
            if not select.select([process.stdout], [], [], LOOK_SECONDS)[0]:
                continue
            chunk = process.stdout.read(CHUNK)
            if not chunk:
                break
            yield chunk
        if process.wait():
            told.seek(0)
            raise BackupFailed(
                "io", f"{Path(command[0]).name} failed: {_reason(told.read())}; the store is unchanged"
            )


@contextmanager
def _running(
    command: Sequence[str], environment: Mapping[str, str], told: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own, so that Ctrl-C is ours; it does not outlive the block."""
    with subprocess.Popen(  # noqa: S603 - a program that the user has on the PATH or named
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=told,
        bufsize=0,
        env=dict(environment),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _reason(told: bytes) -> str:
    """Return the first complaint of a program: what follows it are statements and hints."""
    lines = [line for line in told.decode("utf-8", "replace").splitlines() if line.strip()]
    complaint = next((line for line in lines if "error:" in line), lines[-1] if lines else "it says nothing")
    return complaint.partition("error:")[2].strip()[:REASON] or complaint[:REASON]


@contextmanager
def login(driver: psycopg.Connection[Any]) -> Iterator[tuple[Mapping[str, str], Callable[[], None]]]:
    """Give an environment in which PostgreSQL's programs connect as we do, and what to call once they have.

    The parameters stand in a service file and the password in a password file, both for their owner alone, in
    a folder for its owner alone, which goes when the second is called. None of it is an argument or variable.
    """
    environment = {name: value for name, value in os.environ.items() if name not in OVERRIDDEN}
    environment |= {"PGTZ": "UTC", "LC_ALL": "C"}
    folder = tempfile.TemporaryDirectory(prefix="afterrun-")
    with folder as name:
        service = _private(Path(name, "service"), "[afterrun]\n" + "".join(_parameters(driver)))
        environment |= {"PGSERVICEFILE": str(service), "PGSERVICE": "afterrun"}
        if driver.info.password:
            escaped = driver.info.password.replace("\\", "\\\\").replace(":", "\\:")
            environment["PGPASSFILE"] = str(_private(Path(name, "pass"), f"*:*:*:*:{_line(escaped)}\n"))
        yield environment, folder.cleanup


def _parameters(driver: psycopg.Connection[Any]) -> Iterator[str]:
    """Yield the lines of a service that leads where this connection is, wherever its parameters came from."""
    named: dict[str, str] = {}
    for option in driver.pgconn.info:
        name, value = option.keyword.decode(), option.val
        default = option.compiled or DEFAULTS.get(name, "").encode()
        if value and value != default and name not in OWN_WAYS:
            named[name] = value.decode()
        if name == "hostaddr" and value:
            named["hostaddr"] = driver.info.hostaddr
    named |= {"host": driver.info.host, "port": str(driver.info.port)}
    yield from (f"{name}={_line(value)}\n" for name, value in named.items() if value)


def _line(value: str) -> str:
    """Return a value that can stand in such a file, which knows no quotes. Raises `Refused` for others."""
    if value != value.strip() or any(char in value for char in "\r\n\0"):
        raise Refused(
            "pg-dump",
            "a name or password of this connection begins or ends with a space or has a line break, which no "
            "file for pg_dump can hold: use --backup-kind removed",
        )
    return value


def _private(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
