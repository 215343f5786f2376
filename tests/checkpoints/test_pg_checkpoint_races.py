"""Other sessions act between two statements of a batch on PostgreSQL: what they need stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from afterrun.core.times import DAY
from checkpoints.hostile_kit import BEGIN, at
from checkpoints.pg_checkpoints import STEPS, THREADS, Site
from pg_server import Connection, Database
from postgres.statement_tap import tapped

LOCKS = "SKIP LOCKED"
PLACES = [
    ("before", LOCKS),
    ("after", LOCKS),
    ("before", 'DELETE FROM "public"."checkpoint_writes"'),
    ("before", 'DELETE FROM "public"."checkpoints"'),
    ("after", 'DELETE FROM "public"."checkpoints"'),
]
"""Where in a batch somebody else is quicker."""


@pytest.fixture
def site(database: Database, tmp_path: Path) -> Iterator[Site]:
    """Give a store of three old threads, open."""
    made = Site(database, tmp_path)
    yield made
    made.retention.close()


def test_the_layout_is_the_engine_s_own(site: Site) -> None:
    """What is written by hand here has the shape that was read from the engine."""
    schema = site.retention.store.schema()
    assert schema.read
    assert not schema.problems


def test_only_superseded_checkpoints_go_and_shared_values_stay(site: Site) -> None:
    """Of each thread the head is left, with its own value and the shared one, and no write."""
    report = site.prune()
    assert report.rows == {"checkpoint_writes": 9, "checkpoints": 9, "checkpoint_blobs": 9}
    assert site.left() == {"a": 1, "b": 1, "c": 1}
    assert site.left("checkpoint_blobs") == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("strength", ["FOR UPDATE", "FOR KEY SHARE"])
def test_a_superseded_row_that_another_transaction_holds_is_passed_by(site: Site, strength: str) -> None:
    """It stays, everything else goes at once, and it goes the next time."""
    with site.database.connect(autocommit=False) as engine:
        _hold(engine, 1, strength)
        began = time.monotonic()
        report = site.prune()
        assert time.monotonic() - began < 1.0
    assert report.units.removed == 3 * (STEPS - 1) - 1
    assert report.units.skipped == {"recheck: locked": 1}
    assert site.database.rows(
        f"SELECT parent_checkpoint_id FROM checkpoints WHERE thread_id = 'a' "
        f"AND checkpoint_id = '{at(STEPS - 1)}'"
    ) == [(at(1),)]
    assert site.prune().units.removed == 1
    assert site.left() == {"a": 1, "b": 1, "c": 1}


def test_a_head_that_another_transaction_holds_is_in_nobody_s_way(site: Site) -> None:
    """The head is never locked: an engine that holds it neither waits nor is waited for."""
    with site.database.connect(autocommit=False) as engine:
        _hold(engine, STEPS - 1, "FOR UPDATE")
        began = time.monotonic()
        report = site.prune()
        assert time.monotonic() - began < 1.0
    assert report.units.removed == 3 * (STEPS - 1)
    assert site.left() == {"a": 1, "b": 1, "c": 1}


def _hold(engine: Connection, step: int, strength: str) -> None:
    which = b"SELECT 1 FROM checkpoints WHERE thread_id = 'a' AND checkpoint_id = %s "
    engine.execute(which + strength.encode(), [at(step)])


def test_a_row_whose_id_tells_no_time_is_led_on_like_any_other(site: Site) -> None:
    """It stays, since its age is unknown, and what it follows goes all the same."""
    with site.database.connect(autocommit=False) as engine:
        engine.execute(
            b"INSERT INTO checkpoints SELECT thread_id, '', %s, %s, type, checkpoint, metadata "
            b"FROM checkpoints WHERE thread_id = 'a' AND checkpoint_id = %s",
            ("00000000-0000-4000-8000-000000000001", at(1), at(1)),
        )
    report = site.prune()
    assert (report.units.removed, report.units.deferred) == (3 * (STEPS - 1), 0)
    assert site.left() == {"a": 2, "b": 1, "c": 1}
    assert site.database.rows("SELECT 1 FROM checkpoints WHERE parent_checkpoint_id IS NOT NULL") == []


def _fork(site: Site) -> None:
    """Go on from an old checkpoint, with its values, as an engine that replays does."""
    with site.database.connect(autocommit=False) as engine:
        site.checkpoint(engine, "a", 9, 1, said=1)


def _turn(site: Site) -> None:
    """Take another turn on a thread, today."""
    today = (time.time_ns() // 1_000 - BEGIN) // DAY
    with site.database.connect(autocommit=False) as engine:
        site.value(engine, "a", "said", today)
        site.checkpoint(engine, "a", today, STEPS - 1)


def _write(site: Site) -> None:
    """Save a task's result before anything else of its step."""
    with site.database.connect(autocommit=False) as engine:
        site.write(engine, "a", STEPS - 1, "another task")


