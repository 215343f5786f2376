"""Rows that are found through a link table whose own rows stay: removed, backed up and restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backup.backup_kit import after_backup, content, ids, prune, restore, strange_store
from own_store import OwnStore


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store whose notes go with a run by way of links, which the profile leaves where they are."""
    made = strange_store(tmp_path)
    made.profile.write_text(
        made.profile.read_text().replace('  { table = "links", column = "run" },\n', ""), encoding="utf-8"
    )
    made.run(
        "CREATE TABLE kept (link INTEGER PRIMARY KEY AUTOINCREMENT, run, seen);"
        "INSERT INTO kept SELECT link, run, 0 FROM links; DROP TABLE links;"
        "ALTER TABLE kept RENAME TO links; CREATE INDEX links_run ON links (run);"
    )
    return made


def test_what_was_found_through_a_link_comes_back(store: OwnStore, folder: Path) -> None:
    """The store is the same after restore; the links were never gone, and count as no removed rows."""
    before = content(store)
    report = prune(store, folder / "b.sqlite")
    assert content(store)["links"] == before["links"]
    assert (report.rows["notes"], "links" in report.rows) == (len(before["notes"]), False)
    assert report.backup is not None
    assert report.backup["rows"] == dict(report.rows)
    restored = restore(store, folder / "b.sqlite")
    assert (restored.units, restored.rows) == (20, report.rows)
    assert content(store) == before


def test_one_tree_comes_back_with_what_hangs_on_its_links(store: OwnStore, folder: Path) -> None:
    """A tree brings the rows behind its own links, and no other's."""
    before = content(store)
    prune(store, folder / "b.sqlite")
    assert restore(store, folder / "b.sqlite", "o'neil").rows["notes"] == 3
    assert ids(store.path) == {"alive", "o'neil"}
    assert set(content(store)["notes"]) < set(before["notes"])


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO notes VALUES (1, 'new')",
        "UPDATE notes SET text = 2 WHERE link = 1 AND text = 1",
        "UPDATE links SET run = 'alive' WHERE link = 1",
    ],
)
def test_what_changed_behind_a_link_stays_alone(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A row that came, changed or got another owner since the backup keeps its unit; all others go."""
    with after_backup(monkeypatch, lambda: store.run(change)):
        report = prune(store, folder / "b.sqlite")
    assert report.units.skipped == {"recheck: changed since the backup": 1}
    assert ids(store.path) == {"alive", "o'neil"}


def test_a_link_that_is_written_to_is_no_change(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine notes on a link itself keeps nothing, since the link stays, and is not undone."""
    before = content(store)
    with after_backup(monkeypatch, lambda: store.run("UPDATE links SET seen = 1")):
        assert prune(store, folder / "b.sqlite").units.removed == 20
    links = content(store)["links"]
    restore(store, folder / "b.sqlite")
    assert content(store) == before | {"links": links}
    assert all(line.endswith("1)") for line in links)


LOST: dict[str, Callable[[OwnStore], None]] = {
    "gone": lambda store: store.run("DELETE FROM links WHERE link = 1"),
    "of another run": lambda store: store.run("UPDATE links SET run = 'alive' WHERE link = 1"),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_tree_whose_link_is_lost_is_refused(
    store: OwnStore, folder: Path, lose: Callable[[OwnStore], None]
) -> None:
    """Its rows would belong to nobody, or to another run: it stays in the backup, and it is said why."""
    prune(store, folder / "b.sqlite")
    lose(store)
    restored = restore(store, folder / "b.sqlite")
    assert (restored.units, restored.named) == (19, ["o'neil"])
    assert "rows of links that led to rows of this tree" in next(iter(restored.refused))
    assert "o'neil" not in ids(store.path)


def test_a_whole_backup_takes_such_a_store_too(store: OwnStore, folder: Path) -> None:
    """The whole database is copied, and what goes is compared through the links of the copy."""
    before = content(store)
    assert prune(store, folder / "b.sqlite", kind="whole").units.removed == 20
    assert content(folder / "b.sqlite") == before
