"""Every name that telemetry uses: log events, the span, metrics. docs/telemetry.md has the same table.

Text in a value is one of a closed list of words, so that no id, path or payload can get into telemetry by the
message of an error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from afterrun.core.events import BatchDone, BatchFailed, BlobsDone, Event, PageRead, SweepEnded, UnitDeferred
from afterrun.core.report import Ended

Signal = Literal[
    "log", "span", "span event", "counter", "histogram", "prometheus gauge", "prometheus counter"
]
Value = str | int | float
Facts = Mapping[str, Value]

UNIT_FAULTS: Final = (
    "constraint",
    "deadlock",
    "lock",
    "oversized",
    "serialization",
    "timeout",
    "trigger",
)
"""Kinds of a unit's failure; any other text is told as `OTHER`."""

OTHER: Final = "other"
WORDS: Final[Mapping[str, tuple[str, ...]]] = {"kind": UNIT_FAULTS, "ended": get_args(Ended)}
"""What the fields of core events that hold text may say."""

_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name, where it occurs, what it means, the unit of its value, and the fields or labels it has."""

    name: str
    signal: Signal
    said: str
    unit: str = ""
    fields: tuple[str, ...] = ()


def _log(name: str, said: str, *field_names: str) -> Name:
    return Name(name=name, signal="log", said=said, fields=field_names)


def _prometheus(name: str, said: str, *field_names: str, unit: str = "", counter: bool = False) -> Name:
    signal: Signal = "prometheus counter" if counter else "prometheus gauge"
    return Name(name=f"afterrun_{name}", signal=signal, said=said, unit=unit, fields=field_names)


# ------------------------------------------------------------------------------------ core events

EVENTS: Final[Mapping[type[Event], tuple[Name, int]]] = {
    PageRead: (_log("page", "A page of candidates was judged.", "scanned", "expired"), logging.DEBUG),
    BatchDone: (
        _log("batch", "A batch was committed.", "units", "members", "rows", "skipped", "held"),
        logging.DEBUG,
    ),
    BatchFailed: (
        _log("batch-failed", "A batch was rolled back and is tried again in halves.", "units", "kind"),
        logging.INFO,
    ),
    BlobsDone: (
        _log("blobs", "Shared payloads that nothing needed were removed.", "blobs", "size", "rows", "held"),
        logging.DEBUG,
    ),
    UnitDeferred: (
        _log("deferred", "A unit failed alone and waits for a later sweep.", "kind"),
        logging.WARNING,
    ),
    SweepEnded: (
        _log("sweep-ended", "A sweep or manual apply is over.", "ended", "removed", "seconds"),
        logging.INFO,
    ),
}
"""The log event of each core event, and its level; a sweep that ended `failed` is told as an error."""

LOUDER: Final[Mapping[str, int]] = {"failed": logging.ERROR, "guard": logging.WARNING}

OBSERVER_FAILED: Final = _log("observer-failed", "An observer raised; told once for each observer.", "error")

# ---------------------------------------------------------------------- what `afterrun watch` adds

WATCH_BEGAN: Final = _log("watch-began", "`afterrun watch` looks after its stores.", "stores", "parallel")
SWEEP_BEGAN: Final = _log("sweep-began", "A sweep begins, for this reason.", "store", "reason")
APPROVAL_WANTED: Final = _log(
    "approval-wanted",
    "A sweep removed nothing and asks; the fingerprint approves it.",
    "store",
    "units",
    "fingerprint",
)
NOT_SWEPT: Final = _log(
    "not-swept",
    "A sweep failed, was refused, or found the store held. `message`, which may name paths, only with `-v`.",
    "store",
    "ended",
    "kind",
    "message",
)
NOT_WRITTEN: Final = _log("metrics-not-written", "A file of metrics is as old as before.", "store", "error")
WATCH_STOPPING: Final = _log("watch-stopping", "A signal came; running sweeps are settled.")
WATCH_ENDED: Final = _log("watch-ended", "The process ends with this exit code.", "code", "settled")
WATCH_LOGS: Final = (
    WATCH_BEGAN,
    SWEEP_BEGAN,
    APPROVAL_WANTED,
    NOT_SWEPT,
    NOT_WRITTEN,
    WATCH_STOPPING,
    WATCH_ENDED,
)

# ---------------------------------------------------------------------- what `afterrun serve` adds

SERVER_READY: Final = _log("server-ready", "`afterrun serve` takes work, at this address.", "at")
SERVER_STOPPING: Final = _log("server-stopping", "A signal came; running steps end or are handed off.")
SERVER_ENDED: Final = _log("server-ended", "The server has let go of its store.")
SERVER_LOGS: Final = (SERVER_READY, SERVER_STOPPING, SERVER_ENDED)

# ---------------------------------------------------------------------------------- OpenTelemetry

SPAN: Final = Name(
    name="afterrun.sweep",
    signal="span",
    said="One sweep or manual apply, from its first page to its record.",
    fields=("afterrun.ended", "afterrun.removed", "afterrun.batches"),
)
SPAN_EVENTS: Final[Mapping[type[Event], Name]] = {
    BatchDone: Name(
        name="afterrun.batch",
        signal="span event",
        said="A batch was committed; the newest 128 of a sweep are kept.",
        fields=("afterrun.units", "afterrun.members", "afterrun.rows", "afterrun.skipped", "afterrun.held"),
    ),
    BatchFailed: Name(
        name="afterrun.batch.failed",
        signal="span event",
        said="A batch was rolled back.",
        fields=("afterrun.units", "afterrun.kind"),
    ),
    BlobsDone: Name(
        name="afterrun.blobs",
        signal="span event",
        said="Shared payloads were removed.",
        fields=("afterrun.blobs", "afterrun.size", "afterrun.rows", "afterrun.held"),
    ),
    UnitDeferred: Name(
        name="afterrun.unit.deferred",
        signal="span event",
        said="A unit failed alone.",
        fields=("afterrun.kind",),
    ),
}


def _counter(name: str, unit: str, said: str, *field_names: str) -> Name:
    return Name(name=name, signal="counter", said=said, unit=unit, fields=field_names)


SWEEPS: Final = _counter(
    "afterrun.sweeps", "{sweep}", "Sweeps and manual applies that ended.", "afterrun.ended"
)
REMOVED: Final = _counter("afterrun.units.removed", "{unit}", "Units removed.")
SKIPPED: Final = _counter("afterrun.units.skipped", "{unit}", "Units that changed before their turn came.")
DEFERRED: Final = _counter("afterrun.units.deferred", "{unit}", "Units that failed alone.", "afterrun.kind")
ROWS: Final = _counter("afterrun.rows.removed", "{row}", "Rows removed.")
BLOBS: Final = _counter("afterrun.blobs.removed", "{blob}", "Shared payloads removed.")
FAILED_BATCHES: Final = _counter(
    "afterrun.batches.failed", "{batch}", "Batches that were rolled back.", "afterrun.kind"
)
DURATION: Final = Name(
    name="afterrun.sweep.duration",
    signal="histogram",
    said="Time a sweep or manual apply took.",
    unit="s",
    fields=("afterrun.ended",),
)
HELD: Final = Name(
    name="afterrun.batch.held",
    signal="histogram",
    said="Time a batch, or a removal of blobs, held its locks.",
    unit="s",
)
INSTRUMENTS: Final = (SWEEPS, REMOVED, SKIPPED, DEFERRED, ROWS, BLOBS, FAILED_BATCHES, DURATION, HELD)

# ------------------------------------------------------------------------------------- Prometheus

IN_LAST: Final = "in the last run"
LAST_RUN: Final = _prometheus("last_run_timestamp_seconds", "When the last run began.", unit="s")
LAST_SUCCESS: Final = _prometheus(
    "last_success_timestamp_seconds",
    "When the last run began that ended completed or by its budget.",
    unit="s",
)
UNITS: Final = _prometheus("units", f"Units {IN_LAST}, by what became of them.", "kind", "outcome")
ROWS_REMOVED: Final = _prometheus("rows_removed", f"Rows removed {IN_LAST}.")
BACKLOG: Final = _prometheus("backlog_units", "Units left to do, at most.")
SECONDS: Final = _prometheus("seconds", f"Seconds that were spent {IN_LAST}.", unit="s")
LONGEST_BATCH: Final = _prometheus(
    "longest_batch_seconds", f"Longest time that locks were held {IN_LAST}.", unit="s"
)
FILE_BYTES: Final = _prometheus(
    "file_bytes", f"Size of the database {IN_LAST}, measured.", "moment", unit="bytes"
)
ENDED: Final = _prometheus("ended", "1 for how the last run ended, 0 for all other ways.", "ended")
GAUGES: Final = (
    LAST_RUN,
    LAST_SUCCESS,
    UNITS,
    ROWS_REMOVED,
    BACKLOG,
    SECONDS,
    LONGEST_BATCH,
    FILE_BYTES,
    ENDED,
)

SWEEPS_TOTAL: Final = _prometheus(
    "sweeps_total", "Sweeps that ended since the process started.", "ended", counter=True
)
REMOVED_TOTAL: Final = _prometheus(
    "units_removed_total", "Units removed since the process started.", counter=True
)
ROWS_TOTAL: Final = _prometheus("rows_removed_total", "Rows removed since the process started.", counter=True)
BLOBS_TOTAL: Final = _prometheus(
    "blobs_removed_total", "Shared payloads removed since the process started.", counter=True
)
DEFERRED_TOTAL: Final = _prometheus(
    "units_deferred_total", "Units that failed alone since the process started.", "kind", counter=True
)
FAILED_BATCHES_TOTAL: Final = _prometheus(
    "batches_failed_total", "Batches rolled back since the process started.", "kind", counter=True
)
TOTALS: Final = (SWEEPS_TOTAL, REMOVED_TOTAL, ROWS_TOTAL, BLOBS_TOTAL, DEFERRED_TOTAL, FAILED_BATCHES_TOTAL)

NAMES: Final = (
    *(name for name, _ in EVENTS.values()),
    OBSERVER_FAILED,
    *WATCH_LOGS,
    *SERVER_LOGS,
    SPAN,
    *SPAN_EVENTS.values(),
    *INSTRUMENTS,
    *GAUGES,
    *TOTALS,
)


def facts_of(event: Event) -> dict[str, Value]:
    """Return the fields of a core event: numbers as they are, text only if it is a word of ours."""
    return {field.name: _scrubbed(field.name, getattr(event, field.name)) for field in fields(event)}


def _scrubbed(name: str, value: object) -> Value:
    if isinstance(value, int | float):
        return value
    return value if isinstance(value, str) and value in WORDS.get(name, ()) else OTHER


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels that a host chose. Raises `ValueError` for one that may be a path, a URL or text."""
    for name, value in labels.items():
        if not (_LABEL.fullmatch(name) and _LABEL.fullmatch(value)):
            raise ValueError(f"the label {name[:40]!r} is no plain name of letters, digits, '_', '.' and '-'")
    return dict(labels)
