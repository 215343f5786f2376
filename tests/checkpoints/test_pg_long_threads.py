"""A long thread on PostgreSQL: a batch does not read it anew, and sees whatever another session changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from afterrun import Report, SweepOptions
from afterrun.core.events import BatchDone, Event
from afterrun.core.times import DAY
from afterrun.profiles.langgraph import uuid6_floor
from checkpoints.hostile_kit import BEGIN
from checkpoints.pg_checkpoints import GENERATIONS, Site
from pg_server import Database
from postgres.statement_tap import tapped

STEPS = 1_060
"""More than a page of a live sweep has, so that the thread fills one."""

MINUTE = DAY // 1_440
READS = 'SELECT c."thread_id", c."checkpoint_ns", c."checkpoint_id"'
SHARED = 'DELETE FROM "public"."checkpoint_blobs"'
DANGLING = (
    "SELECT c.checkpoint_id, v.key FROM checkpoints c "
    "CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') v "
    "WHERE v.key <> '__start__' AND NOT EXISTS (SELECT 1 FROM checkpoint_blobs b "
    "WHERE b.thread_id = c.thread_id AND b.channel = v.key AND b.version = v.value)"
)


def near(step: int) -> str:
    """Return the id of the checkpoint made at a step, one a minute."""
    return f"{uuid6_floor(BEGIN + step * MINUTE)}-8000-000000000002"


def versions(step: int) -> dict[str, str]:
    """Return the values of a step: one of its own, one of ten steps, and one of all."""
    return {"__start__": "1.0", "shared": "1", "said": str(step), "slow": str(step - step % 10)}


def long_thread(database: Database, *, forks: bool = False) -> None:
    """Write a thread of many checkpoints; with ``forks``, somebody went on from an old one now and then."""
    with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for step in range(STEPS):
            parent = None if not step else near(step - 5 if forks and step % 100 == 50 else step - 1)
            _save(cursor, step, parent)
        values = {(channel, name) for step in range(STEPS) for channel, name in versions(step).items()}
        cursor.executemany(
            b"INSERT INTO checkpoint_blobs VALUES ('long', '', %s, %s, 'msgpack', 'x')",
            sorted(value for value in values if value[0] != "__start__"),
        )
        cursor.executemany(
            b"INSERT INTO checkpoint_writes VALUES ('long', '', %s, 'task', 0, 'said', 'msgpack', 'x', '')",
            [(near(step),) for step in range(STEPS - 1)],
        )


def _save(cursor: object, step: int, parent: str | None, **metadata: object) -> None:
    payload = {"v": 4, "id": near(step), "channel_values": {}, "channel_versions": versions(step)}
    cursor.execute(  # type: ignore[attr-defined]
        b"INSERT INTO checkpoints VALUES ('long', '', %s, %s, NULL, %s, %s)",
        (near(step), parent, json.dumps(payload), json.dumps({"parents": {}, **metadata})),
    )


@pytest.fixture
def site(database: Database, tmp_path: Path) -> Iterator[Site]:
    """Give a store with a long thread after three short ones, open."""
    made = Site(database, tmp_path)
    long_thread(database)
    yield made
    made.retention.close()


def prune(site: Site, act: Callable[[], None] | None = None, *, batch: int = 200) -> Report:
    """Prune beside an engine; after the second batch, it acts."""
    seen: list[Event] = []

    def hear(event: Event) -> None:
        seen.append(event)
        if act and isinstance(event, BatchDone) and sum(isinstance(one, BatchDone) for one in seen) == 2:
            act()

    options = SweepOptions(batch_units=batch, observer=hear, sleep=lambda _seconds: None)
    return site.retention.prune(GENERATIONS, options=options)


def contents(site: Site) -> list[list[tuple[object, ...]]]:
    """Return what is left of the long thread."""
    return [
        site.database.rows(f"SELECT {columns} FROM {table} WHERE thread_id = 'long' ORDER BY 1, 2")
        for table, columns in (
            ("checkpoints", "checkpoint_id, parent_checkpoint_id"),
            ("checkpoint_writes", "checkpoint_id, task_id"),
            ("checkpoint_blobs", "channel, version"),
        )
    ]


@pytest.mark.parametrize("forks", [False, True])
def test_a_long_thread_is_read_once_and_comes_to_the_same(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forks: bool
) -> None:
    """In many batches as in one that reads everything, the same rows are left, and each link is the same."""
    monkeypatch.setattr("afterrun.stores.sql.langgraph.checkpoint_removal.LONG", 10)
    site = Site(database, tmp_path)
    long_thread(database, forks=forks)
    with tapped(site.retention.store) as tap:
        report = prune(site)
    ends = 12 if forks else 1
    assert (report.ended, report.units.removed) == ("completed", 9 + STEPS - ends)
    began = [
        at for at, text in enumerate(tap.statements) if "SELECT count(*)" in text and "SKIP LOCKED" in text
    ]
    later = tap.statements[began[2] :]  # the first is of other threads, too, and so the second reads it
    assert len(began) > 3
    assert [text for text in later if text.startswith(READS) and "= any(" in text] == []
    assert [text for text in later if text.startswith(SHARED) and "jsonb_each_text" in text] == []
    assert site.database.rows(DANGLING) == []
    left = contents(site)
    assert len(left[0]) == ends
    site.retention.close()
    database.run("TRUNCATE checkpoints, checkpoint_writes, checkpoint_blobs")
    long_thread(database, forks=forks)
    again = Site.__new__(Site)
    again.database, again.retention = database, type(site.retention)(database.url(), state=tmp_path / "b")
    monkeypatch.setattr("afterrun.stores.sql.langgraph.readings.Reading.stands", lambda *_: False)
    prune(again)
    assert contents(again) == left
    again.retention.close()


def test_a_turn_that_needs_the_whole_thread_keeps_what_is_left(site: Site) -> None:
    """A DeltaChannel in the newest checkpoint is seen by the next batch."""

    def turn() -> None:
        with site.database.connect() as engine, engine.cursor() as cursor:
            _save(cursor, STEPS, near(STEPS - 1), counters_since_delta_snapshot={"said": 1})

    report = prune(site, turn)
    assert set(report.units.skipped) == {"recheck: delta-channel"}
    assert site.left()["long"] == STEPS + 1 - report.removed + 9


def test_a_row_that_was_written_anew_is_seen(site: Site) -> None:
    """One that the engine saved again under its id is read again, and so is its thread."""

    def save_again() -> None:
        site.database.run(
            """UPDATE checkpoints SET metadata = '{"parents": {}, "counters_since_delta_snapshot": {}}' """
            f"WHERE checkpoint_id = '{near(STEPS - 500)}'"
        )

    report = prune(site, save_again)
    assert set(report.units.skipped) == {"recheck: delta-channel"}
    assert site.left()["long"] == STEPS - report.removed + 9


def test_a_fork_that_comes_between_two_batches_keeps_its_values(site: Site) -> None:
    """It refers to old values, and follows a checkpoint that stays with it or none."""

    def fork() -> None:
        with site.database.connect() as engine, engine.cursor() as cursor:
            payload = {"v": 4, "id": near(STEPS), "channel_versions": versions(STEPS - 300)}
            cursor.execute(
                b"INSERT INTO checkpoints VALUES ('long', '', %s, %s, NULL, %s, '{}')",
                (near(STEPS), near(STEPS - 300), json.dumps(payload)),
            )

    report = prune(site, fork)
    assert report.ended == "completed"
    assert site.database.rows(DANGLING) == []
    assert site.left()["long"] == 2
    assert ("slow", str(STEPS - 300)) in contents(site)[2]


def test_a_batch_that_was_rolled_back_is_not_taken_for_done(site: Site) -> None:
    """After a failure, the thread is read again, and everything goes all the same."""
    with tapped(site.retention.store) as tap:
        tap.once("before", SHARED, _fail)
        report = prune(site)
    assert tap.all_done
    assert (report.ended, report.units.removed) == ("completed", 9 + STEPS - 1)
    assert site.database.rows(DANGLING) == []


def _fail() -> None:
    from psycopg.errors import LockNotAvailable  # noqa: PLC0415

    raise LockNotAvailable("somebody holds it")
