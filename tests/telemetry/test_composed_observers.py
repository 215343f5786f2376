"""Observers together: one that fails takes nothing with it, is counted, and is told once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from afterrun import Retention, StoreLocked, SweepOptions
from afterrun.core.errors import Exit
from afterrun.core.events import BatchDone, Event, SweepEnded
from afterrun.state import StateDirectory, SweepLock
from afterrun.state.files import Record, StateError
from afterrun.telemetry import compose
from cli.kit import change, count, run_cli
from telemetry.telemetry_kit import EVENTS, MONTH, Failing, swept


def last_record(store: Path) -> Record:
    """Return the newest record of a store."""
    return StateDirectory(store.parent / "state").load(f"sqlite:{store.resolve()}").records[-1]


def test_the_others_get_every_event(logged: pytest.LogCaptureFixture) -> None:
    """Before and after the one that fails, all are told all; the failure is logged once, by its class."""
    before, after = list[Event](), list[Event]()
    failing = Failing(ValueError("/a/path and an id"))
    together = compose(before.append, failing, None, after.append)
    for event in EVENTS:
        together(event)
    assert before == after == list(EVENTS)
    assert together.failures == {"ValueError": len(EVENTS)}
    lines = [record.getMessage() for record in logged.records]
    assert lines == ["observer-failed error=ValueError"]
    assert logged.records[0].levelno == logging.ERROR


def test_a_failing_observer_fails_no_sweep_and_is_on_record(retention: Retention, store: Path) -> None:
    """All that is expired goes; report, record and history say that what was observed is incomplete."""
    failing = Failing(RuntimeError("no"))
    report = swept(retention, failing)
    assert (report.ended, report.units.removed) == ("completed", 11)
    assert count(store) == 30
    assert failing.seen > 5
    said = f"an observer failed at {failing.seen} events (RuntimeError); what it shows is incomplete"
    assert report.notices[-1] == said
    assert last_record(store).observer_failures == failing.seen


def test_the_history_shows_it(retention: Retention, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """People who ask later see it, too."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(store.parent / "state"))
    swept(retention, Failing(RuntimeError("no"), SweepEnded))
    answer = run_cli("history", store)
    assert answer.code == Exit.DONE
    assert "an observer failed at 1 events" in answer.out


def test_failures_are_counted_for_each_sweep(retention: Retention, store: Path) -> None:
    """One that has recovered leaves no mark on the next sweep, though it is told once for good."""
    failing = Failing(RuntimeError("no"))
    together = compose(failing)
    options = SweepOptions(observer=together)
    retention.sweep(MONTH, options=options, always=True)
    failing.kind = int  # type: ignore[assignment]  # no event is one
    report = retention.sweep(MONTH, options=options, always=True)
    assert not any("observer" in notice for notice in report.notices)
    assert last_record(store).observer_failures == 0


def test_an_abort_passes_through(retention: Retention, store: Path) -> None:
    """Ctrl-C within an observer ends the sweep, which is on record as interrupted."""
    with pytest.raises(KeyboardInterrupt):
        swept(retention, Failing(KeyboardInterrupt(), BatchDone))
    assert last_record(store).ended == "interrupted"


@pytest.mark.parametrize("how", ["locked", "guard", "completed", "failed", "interrupted"])
def test_every_end_is_told_once(how: str, retention: Retention, store: Path) -> None:
    """However a sweep ends, its observers hear of one end, with what was removed until then."""
    events = list[Event]()
    if how == "locked":
        with SweepLock(store.resolve()), pytest.raises(StoreLocked):
            swept(retention, events.append)
    elif how == "failed":
        change(store, "UPDATE workflow_status SET status = 'NEW' WHERE workflow_uuid = 'run-39'")
        with pytest.raises(Exception, match="NEW"):
            swept(retention, events.append)
    elif how == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            swept(retention, events.append, Failing(KeyboardInterrupt(), BatchDone))
    else:
        swept(retention, events.append, always=how == "completed")
    ends = [event for event in events if isinstance(event, SweepEnded)]
    removed = {"completed": 11, "interrupted": 2}.get(how, 0)
    assert [(event.ended, event.removed) for event in ends] == [(how, removed)]


def test_an_end_is_told_once_although_its_record_cannot_be_written(
    retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was removed is told as removed; that it is not on record is the caller's error."""
    events = list[Event]()

    def full(_event: Event) -> None:
        if isinstance(_event, SweepEnded):
            monkeypatch.setattr("afterrun.state.files.os.fsync", fails)

    def fails(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StateError, match="No space left"):
        swept(retention, events.append, full)
    assert [event.ended for event in events if isinstance(event, SweepEnded)] == ["completed"]
