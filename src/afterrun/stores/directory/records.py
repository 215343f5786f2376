"""What JSON files say: fields, times and the facts of a status. Pure functions of bytes."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from afterrun.core.facts import UNREADABLE, Scalar
from afterrun.core.times import YEAR_2000, Instant, to_instant
from afterrun.profiles.directory import StatusFile, TimeField
from afterrun.profiles.registry import TimeFormat

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
"""Largest file that is read; a status or a result that is larger says nothing."""

MAX_WORD: Final = 200
"""Longest word of a status that is kept, in characters."""

MAX_LINKS: Final = 10_000
"""Children that one status may name."""

FAR: Final = 253_402_300_799_000_000
_SCALE: Final = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
_TEXT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:?\d{2})?", re.ASCII
)
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")


def parse(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a file; nothing for anything else, however it is broken."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def values(record: object, path: str) -> list[object]:
    """Return what stands at a path of fields; ``*`` is each item of an array."""
    if isinstance(record, dict) and "." not in path:
        return [record[path]] if path in record else []
    found = [record]
    for part in _parts(path):
        following: list[object] = []
        for value in found:
            if part == "*" and isinstance(value, list):
                following.extend(value)
            elif isinstance(value, dict) and part in value:
                following.append(value[part])
        if not following:
            return following
        found = following
    return found


@cache
def _parts(path: str) -> tuple[str, ...]:
    """Cut a path; there are as many as a profile names."""
    return tuple(path.split("."))


def value(record: object, path: str) -> object:
    """Return the one value at a path, or nothing."""
    found = values(record, path)
    return found[0] if found else None


def texts(record: object, paths: Sequence[str]) -> list[str]:
    """Return the texts that stand at any of these paths, empty ones left out."""
    return [found for path in paths for found in values(record, path) if isinstance(found, str) and found]


def instant_of(raw: object, spelling: TimeFormat) -> Instant:
    """Return the instant that a value spells, or `UNREADABLE`."""
    if spelling == "text_utc":
        return _from_text(raw) if isinstance(raw, str) else UNREADABLE
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        return UNREADABLE
    instant = round(raw * _SCALE[spelling])
    return instant if YEAR_2000 <= instant <= FAR else UNREADABLE


def _from_text(text: str) -> Instant:
    if len(text) > MAX_WORD or _TEXT.fullmatch(text) is None:
        return UNREADABLE
    text = _FRACTION.sub(r"\1", text)
    try:
        moment = datetime.fromisoformat(text)
        return to_instant(moment if moment.tzinfo else datetime.fromisoformat(text + "Z"))
    except (ValueError, OverflowError):
        return UNREADABLE


def end_of(record: object, fields: Sequence[TimeField]) -> Instant | None:
    """Return the first of these times that is there; `UNREADABLE` if any of them is malformed."""
    found: Instant | None = None
    for source in fields:
        for raw in values(record, source.field):
            if raw is None:
                continue
            instant = instant_of(raw, source.format)
            if instant == UNREADABLE:
                return UNREADABLE
            found = instant if found is None else found
    return found


def newest_of(record: object, fields: Sequence[TimeField]) -> Instant | None:
    """Return the newest of these times; `UNREADABLE` if any is malformed, nothing if none is there."""
    times = [instant_of(raw, source.format) for source in fields for raw in values(record, source.field)]
    return UNREADABLE if UNREADABLE in times else max(times, default=None)


class Status(NamedTuple):
    """What a status file says, as far as a scan keeps it. ``fault`` says why it is malformed."""

    fault: str = ""
    run: str | None = None
    state: str = ""
    end: Instant | None = None
    group: tuple[Scalar, ...] = ()
    parent: str | None = None
    children: tuple[str, ...] = ()
    nested: bool = False
    mode: str = ""


def status_of(record: dict[str, Any] | None, model: StatusFile) -> Status:
    """Read a status; never raises."""
    if record is None:
        return Status("it is no JSON object")
    state = value(record, model.state)
    if not isinstance(state, str) or not state:
        return Status(f"it has no {model.state}")
    run = None if model.id is None else value(record, model.id)
    if model.id is not None and not isinstance(run, str):
        return Status(f"it has no {model.id}")
    mode = "" if model.mode is None else value(record, model.mode.field)
    if model.mode is not None and mode not in model.mode.known:
        return Status(f"its {model.mode.field} is none of the known ones")
    if model.start is not None and not _has_time(record, model.start):
        return Status(f"it has no usable {model.start.field}")
    parents = texts(record, model.parent)
    return Status(
        run=run if isinstance(run, str) else None,
        state=state[:MAX_WORD],
        end=end_of(record, model.end),
        group=tuple(_scalar(value(record, path)) for path in model.group),
        parent=parents[0] if parents else None,
        children=tuple(dict.fromkeys(texts(record, model.children)))[:MAX_LINKS],
        nested=model.nested is not None and value(record, model.nested) is True,
        mode=str(mode),
    )


def _has_time(record: object, source: TimeField) -> bool:
    """Say whether a start is there; a number is enough, since age does not depend on it."""
    raw = value(record, source.field)
    if source.format == "text_utc":
        return instant_of(raw, source.format) != UNREADABLE
    return isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)


def _scalar(raw: object) -> Scalar:
    if isinstance(raw, str):
        return sys.intern(raw[:MAX_WORD])  # runs of one group share one text
    return raw if isinstance(raw, int | float) else None
