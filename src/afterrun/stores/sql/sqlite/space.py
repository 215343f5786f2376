"""Space of a SQLite file: measuring it, the room that giving some back needs, and giving it back in place.

The file is never swapped for another: an idle handle of the engine would go on writing into the old one.
Sizes come from `stat`, which opens nothing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from afterrun.core.errors import AfterrunError, Refused, StoreFailure, UnitFailure
from afterrun.core.space import MIB, Ending, FileSpace, Room
from afterrun.stores.sql.sqlite.errors import classified

VACUUM_BUSY_MS: Final = 30_000
"""How long a VACUUM waits for locks: it is not tried twice, as each try copies the whole database."""

STEP_PAGES: Final = (100, 200)
"""Fewest and most pages of one bounded call: about 80 us a page, so that a call fits `STEP_SECONDS`."""

STEP_SECONDS: Final = 0.020
MIN_REST: Final = 0.025
MARGIN: Final = MIB
FRAME: Final = 24
"""Bytes of a WAL frame's header; a page in a rollback journal has fewer."""

AUTO_VACUUM: Final[Mapping[int, Literal["none", "full", "incremental"]]] = {
    0: "none",
    1: "full",
    2: "incremental",
}


def measure(driver: sqlite3.Connection, path: Path) -> FileSpace:
    """Measure a database and its files."""
    with classified():
        pages, free, size, vacuum = (
            driver.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size", "auto_vacuum")
        )
        journal = driver.execute("PRAGMA journal_mode").fetchone()[0]
    return FileSpace(
        page_size=size,
        pages=pages,
        free_pages=free,
        file=path.stat().st_size,
        wal=_size(Path(f"{path}-wal")),
        journal=journal,
        auto_vacuum=AUTO_VACUUM[vacuum],
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def rooms(space: FileSpace, path: Path) -> tuple[Room, ...]:
    """Return the room that giving back needs, one entry a volume.

    A VACUUM writes all live content to a temporary file, then all of it to the WAL or, as it was, to the
    rollback journal. Measured: 1.00 times what is left afterwards for each.
    """
    if space.method == "none":
        return ()
    if space.method == "incremental":
        needed = STEP_PAGES[1] * 2 * (space.page_size + FRAME) + MARGIN
        return (Room(volume="database", path=str(path.parent), needed=needed, available=_free(path.parent)),)
    journal = space.live_pages * (space.page_size + FRAME) + MARGIN
    copy = space.live + MARGIN
    temporary = temporary_folder(os.environ)
    if _device(path.parent) == _device(temporary):
        return (
            Room(
                volume="database and temporary files",
                path=str(path.parent),
                needed=journal + copy,
                available=_free(path.parent),
            ),
        )
    return (
        Room(volume="database", path=str(path.parent), needed=journal, available=_free(path.parent)),
        Room(volume="temporary files", path=str(temporary), needed=copy, available=_free(temporary)),
    )


def temporary_folder(environment: Mapping[str, str]) -> Path:
    """Return where SQLite puts temporary files: the first of its list that it may write to."""
    named = [environment.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR")]
    for place in (*named, "/var/tmp", "/usr/tmp", "/tmp", "."):  # noqa: S108 - the list in SQLite's os_unix.c
        if place and Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK):
            return Path(place)
    return Path()


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _free(folder: Path) -> int:
    volume = os.statvfs(folder)
    return volume.f_bavail * volume.f_frsize


def give_back(
    driver: sqlite3.Connection, space: FileSpace, *, gate: Callable[[], bool], rest: float
) -> Ending:
    """Give free pages back to the file system by the space's method, in place.

    Raises `Refused` before anything is written if a reader pins the WAL, and `StoreFailure` for what SQLite
    could not do: the content is as it was.
    """
    wal = space.journal == "wal"
    if wal and not _truncate_wal(driver):
        raise Refused(
            "pinned",
            f"another process keeps the WAL of {space.wal} bytes in use: a reader that does not end, or a "
            "writer. Nothing was done, as the file could not shrink; end that reader and run it again",
        )
    ended: Ending = "completed"
    if space.method == "vacuum":
        _vacuum(driver, wal=wal)
    elif space.method == "incremental":
        ended = _step_by_step(driver, wal=wal, gate=gate, rest=rest)
    if wal and not _truncate_wal(driver):
        return "pinned"
    return ended


def _truncate_wal(driver: sqlite3.Connection) -> bool:
    """Move the WAL into the database and cut it to nothing; say whether readers allowed it."""
    try:
        with classified():
            busy, _, _ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except UnitFailure as error:
        if error.kind != "lock":
            raise
        return False
    return not busy


def _vacuum(driver: sqlite3.Connection, *, wal: bool) -> None:
    [[waits]] = driver.execute("PRAGMA busy_timeout").fetchall()
    try:
        driver.execute(f"PRAGMA busy_timeout={VACUUM_BUSY_MS}").fetchall()
        driver.execute("PRAGMA temp_store=FILE")  # in memory, the copy would be as large as the database
        with _named("VACUUM was not done"):
            driver.execute("VACUUM")
    except StoreFailure:
        if wal:  # the frames of a VACUUM that failed would stay in the WAL's file
            with suppress(AfterrunError, sqlite3.Error):
                _truncate_wal(driver)
        raise
    finally:
        driver.execute("PRAGMA temp_store=MEMORY")
        driver.execute(f"PRAGMA busy_timeout={waits}").fetchall()


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Turn what a batch would be deferred for, such as a lock, into a failure of the store."""
    try:
        with classified():
            yield
    except UnitFailure as error:
        kind = "busy" if error.kind == "lock" else error.kind
        raise StoreFailure(kind, f"{what}: {error}") from None


def _step_by_step(driver: sqlite3.Connection, *, wal: bool, gate: Callable[[], bool], rest: float) -> Ending:
    """Give pages back in bounded calls, the lock left free between them."""
    pages = STEP_PAGES[0]
    left = _free_pages(driver)
    while left:
        if not gate():
            return "interrupted"
        began = time.monotonic()
        with _named("the bounded vacuum stopped"):
            # Not `execute`: one step of this statement frees one page, and fetching its rows takes one step.
            driver.executescript(f"PRAGMA incremental_vacuum({pages})")
        held = time.monotonic() - began
        with classified():
            if wal:
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            now = _free_pages(driver)
        if now >= left:  # the engine frees pages as fast: the next reclaim goes on
            return "interrupted"
        left = now
        pages = STEP_PAGES[0] if held > STEP_SECONDS else min(pages * 2, STEP_PAGES[1])
        if rest:
            time.sleep(max(held * rest, MIN_REST))
    return "completed"


def _free_pages(driver: sqlite3.Connection) -> int:
    return int(driver.execute("PRAGMA freelist_count").fetchone()[0])


def lacking(rooms: Sequence[Room]) -> str:
    """Say which volume lacks room, with the numbers; an empty text if none does."""
    short = [
        f"{room.needed:,} bytes are needed for {room.volume} in {room.path}, {room.available:,} are free"
        for room in rooms
        if not room.enough
    ]
    return "; ".join(short)
