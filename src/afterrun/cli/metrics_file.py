"""Files of metrics: Prometheus text, replaced whole, for a textfile collector.

What stands in them, and under which names, is decided in `afterrun.telemetry`.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from afterrun.core.report import Report
from afterrun.core.times import Instant
from afterrun.state.files import Record
from afterrun.telemetry import LastRun, exposition
from afterrun.telemetry.prometheus import BEGINS, SUCCESSFUL

MODE: Final = 0o644
OURS: Final = BEGINS.encode()


def last_success(records: Iterable[Record], *, command: str) -> Instant | None:
    """Return when the last run of a command began that ended well."""
    ended_well = (record.at for record in records if record.command == command and record.ended in SUCCESSFUL)
    return max(ended_well, default=None)


class MetricsFile:
    """A file of metrics. Make it before the store is opened: it looks into a file that is there."""

    def __init__(self, path: Path, *, named: str = "--metrics-file") -> None:
        """Refuse a place that cannot be written, is a link, or holds what is not ours.

        ``named`` is the option or key that named the place.
        """
        self._path = path
        why = _objection(path)
        if why:
            raise click.UsageError(f"{named} {path}: {why}")

    def write(self, report: Report, *, command: str, records: Sequence[Record]) -> bool:
        """Replace the file by what one run came to. A failure leaves the old one, and the report says so."""
        run = LastRun(
            at=report.now,
            ended=report.ended,
            success=last_success(records, command=command),
            labels={"profile": report.profile, "command": command},
            report=report,
        )
        try:
            self.replace(exposition([run]))
        except OSError as error:
            report.notices.append(f"the metrics file was not written: {error.strerror}")
            return False
        return True

    def replace(self, text: str) -> None:
        """Replace the file: whole, readable by all. Raises `OSError` and leaves the old one."""
        descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        fresh = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                _synced(file.fileno())
                os.fchmod(file.fileno(), MODE)
            fresh.replace(self._path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise


def _synced(descriptor: int) -> None:
    """Have a file on disk before it takes the old one's place."""
    os.fsync(descriptor)


def _objection(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} does not exist or cannot be written to"
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "it is a symbolic link, and links are never followed"
        if not stat.S_ISREG(status.st_mode):
            return "it is no regular file"
        with path.open("rb") as file:
            begins = file.read(len(OURS))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or "it cannot be read"
    # An empty file is left alone as well: it may be a lock, or a database's own.
    return "" if begins == OURS else "this file was not written by afterrun, so it is left alone"
