"""Instances of a real duroxide as trees: it makes a store, which is pruned, and goes on with it."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Report
from afterrun.core.store import Cursor
from afterrun.state import StateDirectory
from afterrun.stores.sql import candidates
from cli.kit import run_cli

from .duroxide_stores import (
    ALIVE,
    ENDED,
    HELD,
    SCHEMA,
    VERSION,
    PostgresStore,
    SqliteStore,
    Store,
    age,
    content,
    ids,
    owners,
    prune,
    retention,
    run_duroxide,
)

pytestmark = pytest.mark.engine

MONTH = Policy(keep_for=timedelta(days=30))
MOMENT = Policy(keep_for=timedelta(milliseconds=1), grace=timedelta(0))
"""Lets go what has ended at all: age is no protection here."""

OLD_DAYS = 40.0
READ = {"sqlite": "20240112000000", "postgresql": "25"}
NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Give a store with every situation, of 40 days ago."""
    made: Store = SqliteStore(tmp_path / "store.sqlite")
    if request.param == "postgresql":
        made = PostgresStore(request.getfixturevalue("database"), tmp_path)
    made.fill()
    age(made, OLD_DAYS)
    return made


def plan(store: Store, policy: Policy = MONTH) -> Report:
    """Plan a policy."""
    with retention(store) as opened:
        return opened.plan(policy)


def reasons(store: Store, instance: str) -> set[str]:
    """Return the names of all reasons of an instance's tree."""
    with retention(store) as opened:
        return {reason.name for reason in opened.explain(instance, MONTH).reasons}


def test_the_engine_goes_on_after_a_prune(store: Store) -> None:
    """Only trees that nothing needs go, whole; what stays is intact, goes on, and ids can be used again."""
    assert ids(store) == ALIVE | HELD | ENDED
    kept, ended = content(store, ALIVE | HELD), content(store, ENDED)
    report = prune(store, MONTH)
    assert report.units.removed == 5
    assert dict(report.rows) == {table: len(ended[table]) for table in report.rows}
    assert ids(store) == owners(store) == ALIVE | HELD
    assert content(store, ALIVE | HELD) == kept
    again = ["single-0", "fanout", "race-loser"]
    answer = run_duroxide("recover", store, *again)
    assert answer["new"] == sorted(again)
    assert answer["results"] == {
        "eternal": "stopped",
        "waiter": "told again",
        **dict.fromkeys(again, "worked on once more"),
    }
    assert Counter(answer["statuses"].values()) == {"Completed": len(ALIVE | HELD) + 2, "Running": 1}


def test_a_plan_says_what_goes_and_why_the_rest_stays(store: Store) -> None:
    """The version was read from the engine; every instance is accounted for; a plan changes nothing."""
    before = content(store, ALIVE | HELD | ENDED)
    report = plan(store)
    assert (report.profile, report.schema.version, report.schema.read) == ("duroxide", READ[store.kind], True)
    assert (VERSION, report.schema.problems) == ("0.2.2", ())
    assert (report.units.expired, report.units.unrooted, report.keys_forgotten) == (5, 0, len(ENDED))
    assert report.units.protected == {"live-member": 3, "pending-message": 2}
    assert report.units.members == len(ALIVE | HELD | ENDED)
    assert content(store, ALIVE | HELD | ENDED) == before
    assert prune(store, MONTH).rows == report.rows


def test_what_ended_later_goes_in_its_turn(store: Store) -> None:
    """Generations and children go with the loop that ended, and a message's end frees what it held."""
    prune(store, MONTH)
    run_duroxide("recover", store)
    assert plan(store).units.expired == 1  # the engine took its message
    age(store, OLD_DAYS)
    report = prune(store, MONTH)
    assert ids(store) == {"hasty", "sleeper"}
    assert report.units.removed == 3
    assert report.rows["executions"] == 6 + 6 + 1 + 1


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_child_speaks_for_its_whole_tree(store: Store) -> None:
    """A child is explained by its root's tree: an ended child of a live root stays."""
    with retention(store) as opened:
        explained = opened.explain("eternal-child-1", MONTH)
    assert explained.unit == "eternal"
    assert [reason.name for reason in explained.reasons] == ["live-member"]


def test_a_held_lock_protects_and_a_lapsed_one_does_not(store: Store) -> None:
    """A worker that has an instance keeps its tree; the lock of a worker that was killed goes with it."""
    store.change(
        f"INSERT INTO instance_locks VALUES ('race-loser', 'token', {NOW_MS + HOUR_MS}, {NOW_MS})",
        f"INSERT INTO instance_locks VALUES ('fanout::sub::2', 'token', {NOW_MS - 1_000}, {NOW_MS})",
    )
    assert reasons(store, "race") == {"lease"}
    assert prune(store, MONTH).rows["instance_locks"] == 1
    assert "race-winner" in ids(store)
    assert "fanout::sub::2" not in owners(store)


