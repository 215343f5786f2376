"""A backup holds the blobs that its units refer to, and restore puts rows back with them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from afterrun import BackupOrder, Report
from payloads.blob_kit import (
    HOUR_MS,
    MONTH,
    NOW_MS,
    PostgresShop,
    Shop,
    SqliteShop,
    add_blobs,
    add_runs,
    dangling,
    execute,
    left,
    opened,
    refer,
)


def stock(shop: Shop) -> None:
    """Make two expired runs and a live one, with blobs of one, of two, and of all."""
    add_runs(shop, "a", "b")
    add_runs(shop, "live", live=True)
    add_blobs(shop, "of a", "of b", "of both", "of all", "of live")
    execute(shop, "UPDATE blobs SET content = ? WHERE digest = 'of a'", (b"\x00\xff\t\n\\N",))
    refer(shop, ("a", "of a"), ("b", "of b"), ("a", "of both"), ("b", "of both"), ("a", None))
    refer(shop, *((run, "of all") for run in ("a", "b", "live")), ("live", "of live"), ("a", "lost"))
    execute(shop, "UPDATE runs SET input = 'of a' WHERE id = 'a'")


def content(shop: Shop) -> dict[str, list[str]]:
    """Return all rows of all tables."""
    with closing(shop.connect()) as session:
        return {
            table: sorted(repr(row) for row in session.run(f"SELECT * FROM {table}"))
            for table in ("runs", "steps", "blobs", "pins")
        }


def backed_up(shop: Shop, folder: Path, kind: Literal["removed", "whole"] = "removed") -> tuple[Path, Report]:
    """Prune with a backup."""
    path = folder / "kept" / "backup"
    path.parent.mkdir(exist_ok=True)
    with opened(shop) as retention:
        report = retention.prune(MONTH, backup=BackupOrder(path=path, kind=kind))
    assert report.ended == "completed", report.message
    return path, report


def test_rows_come_back_with_their_blobs(shop: Shop, tmp_path: Path) -> None:
    """Removed, restored and compared: all rows of all tables are what they were."""
    stock(shop)
    before = content(shop)
    path, report = backed_up(shop, tmp_path)
    assert report.blobs.count == 3
    assert left(shop) == ["of all", "of live"]
    assert report.backup is not None
    assert report.backup["rows"] == {"steps": 8, "runs": 2, "blobs": 4}
    with opened(shop) as retention:
        restored = retention.restore(path)
    assert (restored.units, restored.rows["blobs"]) == (2, 3)
    assert content(shop) == before
    with opened(shop) as retention:
        assert retention.restore(path).present == 2


def test_one_run_comes_back_with_its_own_blobs_alone(shop: Shop, tmp_path: Path) -> None:
    """What only the others referred to stays in the backup."""
    stock(shop)
    path, _ = backed_up(shop, tmp_path)
    with opened(shop) as retention:
        assert retention.restore(path, "b").rows["blobs"] == 2
    assert left(shop) == ["of all", "of b", "of both", "of live"]
    with opened(shop) as retention:
        assert retention.restore(path, "a").rows["blobs"] == 1
    assert dangling(shop) == ["lost"]


def test_a_blob_that_is_there_again_stays_as_it_is(shop: Shop, tmp_path: Path) -> None:
    """The engine stored it anew in between: the row that it made counts."""
    stock(shop)
    path, _ = backed_up(shop, tmp_path)
    add_blobs(shop, "of a", stored=NOW_MS - HOUR_MS)
    with opened(shop) as retention:
        assert retention.restore(path).rows["blobs"] == 2
    with closing(shop.connect()) as session:
        assert session.run("SELECT stored FROM blobs WHERE digest = 'of a'") == [(NOW_MS - HOUR_MS,)]


def test_a_prune_with_a_backup_makes_no_full_pass(shop: Shop, tmp_path: Path) -> None:
    """What is in no backup does not go: a stray blob waits for a sweep without one."""
    stock(shop)
    add_blobs(shop, "stray")
    _, report = backed_up(shop, tmp_path)
    assert report.blobs.count == 3
    assert left(shop) == ["of all", "of live", "stray"]


def test_a_unit_whose_references_changed_since_the_backup_stays(shop: Shop, tmp_path: Path) -> None:
    """Its blobs stay, too; the other unit goes with its own."""
    stock(shop)
    path = tmp_path / "backup"
    with opened(shop) as retention:
        taken = retention.store.transaction

        def transaction(*, seconds: float) -> object:
            execute(shop, "UPDATE steps SET output = 'of live' WHERE run = 'a' AND output = 'of both'")
            return taken(seconds=seconds)

        retention.store.transaction = transaction  # type: ignore[method-assign,assignment]
        report = retention.prune(MONTH, backup=BackupOrder(path=path))
    assert report.units.skipped == {"recheck: changed since the backup": 1}
    assert report.blobs.count == 2
    assert left(shop) == ["of a", "of all", "of live"]


def test_a_whole_backup_holds_all_blobs(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a copy of the database, or of the tables that rows go from, blobs among them."""
    if isinstance(shop, PostgresShop):
        monkeypatch.setenv("AFTERRUN_PG_DUMP", shop.database.server.binaries.program("pg_dump"))
    stock(shop)
    path, report = backed_up(shop, tmp_path, "whole")
    assert report.blobs.count == 3
    assert left(shop) == ["of all", "of live"]
    if shop.name == "sqlite":
        with closing(sqlite3.connect(path)) as copy:
            assert copy.execute("SELECT count(*) FROM blobs").fetchone() == (5,)
    else:
        assert report.backup is not None
        assert report.backup["rows"] == {"steps": 10, "runs": 3, "blobs": 5, "pins": 0}


@pytest.mark.parametrize("table", ["blobs", "steps"])
def test_a_damaged_backup_is_refused_before_anything_comes_back(tmp_path: Path, table: str) -> None:
    """A changed blob is found like any other changed row."""
    shop = SqliteShop(tmp_path)
    stock(shop)
    path, _ = backed_up(shop, tmp_path)
    column = {"blobs": "content", "steps": "output"}[table]
    with closing(sqlite3.connect(path)) as copy, copy:
        copy.execute(f"UPDATE {table} SET {column} = 'other'")
    with opened(shop) as retention, pytest.raises(Exception, match=f"the rows of {table} in the backup"):
        retention.restore(path)
    assert left(shop) == ["of all", "of live"]
