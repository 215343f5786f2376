"""The state directory: one small JSON file a store, replaced whole.

Whoever writes a store's file holds the store's sweep lock, so nothing here locks.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterrun.core.errors import AfterrunError
from afterrun.core.guard import History
from afterrun.core.store import Cursor
from afterrun.core.times import Instant, micros
from afterrun.reading import read_small_file

VARIABLE: Final = "AFTERRUN_STATE_DIR"
MAX_RECORDS: Final = 200
MAX_DEFERRALS: Final = 10_000
MAX_STATE_BYTES: Final = 64 * 1024 * 1024
STARTED: Final = "started"
"""End of a record whose sweep has not come to its end: it runs, or it was killed."""

MAX_WAIT: Final = timedelta(days=7)
"""A unit that failed alone is tried again after 1, 2, 4 ... sweeps, and at the latest after this."""

RARE_AGAIN: Final = timedelta(days=7)
"""How long a sweep believes that a stream of old rows is still empty."""


class StateError(AfterrunError):
    """A file of the state directory cannot be read or written. The message names it."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Deferral(_Part):
    """A unit that failed alone: how often, when last, and the sweep that tries it again."""

    failures: int
    kind: str
    at: Instant
    again: int


class Record(_Part):
    """What one sweep or manual apply came to: counts and times only."""

    at: Instant
    command: str
    ended: str
    fingerprint: str
    scanned: int = 0
    removed: int = 0
    deferred: int = 0
    rows: int = 0
    batches: int = 0
    backlog: int = 0
    seconds: float = 0.0
    file_before: int = 0
    file_after: int = 0


class _Contents(BaseModel):
    model_config = ConfigDict(extra="ignore")

    identity: str
    sweeps: int = 0
    swept: bool = False
    runs: int | None = None
    cursor: tuple[int, int | float | str | None, int | float | str | None] | None = None
    cursor_of: str = ""
    deferrals: dict[str, Deferral] = Field(default_factory=dict)
    shown: dict[str, int] = Field(default_factory=dict)
    allowances: dict[str, int] = Field(default_factory=dict)
    empty_streams: dict[str, Instant] = Field(default_factory=dict)
    records: list[Record] = Field(default_factory=list)


class StateDirectory:
    """The folder that holds afterrun's memory: ``AFTERRUN_STATE_DIR``, else the user's state folder."""

    def __init__(self, path: Path | None = None) -> None:
        """Name the folder; it is made, closed to others, when something is first written."""
        named = os.environ.get(VARIABLE)
        self.path = path or (Path(named) if named else platformdirs.user_state_path("afterrun"))

    def file_of(self, identity: str) -> Path:
        """Return the file of a store; its name tells nothing of it."""
        name = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self.path / f"{name}.json"

    def load(self, identity: str) -> StoreState:
        """Return what is remembered of a store. Raises `StateError` for a file that makes no sense."""
        path = self.file_of(identity)
        try:
            contents = _Contents.model_validate_json(read_small_file(path, limit=MAX_STATE_BYTES))
            if contents.identity != identity:
                raise StateError(f"the state file {path} is that of another store; move it away")
        except FileNotFoundError:
            contents = _Contents(identity=identity)
        except OSError as error:
            raise StateError(f"the state file {path} cannot be read: {error.strerror}") from None
        except ValidationError:
            raise StateError(
                f"the state file {path} is damaged. Move it away: the next sweep then treats this store as "
                "one it has never seen, and asks before it removes anything"
            ) from None
        return StoreState(path, contents)


