"""Results of a real Celery: which may go, by which zone they count, and that the engine goes on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, SweepOptions
from afterrun.core.errors import Refused
from afterrun.core.row_rules import RowRules

from .celery_stores import (
    ALIVE,
    ENDED,
    Made,
    PostgresResults,
    ResultStore,
    SqliteResults,
    age,
    counts,
    of,
    prune,
    retention,
    run_celery,
    tasks,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

MONTH = Policy(keep_for=timedelta(days=30))
DAY = Policy(keep_for=timedelta(days=1))
OLD = 40.0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ResultStore:
    """Give the place for a store in each database; the server's sessions are hours away from UTC."""
    if request.param == "sqlite":
        return SqliteResults(tmp_path / "results.sqlite")
    return PostgresResults(request.getfixturevalue("database"), tmp_path)


@pytest.fixture
def made(store: ResultStore) -> Made:
    """Fill the store with a result in every state."""
    return store.fill()


@pytest.mark.usefixtures("made")
def test_the_schema_is_one_that_was_read(store: ResultStore) -> None:
    """The engine keeps no version: its shape is known, with a broker in the same database or without."""
    with retention(store, writable=False) as opened:
        schema = opened.store.schema()
        assert opened.store.profile_name == "celery"
    assert schema.version.startswith("shape:")
    assert (schema.read, schema.problems) == (True, ())
    assert any("a chord that loses a result never ends" in text for text in schema.notices)
    assert not any("no index" in text for text in schema.notices)
    store.change("DROP TABLE kombu_message", "DROP TABLE kombu_queue")
    with retention(store, writable=False) as opened:
        assert opened.store.schema().version == schema.version


def test_what_ended_long_ago_goes_and_what_waits_stays(store: ResultStore, made: Made) -> None:
    """Successes, failures and what was revoked; not what is tried again, was begun, or tells its progress."""
    age(store, OLD)
    with retention(store, writable=False) as opened:
        reasons = {task: opened.explain(task, MONTH).reasons for task in of(made, *ALIVE)}
    assert {reason.name for some in reasons.values() for reason in some} == {"live-member"}
    assert prune(store, MONTH).units.removed == len(of(made, *ENDED))
    assert tasks(store) == of(made, *ALIVE)
    assert counts(store)["celery_tasksetmeta"] == 1


def test_the_engines_own_cleanup_takes_what_waits(store: ResultStore, made: Made) -> None:
    """The row that tells of a retry is gone after it, and that of a task that tells its progress."""
    age(store, OLD)
    run_celery("cleanup", store)
    assert tasks(store) == of(made, "started")


@pytest.mark.parametrize("hours", [0.0, 1.1, 11.9])
def test_no_result_goes_early_in_whatever_zone_it_is_written(
    store: ResultStore, made: Made, hours: float
) -> None:
    """Written west of UTC, a time seems hours older than it is: a day means a day for all that."""
    age(store, 4)
    recent = made["failed"][0]
    # ended 23 h ago by the clock of its zone, which is that many hours behind UTC
    if isinstance(store, SqliteResults):
        utc = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
    else:
        utc = "(now() AT TIME ZONE 'UTC')"
    store.change(f"UPDATE celery_taskmeta SET date_done = {utc} WHERE task_id = '{recent}'")
    store.change(
        f"UPDATE celery_taskmeta SET date_done = {store.earlier(23 + hours)} WHERE task_id = '{recent}'"
    )
    prune(store, DAY)
    assert tasks(store) == {recent, *of(made, *ALIVE)}


def test_a_result_that_ended_just_now_is_recent_and_not_of_the_future(store: ResultStore, made: Made) -> None:
    """East of UTC a new time lies ahead: nothing of that is reported as broken."""
    with retention(store, writable=False) as opened:
        plan = opened.plan(DAY)
    assert plan.units.blocked == {}
    assert plan.units.recent == len(of(made, *ENDED))


def test_a_time_beyond_every_zone_is_of_the_future(store: ResultStore, made: Made) -> None:
    """Promise 3: such an end is unknown."""
    age(store, -3)
    with retention(store, writable=False) as opened:
        plan = opened.plan(DAY)
    assert plan.units.blocked == {"future-end-time": len(of(made, *ENDED))}


def test_a_state_of_the_applications_own_stops_removal(store: ResultStore, made: Made) -> None:
    """A word that the profile does not know may mean anything: a copy of the profile says what."""
    age(store, OLD)
    store.change(f"UPDATE celery_taskmeta SET status = 'UPLOADING' WHERE task_id = '{made['progress'][0]}'")
    with retention(store) as opened, pytest.raises(Refused, match="UPLOADING"):
        opened.prune(MONTH)
    assert tasks(store) >= of(made, *ENDED)


def test_the_engine_goes_on(store: ResultStore, made: Made) -> None:
    """A worker takes tasks and chords from the swept store, and says PENDING of what is gone."""
    age(store, OLD)
    prune(store, MONTH)
    gone, retrying = made["failed"][0], made["retrying"][0]
    told = run_celery("work", store, gone, retrying)
    assert (told["single"], told["chord"]) == (42, 6)
    assert told["states"] == {gone: "PENDING", retrying: "RETRY"}
    saved = run_celery("restore", store, made["saved"][0])
    assert saved["groups"] == [["PENDING", "PENDING"]]


def test_a_result_that_is_written_again_is_seen_by_the_recheck(store: ResultStore, made: Made) -> None:
    """Promise 2: a message that is delivered once more runs once more, and its row is alive."""
    age(store, OLD)
    again = made["failed"][0]
    with retention(store) as opened:
        assert opened.plan(MONTH).units.expired == len(of(made, *ENDED))
        begun = "status = 'STARTED', date_done = NULL"
        store.change(f"UPDATE celery_taskmeta SET {begun} WHERE task_id = '{again}'")
        report = opened.prune(MONTH)
    assert report.units.removed == len(of(made, *ENDED)) - 1
    assert tasks(store) == {again, *of(made, *ALIVE)}


def test_saved_groups_go_by_a_rule_of_their_own(store: ResultStore, made: Made) -> None:
    """Their rows are a table of rows: by the time they were saved, and no result with them."""
    rules = Policy(tables={"groups": RowRules(keep_for=timedelta(days=30))})
    age(store, 29)
    with retention(store) as opened:
        assert opened.prune(rules).tables["groups"].rows == 0
        age(store, 11)
        assert opened.plan(rules).tables["groups"].rows == 1
        report = opened.prune(rules, options=SweepOptions(offline=True))
    assert report.ended == "completed", report.message
    assert report.tables["groups"].rows == 1
    assert counts(store)["celery_tasksetmeta"] == 0
    assert tasks(store) == of(made, *ENDED, *ALIVE)
    assert run_celery("restore", store, made["saved"][0])["groups"] == [None]
