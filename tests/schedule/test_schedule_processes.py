"""Hosts as processes of their own, over real SQLite stores."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from cli.kit import count, make_store
from schedule.hosted_kit import HostProcess, endings, faults, hosting
from schedule.hosting_process import Settings
from schedule.schedule_kit import DAY, HOUR

RUNS = 150
EXPIRED = RUNS - 29
"""Runs that ended over 30 days ago, of those that ended 1, 2, 3 ... days ago: the 30th did just now."""
SETTLED = 2.0
"""Seconds within which a host that is told to end has settled its sweep."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Give a host with a store that takes seconds to sweep, one unit after another."""
    store = make_store(tmp_path / "app.sqlite", RUNS)
    return Settings(store=str(store), state=str(tmp_path / "state"))


def left(settings: Settings) -> int:
    """Return how many expired runs are left."""
    return count(Path(settings.store)) - 1 - (RUNS - EXPIRED)


def test_a_host_that_starts_sweeps(settings: Settings) -> None:
    """By itself, when its start-up is over, and puts it on record."""
    with hosting(replace(settings, batch_units=None)) as host:
        assert host.hear("ended") == "completed"
        assert host.standing()["state"] == "waiting"
        host.shut_down()
    assert (left(settings), endings(settings), faults(settings)) == (0, ["completed"], [])


def test_a_host_sweeps_when_its_work_ends(settings: Settings) -> None:
    """Not before, whatever asks for it."""
    with hosting(replace(settings, batch_units=None, busy=True)) as host:
        host.say("runner-exit", "manual")
        standing = host.standing()
        assert (standing["state"], standing["sweeps"], left(settings)) == ("due", 0, EXPIRED)
        host.say("end")
        assert host.hear("ended") == "completed"
        host.shut_down()
    assert left(settings) == 0


def test_work_that_appears_ends_the_sweep_between_two_units(settings: Settings) -> None:
    """What went is gone, nothing is half removed, and the next idle moment goes on where it stopped."""
    with hosting(settings) as host:
        host.hear("batch")
        host.say("begin")
        assert host.hear("ended") == "interrupted"
        removed = host.removed()
        assert 0 < removed < EXPIRED
        assert left(settings) == EXPIRED - removed
        assert faults(settings) == []
        assert host.standing()["state"] == "due"
        host.say("end")
        assert host.hear("ended") == "completed"
        assert (left(settings), host.removed()) == (0, EXPIRED)
        host.shut_down()
    assert endings(settings) == ["interrupted", "completed"]


def test_a_store_is_swept_once_in_24_hours_across_restarts(settings: Settings) -> None:
    """Whichever process it was."""
    settings = replace(settings, batch_units=None)
    with hosting(settings) as host:
        assert host.hear("ended") == "completed"
        host.shut_down()
    with hosting(settings, shift=23 * HOUR) as host:
        host.say("runner-exit")
        standing = host.standing()
        while standing["why"] is None or standing["why"] == "running":
            standing = host.standing()
        assert (standing["state"], standing["sweeps"]) == ("waiting", 0)
        host.shut_down()
    with hosting(settings, shift=24 * HOUR + 60) as host:
        assert host.hear("ended") == "completed"
        host.shut_down()
    assert endings(settings) == ["completed", "completed"]


def test_a_store_that_fails_is_one_diagnostic_and_tried_again(settings: Settings) -> None:
    """The host goes on; when the store is whole again, so does its retention."""
    store = Path(settings.store)
    whole = store.read_bytes()
    store.write_bytes(b"no database " * 100)
    with hosting(replace(settings, batch_units=None, retry=0.2)) as host:
        assert host.hear("ended") == "failed"
        assert host.told[-1]["kind"] == "StoreUnreadable"
        host.say("begin", "end")
        assert host.standing()["last"] == "failed"
        draft = store.with_name("draft")
        draft.write_bytes(whole)
        draft.replace(store)
        while host.hear("ended") == "failed":
            pass
        assert (host.told[-1]["ended"], left(settings)) == ("completed", 0)
        host.shut_down()