def test_a_message_or_an_activity_of_any_member_protects(store: Store) -> None:
    """What is queued for a member, also one that ended, keeps its whole tree."""
    queued = "(instance_id, work_item, visible_at, created_at)"
    at = NOW_MS if store.kind == "sqlite" else "now()"
    store.change(
        f"INSERT INTO orchestrator_queue {queued} VALUES ('race-winner', '{{}}', {at}, {_now(store)})",
        f"INSERT INTO worker_queue {queued} VALUES ('fanout::sub::2::sub::3', '{{}}', {at}, {_now(store)})",
    )
    assert reasons(store, "race") == {"pending-message"}
    assert reasons(store, "fanout") == {"pending-activity"}
    assert prune(store, MONTH).units.removed == 3
    assert {"race-loser", "fanout::sub::2"} <= ids(store)


def test_an_activity_of_which_nobody_tells_whose_it_is_holds_all(store: Store) -> None:
    """A row of the worker queue from before it named instances may belong to any."""
    at = NOW_MS if store.kind == "sqlite" else "now()"
    store.change(
        f"INSERT INTO worker_queue (work_item, visible_at, created_at) VALUES ('{{}}', {at}, {_now(store)})"
    )
    assert plan(store).units.expired == 0
    assert reasons(store, "fanout") == {"unassigned-activity"}
    assert prune(store, MONTH).units.removed == 0


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_timer_in_the_old_queue_holds_all(store: Store) -> None:
    """A timer whose instance stands in its text alone may belong to any."""
    store.change("INSERT INTO timer_queue (work_item, fire_at) VALUES ('{}', 1)")
    assert plan(store).units.expired == 0
    assert reasons(store, "fanout") == {"pending-timer"}
    store.change("DELETE FROM timer_queue")
    assert plan(store).units.expired == 5


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_protection_without_its_table_is_told(store: Store) -> None:
    """Where a table that may protect is gone and no such store was read, nobody shall overlook it."""
    told = "there is no table timer_queue, whose rows would hold runs (pending-timer)"
    assert not any(told in notice for notice in plan(store).notices)
    store.change("DROP TABLE timer_queue")
    assert any(told in notice for notice in plan(store).notices)


def test_a_message_left_on_an_ended_instance_is_told_after_a_week(store: Store) -> None:
    """It still protects, and nobody may ever take it. A timer that is not due is no such case."""
    wanted = (
        "1 runs that ended are held by rows of orchestrator_queue that have waited for more than 7 days "
        "(pending-message): does an engine run that takes them?"
    )
    assert [notice for notice in plan(store).notices if "have waited" in notice] == [wanted]
    age(store, 6.9 - OLD_DAYS)
    report = plan(store, Policy(keep_for=timedelta(days=1)))
    assert report.units.protected["pending-message"] == 2
    assert [notice for notice in report.notices if "have waited" in notice] == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_new_table_that_names_instances_blocks_what_it_names(store: Store) -> None:
    """A table of a later version, or of the application, may need an instance: nobody has looked."""
    store.change(
        "CREATE TABLE mail (instance_id text)", "INSERT INTO mail VALUES ('fanout::sub::3'), ('single-0')"
    )
    report = prune(store, MONTH)
    assert report.units.blocked == {"unknown-reference:mail": 2}
    assert {"fanout", "single-0"} <= ids(store)
    assert report.units.removed == 3


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_child_without_its_parent_blocks(store: Store) -> None:
    """The engine never leaves such a child, and could never remove it: something else is wrong."""
    store.change("UPDATE instances SET parent_instance_id = 'nobody' WHERE instance_id = 'race-winner'")
    assert "missing-parent" in reasons(store, "race-winner")
    with retention(store) as opened:
        opened.prune(MONTH)
        told = list(opened.verify())
    assert "race-winner" in ids(store)
    assert any("1 runs have a parent that is gone" in line for line in told)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_an_instance_without_its_execution_blocks(store: Store) -> None:
    """Without the row of the current execution nobody knows how the instance stands."""
    store.change("DELETE FROM executions WHERE instance_id = 'single-0'")
    assert reasons(store, "single-0") == {"unknown-status"}
    assert plan(store).units.blocked == {"unknown-status": 1}


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_loop_between_two_generations_lives(store: Store) -> None:
    """Its word alone protects it: the message may be with a worker, or lost for a person to look into."""
    store.change("UPDATE executions SET status = 'ContinuedAsNew' WHERE instance_id = 'single-0'")
    assert reasons(store, "single-0") == {"live-member"}
    assert prune(store, MONTH).units.removed == 4