class StoreState:
    """What is remembered of one store. It is also the sweep's memory of deferred units."""

    def __init__(self, path: Path, contents: _Contents) -> None:
        """Wrap the contents of a state file."""
        self._path = path
        self._contents = contents
        self.now: Instant = 0

    @property
    def records(self) -> tuple[Record, ...]:
        """Return the records kept, the oldest first."""
        return tuple(self._contents.records)

    def cursor(self, fingerprint: str) -> Cursor | None:
        """Return where the last sweep of this plan was cut off; another plan starts from the beginning."""
        contents = self._contents
        if contents.cursor is None or contents.cursor_of != fingerprint:
            return None
        return Cursor(*contents.cursor)

    def keep_cursor(self, fingerprint: str, cursor: Cursor | None) -> None:
        """Remember where a sweep of this plan was cut off.

        A place that JSON cannot hold, such as a key of bytes, is forgotten: the next sweep starts over.
        """
        parts = () if cursor is None else (cursor.end, cursor.tie)
        if cursor is None or not all(_is_json(part) for part in parts):
            self._contents.cursor = None
            return
        self._contents.cursor = (cursor.stream, cursor.end, cursor.tie)  # type: ignore[assignment]
        self._contents.cursor_of = fingerprint

    def history(self, fingerprint: str) -> History:
        """Return what the guard needs to know."""
        contents = self._contents
        return History(
            swept=contents.swept,
            runs=contents.runs,
            shown=contents.shown.get(fingerprint),
            allowance=contents.allowances.get(fingerprint),
        )

    def show(self, fingerprint: str, count: int) -> None:
        """Remember how many units a guarded sweep counted, for the approval that may follow."""
        self._contents.shown = {fingerprint: count}
        self._contents.allowances.pop(fingerprint, None)

    def allow(self, fingerprint: str, left: int | None) -> None:
        """Set how many units an approval still admits; ``None`` ends it."""
        self._contents.shown.pop(fingerprint, None)
        self._contents.allowances = {} if left is None else {fingerprint: left}

    def stream_is_empty(self, name: str) -> bool:
        """Say whether a stream of old rows was seen empty not long ago. ``name`` has the schema version."""
        seen = self._contents.empty_streams.get(name)
        return seen is not None and self.now - seen < micros(RARE_AGAIN)

    def note_empty(self, name: str) -> None:
        """Remember that a stream of old rows is empty."""
        self._contents.empty_streams[name] = self.now

    def begin(self, command: str, *, now: Instant, fingerprint: str) -> None:
        """Put a sweep that starts on record, as ``started`` until it comes to an end, and save that.

        What cannot be put on record is not done: this raises `StateError` before anything goes.
        """
        self.now = now
        self._contents.sweeps += 1
        started = Record(at=now, command=command, ended=STARTED, fingerprint=fingerprint)
        self._contents.records = [*self._contents.records, started][-MAX_RECORDS:]
        self.save()

    def finish(self, record: Record, *, finished: bool, runs: int | None) -> None:
        """Put the end in the place of the start; ``finished`` ends the state of first contact."""
        contents = self._contents
        earlier = contents.records[:-1] if self._is_started() else contents.records
        contents.records = [*earlier, record][-MAX_RECORDS:]
        contents.swept = contents.swept or finished
        if runs is not None:
            contents.runs = runs

    def abandon(self, ended: str) -> None:
        """Put on record, and save, that the sweep that was started ended without a report."""
        if self._is_started():
            self._contents.records[-1] = self._contents.records[-1].model_copy(update={"ended": ended})
            self.save()

    def _is_started(self) -> bool:
        records = self._contents.records
        return bool(records) and records[-1].ended == STARTED and records[-1].at == self.now

    def waiting(self, unit: str) -> bool:
        """Say whether a deferred unit is still to be left alone."""
        entry = self._contents.deferrals.get(unit)
        if entry is None:
            return False
        return self._contents.sweeps < entry.again and self.now - entry.at < micros(MAX_WAIT)

    def defer(self, unit: str, kind: str) -> None:
        """Note that a unit failed alone."""
        deferrals = self._contents.deferrals
        before = deferrals.pop(unit, None)
        failures = 1 if before is None else before.failures + 1
        again = self._contents.sweeps + 2 ** min(failures - 1, 20)
        deferrals[unit] = Deferral(failures=failures, kind=kind, at=self.now, again=again)
        while len(deferrals) > MAX_DEFERRALS:
            deferrals.pop(next(iter(deferrals)))

    def clear(self, unit: str) -> None:
        """Forget a unit that went."""
        self._contents.deferrals.pop(unit, None)

    def save(self) -> None:
        """Replace the file: whole, durable, and readable by nobody else. Raises `StateError`."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _replacing(self._path) as file:
                file.write_text(self._contents.model_dump_json(), encoding="utf-8")
        except OSError as error:
            raise StateError(f"the state file {self._path} cannot be written: {error.strerror}") from None


def _is_json(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Write a new file beside ``path`` and rename it over; a failure leaves the old one and no leftover."""
    prefix = f".{path.name}."
    for stale in path.parent.glob(f"{prefix}*"):  # a process that was killed could not clear up after itself
        stale.unlink(missing_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    fresh = Path(name)
    try:
        yield fresh
        os.fsync(descriptor)
        os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
