"""Old generations of a real duroxide's loops: they go while the loops run, and the engine misses nothing."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy
from cli.kit import run_cli
from environments import package_python

from .duroxide_stores import (
    GAP,
    VERSION,
    PostgresStore,
    SqliteStore,
    Store,
    age,
    content,
    ids,
    prune,
    retention,
    run_duroxide,
    working,
)

pytestmark = pytest.mark.engine

LOOPS = 8
KILLS = 30
"""At most so many, until one comes while a loop stands between two generations; mostly two are enough."""
SWEEPS = 6
EVERY_SECONDS = 0.2
MOMENT = Policy(keep_for=timedelta(milliseconds=1))
EVERYTHING = Policy(keep_for=timedelta(milliseconds=1), grace=timedelta(0), generations=MOMENT)
"""Lets go whatever has ended at all: age is no protection here."""

WEEK = Policy(generations=Policy(keep_for=timedelta(days=7)))
PAST = [("eternal", number) for number in range(1, 6)]
"""What the loop of a made store has left behind."""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Name an empty place for a store."""
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "store.sqlite")
    return PostgresStore(request.getfixturevalue("database"), tmp_path)


@pytest.fixture
def store(place: Store) -> Store:
    """Give a store with every situation, of 40 days ago."""
    place.fill()
    age(place, 40.0)
    return place


def executions(store: Store) -> set[tuple[str, int]]:
    """Return the keys of all executions."""
    return {(row[0], row[1]) for row in store.rows("SELECT instance_id, execution_id FROM executions")}


def test_the_past_of_a_loop_goes_and_the_loop_goes_on(store: Store) -> None:
    """Five generations and their history go; all else is as it was, and the loop ends as it should."""
    before, all_ids = executions(store), ids(store)
    current = store.rows("SELECT * FROM history WHERE instance_id = 'eternal' AND execution_id = 6")
    report = prune(store, WEEK)
    assert report.units.removed == len(PAST)
    assert before - executions(store) == set(PAST)
    assert {table for table, rows in report.rows.items() if rows} == {"executions", "history"}
    assert ids(store) == all_ids
    assert store.rows("SELECT * FROM history WHERE instance_id = 'eternal' AND execution_id = 6") == current
    answer = run_duroxide("recover", store)
    assert answer["results"] == {"eternal": "stopped", "waiter": "told again"}


def test_generations_without_an_end_of_their_own_age_by_their_history(store: Store) -> None:
    """PostgreSQL writes none for ContinuedAsNew; a young event keeps its generation, and so does none."""
    store.change("UPDATE executions SET completed_at = NULL WHERE status = 'ContinuedAsNew'")
    young = "datetime('now')" if store.kind == "sqlite" else "now()"
    store.change(
        f"UPDATE history SET created_at = {young} WHERE instance_id = 'eternal' AND execution_id = 3"
        " AND event_id = 2",
        "DELETE FROM history WHERE instance_id = 'eternal' AND execution_id = 4",
    )
    with retention(store) as opened:
        plan = opened.plan(WEEK).others["generation"]
    assert (plan.expired, plan.recent, plan.blocked) == (3, 1, {"unknown-end-time": 1})
    prune(store, WEEK)
    assert {number for name, number in executions(store) if name == "eternal"} == {3, 4, 6}


def test_an_activity_that_is_queued_for_an_old_generation_keeps_it(store: Store) -> None:
    """Whatever still refers to one by its key."""
    at = "datetime('now')" if store.kind == "sqlite" else "now()"
    store.change(
        "INSERT INTO worker_queue (work_item, visible_at, created_at, instance_id, execution_id) VALUES "
        f"('{{}}', {1 if store.kind == 'sqlite' else at}, {at}, 'eternal', 2)"
    )
    with retention(store) as opened:
        assert [reason.name for reason in opened.explain("eternal/2", WEEK).reasons] == ["pending-activity"]
    prune(store, WEEK)
    assert {number for name, number in executions(store) if name == "eternal"} == {2, 6}


def test_children_of_a_generation_stay_until_their_root_goes(store: Store) -> None:
    """Duroxide does not say which generation started a child."""
    children = {f"eternal-child-{number}" for number in range(1, 7)}
    kept = content(store, children)
    prune(store, Policy(keep_for=timedelta(days=7), generations=MOMENT))
    assert ids(store) >= children
    assert content(store, children) == kept


def test_the_engine_reads_everything_that_is_kept_as_it_did(store: Store) -> None:
    """`verify --engine`, before and after: equal but for what went; a changed history is a fault."""
    reading = store.state.parent / "reading.json"
    words = ["verify", store.location, "--engine", str(reading)]
    words += ["--engine-python", str(package_python("duroxide", VERSION)), "--json"]
    first = run_cli(*words)
    assert (first.code, first.json["ok"]) == (0, True)
    assert reading.stat().st_mode & 0o777 == 0o600
    assert "worked on" not in reading.read_text("utf-8")
    prune(store, WEEK)
    second = run_cli(*words).json
    parts = first.json["engine"]["parts"]
    assert second["ok"], second
    assert second["engine"] == {
        "parts": parts - 2 * len(PAST),
        "equal": parts - 2 * len(PAST),
        "gone": 2 * len(PAST),
        "new": 0,
    }
    store.change("UPDATE history SET event_data = replace(event_data, 'worked', 'walked')")
    third = run_cli(*words)
    assert (third.code, third.json["ok"]) == (1, False)
    assert any("history" in problem for problem in third.json["problems"])


@pytest.mark.timeout(600)
def test_living_loops_lose_their_past_and_nothing_else(place: Store, careless: Path) -> None:
    """Eight loops, swept every 200 ms while they run, and killed and started again: none is lost.

    Without the protections the same sweep takes every loop that stands between two generations.
    """
    loops = {f"loop-{number}" for number in range(LOOPS)}
    between: set[str] = set()
    gone = 0
    for _ in range(KILLS):
        with working(place, LOOPS):
            for _ in range(SWEEPS):
                due = time.monotonic() + EVERY_SECONDS
                report = prune(place, EVERYTHING, offline=False)
                assert report.units.removed == 0
                gone += report.removed
                time.sleep(max(due - time.monotonic(), 0.0))
        between = {row[0] for row in place.rows(GAP)}
        report = prune(place, EVERYTHING)
        assert report.units.removed == 0
        gone += report.removed
        assert ids(place) == loops
        if between:
            break
    assert between
    assert gone >= LOOPS
    assert len(executions(place)) == LOOPS
    copied = place.copy("careless")
    assert prune(copied, EVERYTHING, profile=careless).units.removed == len(between)
    assert ids(copied) == loops - between
    went = run_duroxide("advance", place, "--loops", str(LOOPS))
    assert all(after > before for before, after in zip(went["before"], went["after"], strict=True))