def test_pages_come_out_of_a_window_by_end_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end stands in another table, which no index orders: small windows find the same as a large one."""
    monkeypatch.setattr(candidates, "WINDOW", 3)
    small = prune(store, MONTH)
    assert (small.units.removed, small.units.scanned) == (5, len(ENDED | HELD) + 6)
    assert ids(store) == ALIVE | HELD


def test_a_place_among_the_end_times_is_remembered(store: Store) -> None:
    """A sweep that was cut off goes on where it was: a moment of either database outlives the process."""
    with retention(store) as opened:
        sql, cutoff = opened.store, opened.store.now()
        whole = sql.page(Cursor(0), cutoff=cutoff, limit=100)
        begin = sql.page(Cursor(0), cutoff=cutoff, limit=7)
        state = StateDirectory(store.state).load(sql.identity)
        state.keep_cursor("plan", begin.cursor)
        state.save()
        place = StateDirectory(store.state).load(sql.identity).cursor("plan")
        assert place is not None
        assert place.end is not None
        rest = sql.page(place, cutoff=cutoff, limit=100)
        streams = (0,)
        assert sql.remaining(place, cutoff=cutoff, streams=streams) >= len(rest.units)
    assert (begin.scanned + rest.scanned, begin.cursor is None, rest.cursor) == (whole.scanned, False, None)
    assert [*begin.units, *rest.units] == list(whole.units)


def test_a_cycle_and_a_root_of_20000_children(store: Store) -> None:
    """Two instances that are each other's parent stay and are counted; a large tree goes whole."""
    same = "orchestration_name, orchestration_version, current_execution_id, created_at, updated_at"
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    from_single = "FROM n, executions e WHERE e.instance_id = 'single-0'"
    store.change(
        f"{numbers} INSERT INTO instances (instance_id, parent_instance_id, {same}) "
        f"SELECT 'many-' || i, 'single-0', {same} FROM n, instances s WHERE s.instance_id = 'single-0'",
        f"{numbers} INSERT INTO executions (instance_id, execution_id, status, started_at, completed_at) "
        f"SELECT 'many-' || i, 1, e.status, e.started_at, e.completed_at {from_single}",
        "UPDATE instances SET parent_instance_id = 'single-1' WHERE instance_id = 'failed'",
        "UPDATE instances SET parent_instance_id = 'failed' WHERE instance_id = 'single-1'",
    )
    assert reasons(store, "failed") == {"cycle"}
    report = plan(store)
    assert report.units.unrooted == 2
    assert report.units.members + report.units.unrooted == len(ids(store))
    removed = prune(store, MONTH)
    assert (removed.units.removed, removed.rows["instances"]) == (3, 20_001 + 7 + 3)
    assert ids(store) == ALIVE | HELD | {"failed", "single-1"}


def test_the_schema_of_a_server_need_not_be_named(database: object, tmp_path: Path) -> None:
    """The engine takes any schema; the one that has its tables is found, and two must be told apart."""
    store = PostgresStore(database, tmp_path)  # type: ignore[arg-type]
    store.fill()
    plain = store.database.url()
    answer = run_cli("plan", plain, "--keep-for", "30d", "--json").json
    assert (answer["profile"], answer["schema"]["version"]) == ("duroxide", "25")
    store.change("CREATE SCHEMA other", *(f"CREATE TABLE other.{t} (LIKE {t})" for t in store.columns()))
    told = run_cli("plan", plain, "--keep-for", "30d")
    assert told.code == 2
    assert f"{SCHEMA}, other" in told.err


def test_every_command_has_something_to_say(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at a store needs nothing but its place."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    looked = run_cli("inspect", store.location, "--json").json
    assert looked["runs"] == {"live": 3, "finished": len(ALIVE | HELD | ENDED) - 3, "unknown": 0}
    assert looked["schema"] == {"version": READ[store.kind], "read": True}
    assert looked["stuck"]["count"] == 3
    checked = run_cli("profile", "check", store.location, "--json").json
    assert (checked["fits"], checked["problems"]) == (True, [])
    planned = run_cli("plan", store.location, "--keep-for", "30d")
    assert "protected, pending-message" in planned.out
    assert "does an engine run that takes them?" in planned.out
    explained = run_cli("explain", store.location, "hasty", "--keep-for", "30d")
    assert "a row of orchestrator_queue refers to it" in explained.out
    assert run_cli("verify", store.location).code == 0


def _now(store: Store) -> str:
    return "datetime('now')" if store.kind == "sqlite" else "now()"


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_message_for_an_instance_that_is_gone_stops_the_engine(store: Store, careless: Path) -> None:
    """Why messages protect: a timer that lost a race and fires after its instance went stops all others."""
    store.change("UPDATE orchestrator_queue SET visible_at = 1 WHERE instance_id = 'hasty'")
    sound = store.copy("sound")
    assert prune(sound, MOMENT).units.removed == 5
    assert run_duroxide("recover", sound)["results"] == {"eternal": "stopped", "waiter": "told again"}
    assert prune(store, MOMENT, profile=careless).units.removed > 5
    with pytest.raises(RuntimeError, match="timed out"):
        run_duroxide("recover", store, "--wait", "1.5")
