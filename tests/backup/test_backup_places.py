"""Where a backup may go: a new, private file in a safe folder outside the store, with room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from afterrun import Refused, UsageError
from afterrun.stores import new_file
from afterrun.stores.new_file import NewFile
from backup.backup_kit import content, prune, strange_store
from own_store import OwnStore


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with old runs."""
    return strange_store(tmp_path)


def left_alone(store: OwnStore, target: Path, *errors: type[Exception]) -> str:
    """Try a removal with a backup there; nothing may change anywhere. Return the message."""
    before = content(store)
    beside = set(target.parent.iterdir()) if target.parent.is_dir() else set()
    with pytest.raises(errors) as caught:
        prune(store, target)
    assert content(store) == before
    if target.parent.is_dir():
        assert set(target.parent.iterdir()) - beside <= {Path(f"{store.path}.afterrun-lock")}
    return str(caught.value)


def test_a_relative_path_is_refused(store: OwnStore, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Where a relative path leads depends on the moment, so only an absolute one is taken."""
    monkeypatch.chdir(folder)
    assert "absolute" in left_alone(store, Path("b.sqlite"), UsageError)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal", ".afterrun-lock"])
def test_the_names_of_the_store_are_refused(store: OwnStore, ending: str, tmp_path: Path) -> None:
    """A backup under a name that SQLite uses for the store would destroy it; by a link to its folder, too."""
    left_alone(store, Path(f"{store.path}{ending}"), UsageError)
    (tmp_path / "link").symlink_to(tmp_path)
    left_alone(store, tmp_path / "link" / f"{store.path.name}{ending}", UsageError)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling", "wal"])
def test_an_existing_name_is_refused(store: OwnStore, folder: Path, kind: str) -> None:
    """Nothing is overwritten and no link is followed; a stray -wal would become part of the backup."""
    target, other = folder / "b.sqlite", folder / "other"
    if kind == "file":
        target.write_text("precious")
    elif kind == "folder":
        target.mkdir()
    elif kind == "wal":
        Path(f"{target}-wal").write_text("precious")
    else:
        target.symlink_to(other)
        if kind == "link":
            other.write_text("precious")
    assert "exists already" in left_alone(store, target, UsageError)


@pytest.mark.parametrize("name", ["missing/b", "file/b", "b\0", "x" * 201])
def test_a_place_that_cannot_be_is_refused(store: OwnStore, folder: Path, name: str) -> None:
    """A missing folder, a file for a folder, and names that no file can have are usage errors."""
    (folder / "file").touch()
    left_alone(store, folder / name, UsageError)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_a_folder_that_others_can_write_is_refused(store: OwnStore, folder: Path, mode: int) -> None:
    """Who can write to the folder can put another file in the backup's place."""
    folder.chmod(mode)
    assert "others can write" in left_alone(store, folder / "b.sqlite", Refused)


def test_a_folder_with_the_sticky_bit_is_taken(store: OwnStore, folder: Path) -> None:
    """In a folder like /tmp nobody can rename what is another's."""
    folder.chmod(0o1777)
    assert prune(store, folder / "b.sqlite").ended == "completed"


def test_the_folder_of_another_user_is_refused(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner can change a folder, whatever its mode: only root, this user and the store's owner may."""
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    real = Path.stat

    def owned_by_another(path: Path, **words: bool) -> os.stat_result:
        found = real(path, **words)
        if path != folder:
            return found
        values = list(found)
        values[4] = 12_345
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", owned_by_another)
    assert "others can write" in left_alone(store, folder / "b.sqlite", Refused)


@pytest.mark.parametrize("kind", ["removed", "whole"])
def test_too_little_room_is_refused(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The room on the backup's volume is asked before anything is written, whatever the kind."""
    monkeypatch.setattr(new_file, "SPARE", 1 << 60)
    before = content(store)
    with pytest.raises(Refused, match="free") as caught:
        prune(store, folder / "b.sqlite", kind="removed" if kind == "removed" else "whole")
    assert caught.value.reason == "no-room"
    assert content(store) == before
    assert list(folder.iterdir()) == []


def no_links(*_args: object, **_words: object) -> None:
    """Be a file system without hard links."""
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_is_taken_meanwhile_is_not_replaced(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """Somebody else's file that appears while the backup grows stays, and nothing is removed."""
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    publish = NewFile.publish

    def late(self: NewFile) -> None:
        self.path.write_text("precious")
        publish(self)

    monkeypatch.setattr(NewFile, "publish", late)
    before = content(store)
    with pytest.raises(Exception, match="exists"):
        prune(store, folder / "b.sqlite")
    assert content(store) == before
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]
    assert (folder / "b.sqlite").read_text() == "precious"


def test_a_file_system_without_links_is_served(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are no hard links, the name is taken first and then filled."""
    monkeypatch.setattr(os, "link", no_links)
    assert prune(store, folder / "b.sqlite").ended == "completed"
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]


def test_strange_names_make_ordinary_backups(store: OwnStore, folder: Path) -> None:
    """A name with everything that means something in a URI, in SQL or to a shell is a name."""
    target = folder / "a?mode=memory&x#y%41 'q' \"z\" ;ключ.sqlite"
    assert prune(store, target).ended == "completed"
    assert [path.name for path in folder.iterdir()] == [target.name]
