"""Rows of row tables on PostgreSQL whose connection is ended at statements: whole rows, and none unsaved."""

from __future__ import annotations

import os
from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from afterrun import Retention, SweepOptions
from afterrun.core.errors import AfterrunError
from afterrun.stores.sql.backups import BackupOrder
from generations.loops import PostgresLoops
from pg_server import SUPERUSER, Database
from postgres.statement_tap import Moment, driver_of, tapped
from row_policies.backed_shops import BOTH, OFFLINE, Content, content, made, restore
from row_policies.tables import Shop, make

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS: Final = 1_000 if os.environ.get("AFTERRUN_SOAK") == "1" else 10
"""Ends of one run, spread over its statements."""


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Shop:
    """Give an empty store."""
    store = PostgresLoops(tmp_path, database)
    make(store)
    return Shop(store)


@contextmanager
def ended_at(retention: Retention, database: Database, number: int) -> Iterator[list[str]]:
    """End the connection before a statement, counted from 0; give the statements."""
    driver = driver_of(retention.store)
    process = driver.info.backend_pid
    with tapped(retention.store) as tap:

        def hear(moment: Moment, _text: str) -> None:
            if moment == "before" and len(tap.statements) == number + 1:
                end = "SELECT pg_terminate_backend(%s, 10000)"
                assert database.rows(end, process, user=SUPERUSER) == [(True,)]

        tap.hear = hear
        yield tap.statements


def places(statements: Sequence[str]) -> list[int]:
    """Return at which statements a run is ended."""
    commits = [number for number, text in enumerate(statements) if text == "COMMIT"]
    return sorted({*range(0, len(statements), len(statements) // KILLS + 1), *commits[:3]})


def whole(left: Content, before: Content) -> None:
    """Check that what stands is as it was, and that rows stand or fall with those that belong to them."""
    for table, rows in left.items():
        assert set(rows) <= set(before[table]), table
    events = {literal_eval(row)[0] for row in left["events"]}
    parts = [row for row in before["event_parts"] if literal_eval(row)[0] in events]
    assert left["event_parts"] == parts


def prune(retention: Retention, target: Path) -> None:
    """Remove after a backup."""
    retention.prune(BOTH, options=OFFLINE, backup=BackupOrder(path=target))


def test_a_backup_and_a_removal_that_are_ended_lose_nothing(
    shop: Shop, database: Database, tmp_path: Path
) -> None:
    """Wherever the connection ends: what is gone is in a whole backup, from which it comes back."""
    before = made(shop)
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    with shop.open() as retention, ended_at(retention, database, -1) as statements:
        prune(retention, folder / "first.zip")
    restore(shop, folder / "first.zip")
    assert content(shop) == before
    for number in places(statements):
        target = folder / f"{number}.zip"
        with suppress(AfterrunError), shop.open() as retention, ended_at(retention, database, number):
            prune(retention, target)
        left = content(shop)
        whole(left, before)
        if left != before:
            assert restore(shop, target).refused == {}
        assert content(shop) == before, statements[number]


def test_a_restore_that_is_ended_leaves_whole_rows(shop: Shop, database: Database, tmp_path: Path) -> None:
    """A second restore brings back what the first one did not."""
    before = made(shop)
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    target = folder / "went.zip"

    def gone() -> None:
        with shop.open() as retention:
            retention.prune(BOTH, options=SweepOptions(offline=True))

    with shop.open() as retention:
        prune(retention, target)
    with shop.open() as retention, ended_at(retention, database, -1) as statements:
        retention.restore(target, rest=0.0)
    for number in places(statements):
        gone()
        with suppress(AfterrunError), shop.open() as retention, ended_at(retention, database, number):
            retention.restore(target, rest=0.0)
        whole(content(shop), before)
        assert restore(shop, target).refused == {}
        assert content(shop) == before, statements[number]
