"""Log lines: an event's name and its fields, whatever formats them, and nothing of the store."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.core.events import BatchFailed, SweepEnded, UnitDeferred
from afterrun.telemetry import LogObserver, formatter, say
from afterrun.telemetry.logs import LogFormat
from cli.kit import MARKER
from telemetry.telemetry_kit import EVENTS, swept


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """Log into memory in the format that the test names."""
    stream, logger = io.StringIO(), logging.getLogger("test-structured-logs")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(request.param))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)


@pytest.mark.parametrize("lines", ["json"], indirect=True)
def test_json_lines_have_the_fields_of_each_event(lines: tuple[logging.Logger, io.StringIO]) -> None:
    """One object a line: time, level, event, the host's label and every field under its own name."""
    logger, stream = lines
    observer = LogObserver(labels={"store": "orders"}, logger=logger)
    for event in EVENTS:
        observer(event)
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["level"]) for line in told] == [
        ("page", "debug"),
        ("batch", "debug"),
        ("blobs", "debug"),
        ("batch-failed", "info"),
        ("deferred", "warning"),
        ("sweep-ended", "info"),
    ]
    for line, event in zip(told, EVENTS, strict=True):
        names = {field.name for field in fields(event)}
        assert set(line) == {"time", "level", "event", "store"} | names
        assert {name: line[name] for name in names} == {name: getattr(event, name) for name in names}
        assert line["store"] == "orders"
        assert line["time"].endswith("Z")


@pytest.mark.parametrize("lines", ["text"], indirect=True)
def test_text_lines_are_key_and_value(lines: tuple[logging.Logger, io.StringIO]) -> None:
    """One line an event, whatever is in a value: no line end, no escape sequence gets out."""
    logger, stream = lines
    LogObserver(labels={"store": "orders"}, logger=logger)(EVENTS[1])
    say(logger, logging.INFO, "said", text='two\nlines "and" \x1b[31m=', flag=True, empty="", none=None)
    first, second = stream.getvalue().splitlines()
    assert first.split(" ", 2)[1:] == [
        "debug",
        "batch store=orders units=3 members=9 rows=40 skipped=1 held=0.25",
    ]
    assert second.endswith('info said text="two\\nlines \\"and\\" \\u001b[31m=" flag=true empty=""')


@pytest.mark.parametrize("lines", ["json", "text"], indirect=True)
def test_text_in_an_event_is_a_word_of_ours(lines: tuple[logging.Logger, io.StringIO]) -> None:
    """Were an id or a path to get into an event, it would not get into a log."""
    logger, stream = lines
    observer = LogObserver(logger=logger)
    observer(BatchFailed(2, "order-17"))
    observer(UnitDeferred("/srv/app.sqlite"))
    observer(SweepEnded("postgresql://u:secret@h/db", 1, 0.1))
    assert stream.getvalue().count("other") == 3
    assert not any(word in stream.getvalue() for word in ("order-17", "/srv", "secret"))


def test_an_end_that_somebody_should_look_at_is_louder(logged: pytest.LogCaptureFixture) -> None:
    """A failed sweep is an error, one that asks a warning."""
    observer = LogObserver()
    for ended in ("completed", "guard", "failed"):
        observer(SweepEnded(ended, 0, 0.1))
    assert [record.levelno for record in logged.records] == [logging.INFO, logging.WARNING, logging.ERROR]


def test_a_real_sweep_logs_no_id_no_path_and_no_payload(
    retention: Retention, store: Path, logged: pytest.LogCaptureFixture
) -> None:
    """Promise 12, at the most talkative level."""
    swept(retention, LogObserver(labels={"store": "orders"}))
    text = logged.text + "".join(str(vars(record)["afterrun"]) for record in logged.records)
    assert "sweep-ended" in text
    assert not any(word in text for word in ("run-", MARKER, str(store), "flow", "sqlite"))


@pytest.mark.parametrize("value", ["/srv/app", "a b", "", "postgresql://u:p@h", "x" * 65, "a\nb"])
def test_a_label_that_may_be_a_path_is_refused(value: str) -> None:
    """A host's label is a plain name."""
    with pytest.raises(ValueError, match="plain name"):
        LogObserver(labels={"store": value})


@pytest.mark.parametrize("kind", ["json", "text"])
def test_lines_of_other_code_are_formatted_as_well(kind: LogFormat) -> None:
    """A record without fields, as of a library that logs below ours, keeps its message."""
    record = logging.LogRecord("afterrun.x", logging.INFO, "", 1, "plain %s", ("words",), None)
    assert "plain words" in formatter(kind).format(record)


def test_a_host_that_configures_nothing_sees_nothing() -> None:
    """Python prints warnings of loggers without a handler; this one has one that is silent."""
    script = "import logging; from afterrun.telemetry import say; say(logging.getLogger('afterrun'), 50, 'x')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"", b"")
