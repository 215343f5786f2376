"""A batch need not read its threads again where nobody else has committed since; else it does."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterrun import Report, SweepOptions
from afterrun.core.events import BatchDone, Event, PageRead
from afterrun.core.facts import Key, Unit
from afterrun.core.store import Cursor
from afterrun.profiles.langgraph import Checkpoint
from afterrun.stores.sql.langgraph.checkpoints import CheckpointStore
from afterrun.stores.sql.langgraph.store import ThreadStore
from checkpoints.drawn_threads import threads
from checkpoints.hostile_kit import GENERATIONS, Hostile, at
from checkpoints.packing import checkpoint, pack

FAR = 2**62
STEPS = 300


def save(store: Hostile, thread: str, rows: Sequence[Checkpoint], *, version: int = 4) -> None:
    """Write the checkpoints of a thread."""
    with store.open() as database:
        database.executemany(
            "INSERT INTO checkpoints VALUES (?, ?, ?, ?, 'msgpack', ?, ?)",
            [
                (
                    *(thread, row.namespace, row.id, row.parent),
                    pack(checkpoint(v=version, id=row.id)),
                    json.dumps({"parents": {"": row.metadata.root} if row.metadata.root else {}}).encode(),
                )
                for row in rows
            ],
        )


@contextmanager
def viewed(store: Hostile) -> Iterator[CheckpointStore]:
    """Open a store, and give the checkpoints of it."""
    with store.retention() as retention:
        assert isinstance(retention.store, ThreadStore)
        yield CheckpointStore(retention.store, leaving=None)


def told(view: CheckpointStore, units: Sequence[Unit]) -> tuple[dict[Key, Unit], dict[Key, Key]]:
    """Return these units as a batch sees them, and where links would lead if they all went."""
    found = view._reader.recheck([unit.key for unit in units])
    gone = frozenset(member for unit in found for member in unit.members)
    return {unit.key: unit for unit in found}, dict(view._reader.links.led_on(gone))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(threads(), st.integers(3, 4)), min_size=1, max_size=3), st.data())
def test_what_is_remembered_is_what_would_be_read(
    drawn: list[tuple[list[Checkpoint], int]], data: st.DataObject
) -> None:
    """After any batches, committed or not, each unit and each link is what a reading from scratch finds."""
    with tempfile.TemporaryDirectory() as folder:
        store = Hostile(Path(folder) / "checkpoints.sqlite")
        for number, (rows, version) in enumerate(drawn):
            save(store, f"thread-{number}", rows, version=version)
        with viewed(store) as view:
            page = view.page(Cursor(), cutoff=FAR, limit=1_000).units
            for _ in range(data.draw(st.integers(1, 4))):
                _one_batch(store, view, page, data)


def _one_batch(store: Hostile, view: CheckpointStore, page: Sequence[Unit], data: st.DataObject) -> None:
    """Compare, then remove some units that may go; now and then, the batch is rolled back."""
    some = data.draw(st.lists(st.sampled_from(list(page)), unique_by=lambda unit: unit.key))
    with viewed(store) as fresh:
        expected = told(fresh, page)
        known = view.transaction(seconds=5.0)
        with suppress(InterruptedError), known:
            found = told(view, page)
            assert found == expected
            again = [found[0][unit.key] for unit in some if unit.key in found[0]]
            going = [unit for unit in again if not unit.protected and not unit.blocked]
            known.remove(going, max_rows=1_000)
            _interrupt(now=data.draw(st.integers(0, 3)) == 0)


def _interrupt(*, now: bool) -> None:
    if now:
        raise InterruptedError


def statements(view: CheckpointStore) -> list[str]:
    """Return a list that grows with each statement of a store."""
    heard: list[str] = []
    driver: sqlite3.Connection = view._dialect.driver  # type: ignore[attr-defined]
    driver.set_trace_callback(heard.append)
    return heard


@pytest.mark.parametrize("forked", [False, True])
def test_a_batch_of_a_thread_that_stands_reads_none_of_it(tmp_path: Path, *, forked: bool) -> None:
    """However long the thread, the check of a batch is one question, whether anybody has committed."""
    store = Hostile(tmp_path / "checkpoints.sqlite")
    store.thread("long", STEPS)
    if forked:
        with store.open() as database:
            database.execute(
                "UPDATE checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?", (at(5), at(9))
            )
    with viewed(store) as view:
        page = view.page(Cursor(), cutoff=FAR, limit=10).units
        going = [unit for unit in page if not unit.protected]
        assert len(going) >= STEPS - 2
        heard = statements(view)
        for place in range(0, len(going), 100):
            batch = view.transaction(seconds=5.0)
            with batch:
                heard.clear()
                assert len(batch.units(going[place : place + 100])) == len(going[place : place + 100])
                assert heard == ["PRAGMA main.data_version"]
                batch.remove(going[place : place + 100], max_rows=1_000)
    assert store.left() == {"long": STEPS - len(going)}


def _delta(store: Hostile) -> None:
    """Take a turn with a DeltaChannel, for which the whole thread is needed."""
    with store.open() as database:
        database.execute(
            "INSERT INTO checkpoints VALUES ('long', '', ?, ?, 'msgpack', ?, ?)",
            (
                *(at(STEPS), at(STEPS - 1), pack(checkpoint(id=at(STEPS)))),
                json.dumps({"parents": {}, "counters_since_delta_snapshot": {"said": 1}}).encode(),
            ),
        )


def _fork(store: Hostile) -> None:
    """Replay from an old checkpoint, and let go of the way that was taken before."""
    with store.open() as database:
        database.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (at(STEPS - 1),))


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
@pytest.mark.parametrize("moment", [PageRead, BatchDone])
def test_what_is_committed_between_two_batches_is_seen(
    tmp_path: Path, moment: type[Event], journal: str
) -> None:
    """A thread that needs all its checkpoints all at once keeps those that are left."""
    report, store = _meanwhile(tmp_path, moment, journal, _delta)
    assert report.removed == (0 if moment is PageRead else 10)
    assert set(report.units.skipped) == {"recheck: delta-channel"}
    assert store.left() == {"long": STEPS + 1 - report.removed}


def test_a_checkpoint_that_became_the_newest_stays(tmp_path: Path) -> None:
    """Where the head went by another hand, the one before it is what the engine goes on from."""
    report, store = _meanwhile(tmp_path, PageRead, "WAL", _fork)
    assert report.removed == STEPS - 2
    assert report.units.skipped == {"recheck: current-generation": 1}
    assert store.rows("SELECT checkpoint_id FROM checkpoints") == [(at(STEPS - 2),)]


def _meanwhile(
    tmp_path: Path, moment: type[Event], journal: str, act: Callable[[Hostile], None]
) -> tuple[Report, Hostile]:
    """Prune a long thread in small batches; after the first such event, somebody else commits."""
    store = Hostile(tmp_path / "checkpoints.sqlite")
    store.thread("long", STEPS)
    with store.open() as database:
        database.execute(f"PRAGMA journal_mode={journal}")
    seen: list[Event] = []

    def hear(event: Event) -> None:
        seen.append(event)
        if type(event) is moment and [type(one) for one in seen].count(moment) == 1:
            act(store)

    with store.retention() as retention:
        options = SweepOptions(batch_units=10, rest=0.0, observer=hear, sleep=lambda _seconds: None)
        return retention.prune(GENERATIONS, options=options), store
