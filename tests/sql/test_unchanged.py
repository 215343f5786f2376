"""Units of a page need no second reading within a batch where nobody has committed since."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from afterrun.core.facts import Key, Unit
from afterrun.core.store import Cursor, Store
from afterrun.stores.sql.generations import SqlGenerations
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.unchanged import Unchanged
from checkpoints.hostile_kit import Hostile
from generations.loops import SqliteLoops, fill, loop, make, open_loops

FAR = 2**62
OLD, NEW = (Unit(key, (key,), 1, 1, successful=True) for key in ("old", "new"))
READ = Unit("read", ("read",), 1, 1, successful=True)


class Marked:
    """A database of which a test says whether it changed."""

    def __init__(self) -> None:
        self.shown: object = 1

    def mark(self) -> object:
        """Return what is shown."""
        return self.shown

    def units(self, keys: Sequence[Key]) -> Sequence[Unit]:
        """Return what tells that it was read again."""
        return [READ] * len(keys)


@pytest.fixture
def marked() -> Marked:
    """Give such a database."""
    return Marked()


@pytest.fixture
def known(marked: Marked) -> Unchanged:
    """Give a check that knows one unit."""
    made = Unchanged(marked, marked)  # type: ignore[arg-type]
    made.note([OLD], since=1)
    return made


def test_units_of_a_page_that_stands_are_taken_as_they_are(known: Unchanged, marked: Marked) -> None:
    """In batch after batch, though each changes the database by itself."""
    assert known.units([OLD]) == [OLD]
    marked.shown = 2
    assert not known.newcomers([])
    assert known.units([OLD]) == [OLD]


def test_after_a_commit_of_somebody_else_they_are_read_again(known: Unchanged, marked: Marked) -> None:
    """And again in the next batch, since the page is of before."""
    marked.shown = 2
    assert known.units([OLD]) == [READ]
    known.newcomers([])
    assert known.units([OLD]) == [READ]


def test_after_a_batch_that_was_rolled_back_they_are_read_again(known: Unchanged, marked: Marked) -> None:
    """What it had changed is no longer so."""
    assert known.units([OLD]) == [OLD]
    marked.shown = 2
    assert known.units([OLD]) == [READ]


def test_what_waits_from_the_page_before_stands_only_if_nobody_committed(
    known: Unchanged, marked: Marked
) -> None:
    """A unit is as old as its own page."""
    known.note([NEW], since=1)
    assert known.units([OLD, NEW]) == [OLD, NEW]
    marked.shown = 2
    known.note([NEW], since=2)
    assert known.units([NEW]) == [NEW]
    assert known.units([OLD]) == [READ]


def test_a_unit_that_no_page_had_is_read(known: Unchanged) -> None:
    """Equal is not enough: it must be the page's own."""
    assert known.units([OLD._replace(key="old")]) == [READ]


def test_where_a_database_shows_nothing_everything_is_read(known: Unchanged, marked: Marked) -> None:
    """Nothing is equal to nothing."""
    marked.shown = None
    known.note([OLD], since=None)
    assert known.units([OLD]) == [READ]


def _reads_nothing(view: Store, driver: sqlite3.Connection, *, units: int) -> None:
    page = view.page(Cursor(), cutoff=FAR, limit=1_000)
    going = [unit for unit in page.units if not unit.protected and not unit.blocked]
    assert len(going) == units
    heard: list[str] = []
    driver.set_trace_callback(heard.append)
    for some in (going[:2], going[2:]):
        with view.transaction(seconds=5.0) as batch:
            heard.clear()
            assert list(batch.units(some)) == some
            assert heard == ["PRAGMA main.data_version"]
            batch.remove(some, max_rows=1_000)
    driver.set_trace_callback(None)


def test_generations_and_threads_of_a_file_are_not_read_twice(tmp_path: Path) -> None:
    """Within the lock SQLite is asked one question, whether anybody has committed."""
    loops = SqliteLoops(tmp_path)
    make(loops)
    fill(loops, loop("a", 5))
    with open_loops(loops) as retention:
        store = retention.store
        generation = store.profile.units.generation
        assert generation is not None
        view = SqlGenerations(store, generation, keep_last=None, leaving=None)
        _reads_nothing(view, store.dialect.driver, units=4)  # type: ignore[attr-defined]
    threads = Hostile(tmp_path / "checkpoints.sqlite")
    for name in "abcd":
        threads.thread(name)
    with threads.retention() as retention:
        assert isinstance(retention.store, ThreadStore)
        _reads_nothing(retention.store, retention.store.dialect.driver, units=4)  # type: ignore[attr-defined]
    assert threads.left() == {}
