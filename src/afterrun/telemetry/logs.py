"""Structured logging through the standard library: an event's name, counts, seconds and kinds.

The logger is ``afterrun``; a host that configures nothing sees nothing. Each record carries its fields as
the attribute ``afterrun``, and as ``key=value`` in its message, so that any formatter shows them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from afterrun.core.events import Event, SweepEnded
from afterrun.telemetry.names import EVENTS, LOUDER, Value, checked_labels, facts_of

LOGGER: Final = logging.getLogger("afterrun")
LOGGER.addHandler(logging.NullHandler())  # else Python prints warnings of a host that configured nothing
FIELDS: Final = "afterrun"
"""Attribute of a log record that holds the fields."""

LogFormat = Literal["text", "json"]


class LogObserver:
    """Logs every core event of one store's sweeps; ``labels``, such as ``store``, stand in each line."""

    def __init__(self, *, labels: Mapping[str, str] | None = None, logger: logging.Logger = LOGGER) -> None:
        """Choose the logger. Raises `ValueError` for a label that is no plain name."""
        self._labels = checked_labels(labels or {})
        self._logger = logger

    def __call__(self, event: Event) -> None:
        """Log an event."""
        name, level = EVENTS[type(event)]
        if isinstance(event, SweepEnded):
            level = LOUDER.get(event.ended, level)
        if self._logger.isEnabledFor(level):
            say(self._logger, level, name.name, **self._labels, **facts_of(event))


def say(logger: logging.Logger, level: int, event: str, /, **fields: Value | None) -> None:
    """Log one event with its fields; the caller answers for what is in them."""
    told = {name: _plain(value) for name, value in fields.items() if value is not None}
    logger.log(level, "%s", _line(event, told), extra={FIELDS: {"event": event, **told}})


class TextFormatter(logging.Formatter):
    """Writes ``time level event key=value ...`` on one line, whatever is in the values."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        return f"{_time(record)} {record.levelname.lower()} {_printable(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """Writes one JSON object a line: ``time``, ``level``, ``event`` and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        told = getattr(record, FIELDS, None) or {"message": record.getMessage()}
        return json.dumps({"time": _time(record), "level": record.levelname.lower(), **told}, allow_nan=False)


def formatter(kind: LogFormat) -> logging.Formatter:
    """Return the formatter of a name."""
    return JsonFormatter() if kind == "json" else TextFormatter()


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Value) -> Value:
    return round(value, 6) if isinstance(value, float) else value


def _line(event: str, told: Mapping[str, object]) -> str:
    return " ".join([event, *(f"{name}={_word(value)}" for name, value in told.items())])


def _word(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text and not set(text) & set(' "=\\') else json.dumps(text, ensure_ascii=False)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
