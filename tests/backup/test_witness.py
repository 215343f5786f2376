"""What goes is compared with the backup under the lock; the backup's own side is read before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from afterrun import SweepOptions
from afterrun.core.facts import Key, Unit
from afterrun.stores.sql.backups import BackupKind
from afterrun.stores.sql.sqlite.attached_units import BACKUP, AttachedUnits
from afterrun.stores.sql.store import SqlStore
from afterrun.stores.sql.transaction import SqlTransaction
from backup.backup_kit import ids, prune, strange_store
from own_store import OwnStore
from sql_kit import traced

KINDS: tuple[BackupKind, ...] = ("removed", "whole")


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with old runs."""
    return strange_store(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_no_lock_waits_for_the_backup_to_be_read(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind
) -> None:
    """Within a batch in which all is as it was, no statement reads the attached file."""
    read: list[str] = []
    opened: list[SqlStore] = []
    differing, transaction = AttachedUnits.differing, SqlStore.transaction

    def noted(self: SqlStore, *, seconds: float) -> SqlTransaction:
        opened[:] = [self]
        return transaction(self, seconds=seconds)

    def watched(self: AttachedUnits, units: Sequence[Unit]) -> Collection[Key]:
        with traced(opened[0]) as seen:
            found = differing(self, units)
        assert self.dialect.driver.in_transaction
        read.extend(seen)
        return found

    monkeypatch.setattr(SqlStore, "transaction", noted)
    monkeypatch.setattr(AttachedUnits, "differing", watched)
    report = prune(store, folder / "b.sqlite", kind=kind, options=SweepOptions(rest=0.0, batch_units=4))
    assert report.units.removed == 20
    assert any("runs" in text for text in read)
    assert [text for text in read if BACKUP in text] == []


CHANGES = {
    "a value": "UPDATE runs SET free = 'other' WHERE id = 'o''neil'",
    "a type": "UPDATE runs SET free = 1.0 WHERE id = 'o''neil'",
    "one row more": "INSERT INTO loose VALUES ('o''neil', 'new')",
    "one row less": "DELETE FROM loose WHERE rowid = 1",
    "a row of another": "UPDATE loose SET run = 'o''neil' WHERE run = 'a;--'",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_before_the_lock_is_had_stays(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: BackupKind, change: str
) -> None:
    """A commit of the engine after the backup's side was read, and before the batch begins, is seen."""
    recall = AttachedUnits.recall
    recalled: list[Sequence[Key]] = []

    def then_changed(self: AttachedUnits, units: Sequence[Unit]) -> None:
        recall(self, units)
        if not recalled:
            store.run(change)
        recalled.append(self._recalled[0])

    monkeypatch.setattr(AttachedUnits, "recall", then_changed)
    report = prune(store, folder / "b.sqlite", kind=kind)
    changed = {"o'neil", "a;--"} if "a;--" in change else {"o'neil"}
    assert report.units.skipped == {"recheck: changed since the backup": len(changed)}
    assert ids(store.path) == {"alive", *changed}


def test_what_is_left_out_by_its_own_facts_disturbs_no_other(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that lives again is skipped, one that changed too, and those beside them are still compared."""
    recall = AttachedUnits.recall

    def then_changed(self: AttachedUnits, units: Sequence[Unit]) -> None:
        recall(self, units)
        store.run(
            "UPDATE runs SET status = 'running' WHERE id = 'child';"
            "UPDATE runs SET free = 1.0 WHERE id = 'o''neil'"
        )

    monkeypatch.setattr(AttachedUnits, "recall", then_changed)
    report = prune(store, folder / "b.sqlite")
    assert report.units.skipped == {"recheck: live-member": 1, "recheck: changed since the backup": 1}
    assert report.units.removed == 18
    assert ids(store.path) == {"alive", "o'neil", "run-0", "child", "grandchild"}
