"""`--metrics-file`: what the last run came to, in the Prometheus text format for a textfile collector.

It holds counts, times and the profile's name; no id and no path. The file is replaced whole.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

import click

from afterrun.core.report import Ended, Report
from afterrun.core.times import SECOND, Instant
from afterrun.state.files import Record

MODE: Final = 0o644
OURS: Final = b"# HELP afterrun_"
SUCCESSFUL: Final = ("completed", "budget")
"""Endings that count as a success: a budget is meant to end a sweep."""

Sample = tuple[dict[str, str], float]


class MetricsFile:
    """A file of metrics. Make it before the store is opened: it looks into a file that is there."""

    def __init__(self, path: Path) -> None:
        """Refuse a place that cannot be written, is a link, or holds what is not ours."""
        self._path = path
        why = _objection(path)
        if why:
            raise click.UsageError(f"--metrics-file {path}: {why}")

    def write(self, report: Report, *, command: str, records: Sequence[Record]) -> bool:
        """Replace the file: whole, readable by all. A failure leaves the old one, and the report says so."""
        try:
            self._replace(report, command=command, records=records)
        except OSError as error:
            report.notices.append(f"the metrics file was not written: {error.strerror}")
            return False
        return True

    def _replace(self, report: Report, *, command: str, records: Sequence[Record]) -> None:
        succeeded = [
            record.at for record in records if record.command == command and record.ended in SUCCESSFUL
        ]
        text = "".join(_lines(report, command=command, success=max(succeeded, default=None)))
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


def _lines(report: Report, *, command: str, success: Instant | None) -> Iterator[str]:
    base = {"profile": report.profile, "command": command}
    units = report.units
    one = "in the last run"
    yield from _metric(
        "last_run_timestamp_seconds", "When the last run began.", [(base, report.now / SECOND)]
    )
    if success is not None:
        said = "When the last run began that ended completed or by its budget."
        yield from _metric("last_success_timestamp_seconds", said, [(base, success / SECOND)])
    counts = {"removed": units.removed, "deferred": units.deferred, "skipped": sum(units.skipped.values())}
    kinds = [({**base, "kind": report.kind, "outcome": name}, float(n)) for name, n in counts.items()]
    yield from _metric("units", f"Units {one}, by what became of them.", kinds)
    rows = 0 if report.dry_run else sum(report.rows.values())  # a guarded sweep only counted
    yield from _metric("rows_removed", f"Rows removed {one}.", [(base, float(rows))])
    yield from _metric("backlog_units", "Units left to do, at most.", [(base, float(report.backlog_after))])
    yield from _metric("seconds", f"Seconds that were spent {one}.", [(base, report.seconds)])
    said = f"Longest time that locks were held {one}."
    yield from _metric("longest_batch_seconds", said, [(base, report.longest_batch)])
    sizes = {"before": report.file_before, "after": report.file_after}
    files = [({**base, "moment": name}, float(n)) for name, n in sizes.items()]
    yield from _metric("file_bytes", f"Size of the database {one}, measured.", files)
    ends = [({**base, "ended": name}, float(report.ended == name)) for name in get_args(Ended)]
    yield from _metric("ended", "1 for how the last run ended, 0 for all other ways.", ends)


def _metric(name: str, said: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP afterrun_{name} {said}\n# TYPE afterrun_{name} gauge\n"
    for labels, value in samples:
        words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"afterrun_{name}{{{words}}} {value!r}\n"


def _escaped(text: str) -> str:
    safe = text.encode("utf-8", "backslashreplace").decode()
    return safe.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