@pytest.mark.parametrize(("moment", "word"), PLACES, ids=[f"{m} {w[:24]}" for m, w in PLACES])
@pytest.mark.parametrize("news", [_fork, _turn])
def test_a_checkpoint_that_comes_meanwhile_keeps_what_it_needs(
    site: Site, news: Callable[[Site], None], moment: str, word: str
) -> None:
    """A fork or a turn has all its values afterwards, and follows a checkpoint that is there, or none."""
    with tapped(site.retention.store) as tap:
        tap.once("before" if moment == "before" else "after", word, lambda: news(site))
        report = site.prune()
    assert tap.all_done
    assert report.ended == "completed"
    assert report.units.deferred == 0
    missing = site.database.rows(
        "SELECT c.thread_id, v.key FROM checkpoints c "
        "CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') v "
        "WHERE v.key <> '__start__' AND NOT EXISTS (SELECT 1 FROM checkpoint_blobs b "
        "WHERE b.thread_id = c.thread_id AND b.channel = v.key AND b.version = v.value)"
    )
    assert missing == []
    site.prune()
    dangling = site.database.rows(
        "SELECT 1 FROM checkpoints c WHERE parent_checkpoint_id IS NOT NULL AND NOT EXISTS (SELECT 1 "
        "FROM checkpoints p WHERE p.thread_id = c.thread_id AND p.checkpoint_id = c.parent_checkpoint_id)"
    )
    assert dangling == []
    assert site.left() == {"a": 2 if news is _fork else 1, "b": 1, "c": 1}


@pytest.mark.parametrize(("moment", "word"), PLACES, ids=[f"{m} {w[:24]}" for m, w in PLACES])
@pytest.mark.parametrize("news", [_turn, _write])
def test_a_thread_that_is_written_to_meanwhile_stays_whole(
    site: Site, news: Callable[[Site], None], moment: str, word: str
) -> None:
    """Whatever is committed before our last look keeps its thread, and only that one."""
    before = {
        table: site.left(table)["a"] for table in ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
    }
    with tapped(site.retention.store) as tap:
        tap.once("before" if moment == "before" else "after", word, lambda: news(site))
        report = site.prune(THREADS)
    assert tap.all_done
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 2, 0)
    after = {table: site.left(table) for table in before}
    assert all(set(left) == {"a"} for left in after.values())
    new = {"checkpoints": int(news is _turn), "checkpoint_writes": int(news is _write)}
    new["checkpoint_blobs"] = new["checkpoints"]
    assert {table: left["a"] for table, left in after.items()} == {
        table: before[table] + new[table] for table in before
    }


def test_a_thread_with_a_row_that_is_held_is_passed_by(site: Site) -> None:
    """No lock of ours waits: the thread is skipped, the others go, and it goes the next time."""
    with site.database.connect(autocommit=False) as engine:
        _hold(engine, 0, "FOR KEY SHARE")
        report = site.prune(THREADS)
    assert report.units.removed == 2
    assert report.units.skipped == {"recheck: locked": 1}
    assert site.prune(THREADS).units.removed == 1
    assert site.left() == {}
