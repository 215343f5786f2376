"""Other sessions act between two statements of a batch: what they touch stays whole, all else goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from afterrun import Policy, Report, StoreLocked
from afterrun.state import StateDirectory
from dumps import Row
from fakes import Memories
from fakes import sweep as sweep_once
from memory import RUNS, STEPS
from pg_server import Connection
from postgres.statement_tap import driver_of, tapped
from sites import EVENTS, OLD_MS, SCHEMA, PostgresSite, fill, keys, live, run, step

MONTH = Policy(keep_for=timedelta(days=30))
LOCKS = "SKIP LOCKED"
FIRST_DELETE = f'DELETE FROM "{SCHEMA}"."{STEPS}"'
LAST_DELETE = f'DELETE FROM "{SCHEMA}"."{RUNS}"'
END = "SELECT pg_terminate_backend(%s, 10000)"
Race = Callable[[PostgresSite], object]

PLACES = [
    ("before", LOCKS),
    ("after", LOCKS),
    ("before", FIRST_DELETE),
    ("before", LAST_DELETE),
    ("after", LAST_DELETE),
]
"""Where in a batch somebody else is quicker, from before its locks to after its last removal."""

NEWS: dict[str, Race] = {
    "a finished child": lambda site: site.add(RUNS, run("new", "x1")),
    "a live child": lambda site: site.add(RUNS, live("new", "x1")),
    "a grandchild": lambda site: site.add(RUNS, live("new", "y1")),
    "a handle of a live run": lambda site: site.add(STEPS, step("waiter", 7, "x1")),
    "a handle on a child": lambda site: site.add(STEPS, step("waiter", 7, "y1")),
    "a live fork": lambda site: site.add(RUNS, live("fork", forked_from="x1")),
}


def trees(count: int) -> list[Row]:
    """Make expired roots x0, x1 ... one after another, each with a child y0, y1 ..."""
    roots = [run(f"x{number}", completed_at=OLD_MS + number) for number in range(count)]
    return [*roots, *(run(f"y{number}", f"x{number}") for number in range(count))]


def other(site: PostgresSite) -> Connection:
    """Connect as an engine would, with a transaction that begins at its first statement."""
    return site.database.connect(autocommit=False)


def prune(site: PostgresSite) -> Report:
    """Run a manual apply."""
    return site.retention.prune(MONTH)


def kept(site: PostgresSite) -> set[object]:
    """Return the trees that are still there; fail if one is there in part."""
    dump = site.dump()
    there = {row["workflow_uuid"] for row in dump[RUNS]}
    for table in (STEPS, EVENTS):
        assert {row["workflow_uuid"] for row in dump[table]} == there, table
    roots = {key for key in there if str(key).startswith("x")}
    assert {f"y{str(key)[1:]}" for key in roots} == {key for key in there if str(key).startswith("y")}
    return {key for key in there if not str(key).startswith("y")}


@pytest.mark.parametrize("row", ["x1", "y1"])
@pytest.mark.parametrize("strength", ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR KEY SHARE"])
def test_a_run_that_another_transaction_holds_is_passed_by_at_once(
    postgres_site: PostgresSite, row: str, strength: str
) -> None:
    """Root or child, changed or only referred to: its tree is skipped, all others go, and nothing waits."""
    fill(postgres_site, trees(4))
    with other(postgres_site) as engine:
        engine.execute(f"SELECT 1 FROM {SCHEMA}.{RUNS} WHERE workflow_uuid = %s {strength}".encode(), [row])
        report = prune(postgres_site)
    assert (report.ended, report.units.removed) == ("completed", 3)
    assert report.units.skipped == {"recheck: locked": 1}, "and not deferred, as after a wait"
    assert report.units.deferred == 0
    assert kept(postgres_site) == {"x1"}
    assert prune(postgres_site).units.removed == 1


def test_an_own_row_that_is_held_costs_its_tree_one_bounded_wait(postgres_site: PostgresSite) -> None:
    """No lock of ours waits longer than its time-out; the tree is deferred alone and goes the next time."""
    assert driver_of(postgres_site.store).execute("SHOW lock_timeout").fetchone() == ("1500ms",)
    driver_of(postgres_site.store).execute("SET lock_timeout = '100ms'")
    fill(postgres_site, trees(6))
    memories = Memories()
    with other(postgres_site) as engine:
        engine.execute(f"UPDATE {SCHEMA}.{STEPS} SET output = 'x' WHERE workflow_uuid = 'y1'".encode())
        report = sweep_once(postgres_site.store, MONTH, deferrals=memories).report
        engine.rollback()
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 5, 1)
    assert memories.kinds == {"x1": "lock"}
    assert kept(postgres_site) == {"x1"}
    assert sweep_once(postgres_site.store, MONTH).report.units.removed == 1


@pytest.mark.parametrize(("moment", "word"), PLACES, ids=[f"{m} {w[:14]}" for m, w in PLACES])
@pytest.mark.parametrize("news", NEWS)
def test_a_child_or_reference_that_comes_meanwhile_keeps_its_tree(
    postgres_site: PostgresSite, news: str, moment: str, word: str
) -> None:
    """Whenever it is committed before our last look, its tree stays whole, and only that tree."""
    fill(postgres_site, [*trees(4), live("waiter")])
    with tapped(postgres_site.store) as tap:
        tap.once("before" if moment == "before" else "after", word, lambda: NEWS[news](postgres_site))
        report = prune(postgres_site)
    assert tap.all_done
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 3, 0)
    assert sum(report.units.skipped.values()) == 1
    there = keys(postgres_site)
    assert {"x1", "y1", "waiter"} <= there
    assert not there & {"x0", "y0", "x2", "y2", "x3", "y3"}
    assert list(postgres_site.retention.verify()) == []


def test_a_run_that_is_resumed_before_our_lock_stays(postgres_site: PostgresSite) -> None:
    """The status is read again under the lock."""
    fill(postgres_site, trees(3))
    with tapped(postgres_site.store) as tap:
        tap.once("before", LOCKS, lambda: postgres_site.change("y1", status="PENDING", completed_at=None))
        report = prune(postgres_site)
    assert report.units.skipped == {"recheck: live-member": 1}
    assert kept(postgres_site) == {"x1"}


def test_a_run_that_is_being_resumed_stays(postgres_site: PostgresSite) -> None:
    """An engine that has changed the status and not yet committed holds the row, so it is passed by."""
    fill(postgres_site, trees(3))
    with other(postgres_site) as engine:
        engine.execute(f"UPDATE {SCHEMA}.{RUNS} SET status = 'PENDING' WHERE workflow_uuid = 'x1'".encode())
        report = prune(postgres_site)
        engine.commit()
    assert report.units.skipped == {"recheck: locked": 1}
    assert prune(postgres_site).units.removed == 0
    assert kept(postgres_site) == {"x1"}


def test_a_resume_after_our_lock_waits_and_then_finds_no_run(postgres_site: PostgresSite) -> None:
    """Under our lock nobody changes a status, and after the commit there is nothing to resume."""
    fill(postgres_site, trees(2))
    resume = f"UPDATE {SCHEMA}.{RUNS} SET status = 'PENDING' WHERE workflow_uuid = 'x1'".encode()

    def try_it() -> None:
        with other(postgres_site) as engine:
            engine.execute("SET LOCAL lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                engine.execute(resume)

    with tapped(postgres_site.store) as tap:
        tap.once("after", LOCKS, try_it)
        report = prune(postgres_site)
    assert tap.all_done
    assert report.units.removed == 2
    with other(postgres_site) as engine:
        assert engine.execute(resume).rowcount == 0


def test_a_late_row_with_a_foreign_key_is_never_an_orphan(
    postgres_site: PostgresSite,
) -> None:
    """Before our lock it keeps its tree for now; after it, it waits for us and then fails."""
    fill(postgres_site, trees(3))
    insert = f"INSERT INTO {SCHEMA}.{EVENTS} (workflow_uuid, key, value) VALUES (%s, 'late', 'v')".encode()
    early = other(postgres_site)

    def late() -> None:
        with other(postgres_site) as engine:
            engine.execute("SET LOCAL lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                engine.execute(insert, ["x2"])

    with tapped(postgres_site.store) as tap:
        tap.once("before", LOCKS, lambda: early.execute(insert, ["y1"]))
        tap.once("after", LOCKS, late)
        report = prune(postgres_site)
    early.commit()
    early.close()
    assert tap.all_done
    assert report.units.skipped == {"recheck: locked": 1}
    assert keys(postgres_site) == {"x1", "y1"}
    with other(postgres_site) as engine, pytest.raises(psycopg.errors.ForeignKeyViolation):
        engine.execute(insert, ["x2"])
    assert list(postgres_site.retention.verify()) == []
    again = prune(postgres_site)
    assert (again.units.removed, again.rows[EVENTS]) == (1, 3)


def test_what_is_committed_between_our_last_look_and_our_commit_is_counted_by_verify(
    postgres_site: PostgresSite,
) -> None:
    """The window that remains: without a foreign key, only looking tells of it."""
    fill(postgres_site, [*trees(2), live("waiter")])
    with tapped(postgres_site.store) as tap:
        tap.once(
            "before", "^COMMIT$", lambda: postgres_site.add(STEPS, step("waiter", 7, "y1"), step("x0", 9))
        )
        report = prune(postgres_site)
    assert (report.units.removed, keys(postgres_site)) == (2, {"waiter"})
    assert [line.partition(" rows ")[0] for line in postgres_site.retention.verify()] == [
        "orphans: 1",
        "references: 1",
    ]


def test_a_lost_connection_is_a_lost_lock_and_ends_the_sweep(postgres_site: PostgresSite) -> None:
    """The batch in progress is undone; what went before is reported and on record; the lock is free."""
    fill(postgres_site, trees(600))
    process = driver_of(postgres_site.store).info.backend_pid

    def kill() -> None:
        ended = postgres_site.database.rows(
            "SELECT pg_terminate_backend(%s, 10000)", process, user="postgres"
        )
        assert ended == [(True,)]

    with tapped(postgres_site.store) as tap:
        tap.once("after", "^COMMIT$", lambda: tap.once("before", LAST_DELETE, kill))
        report = prune(postgres_site)
    assert tap.all_done
    assert report.ended == "failed"
    assert report.message.startswith("lost-connection: ")
    assert 0 < report.units.removed < 600
    assert len(kept(postgres_site)) == 600 - report.units.removed
    assert report.rows[RUNS] == 2 * report.units.removed
    record = StateDirectory(postgres_site._state).load(postgres_site.store.identity).records[-1]
    assert (record.ended, record.why, record.removed) == ("failed", "lost-connection", report.units.removed)
    postgres_site.open()
    assert prune(postgres_site).units.removed == 600 - report.units.removed


def test_a_connection_lost_after_the_last_batch_loses_no_report(postgres_site: PostgresSite) -> None:
    """Giving the lock back on a dead connection is no failure: it is free, and the work is done."""
    fill(postgres_site, trees(2))
    process = driver_of(postgres_site.store).info.backend_pid
    with tapped(postgres_site.store) as tap:
        tap.once(
            "before",
            "pg_advisory_unlock",
            lambda: postgres_site.database.rows(
                "SELECT pg_terminate_backend(%s, 10000)", process, user="postgres"
            ),
        )
        report = prune(postgres_site)
    assert tap.all_done
    assert (report.ended, report.units.removed) == ("completed", 2)


def test_the_engines_own_retention_keeps_ours_away(postgres_site: PostgresSite) -> None:
    """The lock that DBOS 3.0 to 3.2 takes, by its documented key, is respected and given back."""
    key = "('x' || left(encode(sha256('dbos.retention.dbos'), 'hex'), 16))::bit(64)::bigint"
    fill(postgres_site, trees(1))
    with other(postgres_site) as engine:
        engine.execute(f"SELECT pg_advisory_lock({key})".encode())
        with pytest.raises(StoreLocked, match="own retention"):
            prune(postgres_site)
        engine.execute(f"SELECT pg_advisory_unlock({key})".encode())
    assert prune(postgres_site).units.removed == 1
    with other(postgres_site) as engine:
        assert engine.execute(f"SELECT pg_try_advisory_lock({key})".encode()).fetchone() == (True,)
