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
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterrun.core.errors import AfterrunError
from afterrun.core.guard import History
from afterrun.core.store import Cursor, Marks
from afterrun.core.times import SECOND, Instant, micros
from afterrun.reading import read_small_file

VARIABLE: Final = "AFTERRUN_STATE_DIR"
MAX_RECORDS: Final = 200
MAX_DEFERRALS: Final = 10_000
MAX_DRAFTS: Final = 20
MAX_SUBJECTS: Final = 8
MAX_SPENT: Final = 20
MAX_STATE_BYTES: Final = 64 * 1024 * 1024
RESTORE: Final = "restore"
"""Command of a record that is of no sweep: it removed nothing, and left no backlog."""

STARTED: Final = "started"
"""End of a record whose sweep has not come to its end: it runs, or it was killed."""

WHOLE: Final = ("completed", "budget", "guard")
"""Ends of a sweep that left no blob behind which it had come to know of."""

MAX_WAIT: Final = timedelta(days=7)
"""A unit that failed alone is tried again after 1, 2, 4 ... sweeps, and at the latest after this."""

FULL_PASS_AGAIN: Final = timedelta(days=7)
FULL_PASS_SOON: Final = timedelta(days=1)
"""How long after a full pass over blobs the next one is due; soon if there is something left for it."""

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
    """What one sweep or manual apply came to: counts and times only.

    ``why`` is the kind of failure, a word. ``attempts`` counts sweeps that failed alike, one after another,
    before they began; ``at`` is the last one. ``observer_failures`` counts events an observer failed at.
    ``came_back`` and ``left`` count units whose removal was interrupted between two databases: those that
    changed meanwhile, and those that stand without their rows in the other one. Of a restore, ``restored``
    counts the units that came back, ``rows`` theirs, and ``deferred`` those that were refused.
    """

    at: Instant
    command: str
    ended: str
    fingerprint: str
    why: str = ""
    attempts: int = 1
    observer_failures: int = 0
    came_back: int = 0
    left: int = 0
    scanned: int = 0
    removed: int = 0
    restored: int = 0
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
    row_places: dict[str, list[int | float | str | None]] = Field(default_factory=dict)
    row_places_of: str = ""
    deferrals: dict[str, Deferral] = Field(default_factory=dict)
    shown: dict[str, int] = Field(default_factory=dict)
    allowances: dict[str, int] = Field(default_factory=dict)
    spent: list[str] = Field(default_factory=list)
    empty_streams: dict[str, Instant] = Field(default_factory=dict)
    records: list[Record] = Field(default_factory=list)
    completed: Instant | None = None
    due_since: Instant | None = None
    drafts: list[str] = Field(default_factory=list)
    file: str = ""
    newest: dict[str, list[str]] = Field(default_factory=dict)
    full_pass: Instant | None = None
    full_pass_left: bool = False
    since: Instant | None = None
    replaced: str = ""


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
        self.begun = False
        """Whether a sweep of this process is on record."""

    @property
    def records(self) -> tuple[Record, ...]:
        """Return the records kept, the oldest first."""
        return tuple(self._contents.records)

    @property
    def last_completed(self) -> Instant | None:
        """Return when the last automatic sweep was completed; it outlives its record."""
        return self._contents.completed

    @property
    def due_since(self) -> Instant | None:
        """Return since when a first automatic sweep is due, as far as that was noted."""
        return self._contents.due_since

    def keep_due_since(self, moment: Instant) -> None:
        """Note since when a first automatic sweep is due, unless that is known, and save it."""
        if self._contents.due_since is None:
            self._contents.due_since = moment
            self.save()

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
        end, tie = (None, None) if cursor is None else (_lasting(cursor.end), _lasting(cursor.tie))
        if cursor is None or not (_is_json(end) and _is_json(tie)):
            self._contents.cursor = None
            return
        self._contents.cursor = (cursor.stream, end, tie)  # type: ignore[assignment]
        self._contents.cursor_of = fingerprint

    @property
    def sweeps(self) -> int:
        """Return how many sweeps and manual applies have begun."""
        return self._contents.sweeps

    def row_places(self, fingerprint: str) -> Mapping[str, tuple[object, ...]]:
        """Return where the last sweep of this plan was cut off in row tables, by name."""
        if self._contents.row_places_of != fingerprint:
            return {}
        return {name: tuple(place) for name, place in self._contents.row_places.items()}

    def keep_row_places(self, fingerprint: str, places: Mapping[str, tuple[object, ...]]) -> None:
        """Remember where a sweep of this plan was cut off in row tables, as far as JSON can hold that."""
        lasting = {name: [_lasting(value) for value in place] for name, place in places.items()}
        kept = {name: place for name, place in lasting.items() if all(map(_is_json, place))}
        self._contents.row_places, self._contents.row_places_of = kept, fingerprint  # type: ignore[assignment]

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
        self._contents.spent = [other for other in self._contents.spent if other != fingerprint]
        self._contents.allowances.pop(fingerprint, None)

    def allow(self, fingerprint: str, left: int | None) -> None:
        """Set how many units an approval still admits; ``None`` ends it."""
        self._contents.shown.pop(fingerprint, None)
        self._contents.allowances = {} if left is None else {fingerprint: left}

    def marks(self, subject: str) -> Marks:
        """Return what the store's file is known by; ``subject`` is whose runs are meant, of those in it."""
        return Marks(self._contents.file, tuple(self._contents.newest.get(subject, ())))

    def keep_marks(self, subject: str, marks: Marks) -> None:
        """Remember what the store's file is known by."""
        newest = {name: runs for name, runs in self._contents.newest.items() if name != subject}
        newest = dict(list(newest.items())[1 - MAX_SUBJECTS :])
        self._contents.file, self._contents.newest = marks.file, newest | {subject: list(marks.runs)}

    @property
    def replaced(self) -> str:
        """Return why what was remembered is forgotten, until a sweep of what is there now has finished."""
        return self._contents.replaced

    @property
    def since(self) -> Instant | None:
        """Return when another file was found in the store's place; earlier records are not of this one."""
        return self._contents.since

    def forget(self, why: str, *, now: Instant) -> None:
        """Forget what was remembered of another file that lay here, but for the records; say ``why``."""
        before = self._contents
        self._contents = _Contents(
            identity=before.identity,
            sweeps=before.sweeps,
            records=before.records,
            drafts=before.drafts,
            since=now,
            replaced=why,
        )

    @property
    def drafts(self) -> Sequence[Path]:
        """Return the names of backups that were begun, as far as they may be of files that are left."""
        return [Path(os.fsdecode(unquote_to_bytes(text))) for text in self._contents.drafts]

    def keep_drafts(self, drafts: Sequence[Path]) -> None:
        """Remember names of backups that are begun; the oldest give way."""
        texts = [quote(os.fsencode(draft)) for draft in drafts]  # a name need not be text, which JSON is
        self._contents.drafts = texts[-MAX_DRAFTS:]

    def spend(self, fingerprint: str) -> None:
        """Remember that an approval has served for a sweep that came to its end."""
        spent = [other for other in self._contents.spent if other != fingerprint]
        self._contents.spent = [*spent, fingerprint][-MAX_SPENT:]

    def is_spent(self, fingerprint: str) -> bool:
        """Say whether the last approval of this plan has served, and nothing was shown since."""
        return fingerprint in self._contents.spent

    def stream_is_empty(self, name: str) -> bool:
        """Say whether a stream of old rows was seen empty not long ago. ``name`` has the schema version."""
        seen = self._contents.empty_streams.get(name)
        return seen is not None and self.now - seen < micros(RARE_AGAIN)

    def note_empty(self, name: str) -> None:
        """Remember that a stream of old rows is empty."""
        self._contents.empty_streams[name] = self.now

    def is_full_pass_due(self, now: Instant) -> bool:
        """Say whether to look for blobs that a sweep left: now and then, and sooner after a failure."""
        last = self._contents.full_pass
        if last is None or not last <= now:
            return True
        records = self._contents.records
        before = records[:-1] if self._is_started() else records
        cut = any(record.at >= last and record.ended not in WHOLE for record in before)
        left = cut or self._contents.full_pass_left
        return now - last >= micros(FULL_PASS_SOON if left else FULL_PASS_AGAIN)

    def note_full_pass(self, now: Instant, *, left: bool) -> None:
        """Remember that all blobs were looked at, and whether some were too young to go."""
        self._contents.full_pass, self._contents.full_pass_left = now, left

    def begin(self, command: str, *, now: Instant, fingerprint: str) -> None:
        """Put a sweep that starts on record, as ``started`` until it comes to an end, and save that.

        What cannot be put on record is not done: this raises `StateError` before anything goes. A restore is
        put on record alike, and counts for no unit that waits for a later sweep.
        """
        self.now = now
        self.begun = True
        self._contents.sweeps += command != RESTORE
        started = Record(at=now, command=command, ended=STARTED, fingerprint=fingerprint)
        self._contents.records = [*self._contents.records, started][-MAX_RECORDS:]
        self.save()

    def finish(self, record: Record, *, finished: bool, runs: int | None) -> None:
        """Put the end in the place of the start; ``finished`` ends the state of first contact."""
        contents = self._contents
        earlier = contents.records[:-1] if self._is_started() else contents.records
        contents.records = [*earlier, record][-MAX_RECORDS:]
        contents.swept = contents.swept or finished
        if finished:
            contents.replaced = ""
        if record.command == "sweep" and record.ended == "completed":
            contents.completed = record.at + round(record.seconds * SECOND)
        if runs is not None:
            contents.runs = runs

    def abandon(self, ended: str, *, why: str = "") -> None:
        """Put on record, and save, that the sweep that was started ended without a report."""
        if self._is_started():
            update = {"ended": ended, "why": why}
            self._contents.records[-1] = self._contents.records[-1].model_copy(update=update)
            self.save()

    def repeat(self, record: Record) -> None:
        """Add a record of a sweep that did not begin; one like the last takes its place and is counted."""
        records = self._contents.records
        last = records[-1] if records else None
        if last is not None and (last.command, last.ended, last.why, last.fingerprint) == (
            record.command,
            record.ended,
            record.why,
            "",
        ):
            record = record.model_copy(update={"attempts": last.attempts + 1})
            records = records[:-1]
        self._contents.records = [*records, record][-MAX_RECORDS:]

    def _is_started(self) -> bool:
        records = self._contents.records
        return bool(records) and records[-1].ended == STARTED and records[-1].at == self.now

    def any(self) -> bool:
        """Say whether any unit is deferred."""
        return bool(self._contents.deferrals)

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
            with replacing(self._path) as file:
                file.write_text(self._contents.model_dump_json(), encoding="utf-8")
        except OSError as error:
            raise StateError(f"the state file {self._path} cannot be written: {error.strerror}") from None


def _lasting(value: object) -> object:
    """Write a moment as text, which a database that compares it with moments takes for one."""
    return value.isoformat() if isinstance(value, datetime) else value


def _is_json(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
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