@pytest.mark.parametrize("told", ["SIGTERM", "end of input"])
def test_a_host_that_ends_settles_its_sweep(settings: Settings, told: str) -> None:
    """Within two seconds, between two units, on record; the next start finishes."""
    with hosting(settings) as host:
        host.hear("batch")
        if told == "SIGTERM":
            host.process.send_signal(signal.SIGTERM)
            assert host.hear("ended") == "interrupted"
            assert host.hear("settled") < SETTLED
            assert host.process.wait(SETTLED) == 0
        else:
            assert host.shut_down() < SETTLED
        removed = host.removed()
    assert 0 < removed < EXPIRED
    assert (left(settings), faults(settings)) == (EXPIRED - removed, [])
    assert endings(settings) == ["interrupted"]
    finishes(settings, removed)


def test_a_host_that_is_killed_leaves_a_sound_store(settings: Settings) -> None:
    """Its lock goes with it, its sweep stays on record as started, and the next start finishes."""
    with hosting(settings) as host:
        host.hear("batch")
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    assert faults(settings) == []
    assert endings(settings) == ["started"]
    removed = EXPIRED - left(settings)
    assert 0 < removed < EXPIRED
    finishes(settings, removed)


def finishes(settings: Settings, removed: int) -> None:
    """Start the host again; it goes on at once and removes the rest."""
    with hosting(replace(settings, batch_units=None)) as host:
        assert host.hear("ended") == "completed"
        assert host.removed() == EXPIRED - removed
        host.shut_down()
    assert (left(settings), faults(settings)) == (0, [])


def test_two_hosts_with_one_store_sweep_it_once(settings: Settings) -> None:
    """While one sweeps, the other is turned away, tries again later, and then finds it swept."""
    patient = replace(settings, retry=0.3)
    with hosting(settings) as first:
        first.hear("batch")
        with hosting(patient) as second:
            assert second.hear("ended") == "locked"
            assert first.hear("ended") == "completed"
            standing = second.standing()
            while standing["state"] != "waiting":
                standing = second.standing()
            assert second.removed() == 0
            second.shut_down()
        first.shut_down()
    assert (left(settings), faults(settings)) == (0, [])
    assert endings(settings) == ["completed"]


def test_a_host_that_is_never_idle_drains_one_unit_at_a_time(settings: Settings) -> None:
    """Once overdue by three intervals, across restarts: a unit goes when a piece of its work ends."""
    busy = replace(settings, busy=True)
    with hosting(busy) as host:  # from now on a first sweep is due
        pieces(host, 3)
        host.shut_down()
    assert left(settings) == EXPIRED
    with hosting(busy, shift=3 * DAY + HOUR) as host:
        standing = host.standing()
        while not standing["overdue"]:
            standing = host.standing()
        for number in range(1, 8):
            host.say("piece")
            assert host.hear("batch") == 1
            assert left(settings) == EXPIRED - number
        assert host.standing()["state"] == "running"
        assert host.shut_down() < SETTLED
    assert (left(settings), faults(settings)) == (EXPIRED - 7, [])
    assert endings(settings) == ["interrupted"]


def pieces(host: HostProcess, number: int) -> None:
    """Let a host begin and end work, and wait until it has done so."""
    host.say(*["piece"] * number)
    assert host.standing()["sweeps"] == 0


def test_a_first_sweep_asks_and_the_host_goes_on(settings: Settings) -> None:
    """Nothing goes before somebody has approved it; a person who asks again later is answered."""
    with hosting(replace(settings, always=False, batch_units=None)) as host:
        assert host.hear("ended") == "guard"
        standing = host.standing()
        assert (standing["state"], standing["why"], left(settings)) == ("due", "guard", EXPIRED)
        host.shut_down()
    assert endings(settings) == ["guard"]
