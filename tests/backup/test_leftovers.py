"""What a killed removal leaves of its backup: `verify` names it, the next removal by hand takes it away."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from afterrun import SweepOptions
from afterrun.core.errors import BackupFailed
from afterrun.state import StateDirectory
from afterrun.state.files import MAX_DRAFTS
from afterrun.stores.new_file import UNFINISHED
from afterrun.stores.sql.backups import BackupKind
from afterrun.stores.sql.sqlite.attached import Attached
from backup.backup_kit import MONTH, content, ids, prune, restore, strange_store
from cli.kit import run_cli
from own_store import OwnStore

KINDS: tuple[BackupKind, ...] = ("removed", "whole")
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with old runs."""
    return strange_store(tmp_path)


@contextmanager
def stalled(
    store: OwnStore, target: Path, *, kind: BackupKind = "removed", point: str = "copying"
) -> Iterator[None]:
    """Let a removal stand still in the middle of its backup; it is killed at the end."""
    command = [sys.executable, str(TESTS / "backup" / "stalled_backup.py")]
    words = [str(store.path), str(store.profile), str(store.state), str(target), kind, point]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(TESTS)])}
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stalled\n"
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def killed(store: OwnStore, target: Path, *, kind: BackupKind = "removed", point: str = "copying") -> Path:
    """Kill a removal in the middle of its backup; return what it left."""
    with stalled(store, target, kind=kind, point=point):
        pass
    [left] = [path for path in target.parent.iterdir() if UNFINISHED in path.name]
    return left


def problems(store: OwnStore) -> list[str]:
    """Verify."""
    with store.retention(writable=False) as retention:
        return list(retention.verify())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["copying", "verifying", "publishing"])
def test_a_leftover_is_named_and_goes_with_the_next_removal(
    store: OwnStore, folder: Path, kind: BackupKind, point: str
) -> None:
    """Whatever it was killed at, `verify` names it and changes nothing; a prune without one clears it."""
    left = killed(store, folder / "b.sqlite", kind=kind, point=point)
    [line] = problems(store)
    assert line.startswith(f"leftover: {left}, {left.stat().st_size:,} bytes, is the unfinished backup")
    assert left.exists()
    with store.retention() as retention:
        report = retention.prune(MONTH, options=SweepOptions(offline=True))
    assert report.units.removed == 20
    assert [notice for notice in report.notices if "taken away" in notice and str(left) in notice]
    assert list(folder.iterdir()) == []
    assert problems(store) == []


def test_the_command_says_it(store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`afterrun verify` ends with 1 and names the file; after a prune it is content."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(store.state))
    left = killed(store, folder / "b.sqlite")
    words = (store.path, "--profile", store.profile)
    answer = run_cli("verify", *words, "--json")
    assert (answer.code, answer.json["ok"]) == (1, False)
    assert str(left) in answer.json["problems"][0]
    answer = run_cli("prune", *words, "--keep-for", "30d", "--apply", "--no-backup", "--yes", "--json")
    assert str(left) in " ".join(answer.json["notices"])
    assert run_cli("verify", *words).code == 0


def test_its_room_is_free_before_the_next_backup_asks_for_it(store: OwnStore, folder: Path) -> None:
    """The next removal takes the leftover away first, whatever its own backup is called."""
    left = killed(store, folder / "b.sqlite")
    report = prune(store, folder / "c.sqlite")
    assert report.units.removed == 20
    assert not left.exists()
    assert [path.name for path in folder.iterdir()] == ["c.sqlite"]
    restore(store, folder / "c.sqlite")
    assert len(ids(store.path)) == 23


def test_a_name_is_on_record_before_its_file_is_there(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no moment at which a file is there that nobody remembers; the note is for this user alone."""
    seen: list[bool] = []
    opened = os.open

    def watched(path: str | Path, *words: int, **more: object) -> int:
        if UNFINISHED in str(path):
            [file] = store.state.glob("*.json")
            seen.append(Path(path).name in file.read_text(encoding="utf-8"))
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        return opened(path, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", watched)
    prune(store, folder / "b.sqlite")
    assert seen[0] is True


def test_a_backup_that_is_being_made_is_no_leftover(store: OwnStore, folder: Path) -> None:
    """While its writer lives, `verify` says nothing of it."""
    with stalled(store, folder / "b.sqlite"):
        assert problems(store) == []
    assert len(problems(store)) == 1


def test_a_backup_that_failed_or_was_finished_leaves_nothing_to_name(
    store: OwnStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken away at once, or has its own name, is no leftover."""
    with monkeypatch.context() as patch:
        patch.setattr(Attached, "sums", lambda _self: {})
        with pytest.raises(BackupFailed):
            prune(store, folder / "b.sqlite")
    assert problems(store) == []
    prune(store, folder / "b.sqlite")
    assert problems(store) == []


def replace_by_link(left: Path, folder: Path) -> None:
    """Put a link to something of value in the leftover's place."""
    (folder / "precious").write_text("precious")
    left.unlink()
    left.symlink_to(folder / "precious")


def replace_by_folder(left: Path, folder: Path) -> None:
    """Put a folder with something in it in the leftover's place."""
    left.unlink()
    left.mkdir()
    (left / "precious").write_text("precious")


def replace_by_pipe(left: Path, folder: Path) -> None:
    """Put a pipe in the leftover's place, which nobody may wait for."""
    left.unlink()
    os.mkfifo(left)


OTHERS: dict[str, Callable[[Path, Path], None]] = {
    "link": replace_by_link,
    "folder": replace_by_folder,
    "pipe": replace_by_pipe,
}


@pytest.mark.parametrize("replace", OTHERS.values(), ids=OTHERS)
def test_something_else_under_its_name_is_left_alone(
    store: OwnStore, folder: Path, replace: Callable[[Path, Path], None]
) -> None:
    """It is named as such by every `verify`, before and after a removal, and never touched."""
    left = killed(store, folder / "b.sqlite")
    replace(left, folder)
    for _ in range(2):
        [line] = problems(store)
        assert "something else now" in line
        prune(store, folder / f"{len(list(folder.iterdir()))}.sqlite")
    assert os.path.lexists(left)
    if (folder / "precious").exists():
        assert (folder / "precious").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_left_alone(store: OwnStore, folder: Path) -> None:
    """The name alone is no proof: the file must be this user's own."""
    left = killed(store, folder / "b.sqlite")
    os.chown(left, 65_534, 65_534)
    assert "another user's" in problems(store)[0]
    prune(store, folder / "c.sqlite")
    assert left.exists()


def test_a_name_that_was_no_draft_is_left_alone(store: OwnStore, folder: Path) -> None:
    """A state file that names something else, by whatever mistake, takes nothing away."""
    precious = folder / "precious"
    precious.write_text("precious")
    with store.retention() as retention:
        state = StateDirectory(store.state).load(retention.store.identity)
        state.keep_drafts([precious, store.path])
        state.save()
    before = content(store)
    assert all("something else now" in line for line in problems(store))
    with store.retention() as retention:
        retention.prune(MONTH, only=[])
    assert precious.read_text() == "precious"
    assert content(store) == before


def test_a_folder_that_is_away_is_remembered(store: OwnStore, folder: Path) -> None:
    """A backup volume that is not mounted now may hold the leftover still."""
    left = killed(store, folder / "b.sqlite")
    shutil.move(folder, folder.with_name("elsewhere"))
    assert problems(store) == []
    with store.retention() as retention:
        retention.prune(MONTH, only=[])
    shutil.move(folder.with_name("elsewhere"), folder)
    assert str(left) in problems(store)[0]


def test_a_file_that_somebody_holds_is_kept(store: OwnStore, folder: Path) -> None:
    """What a writer has locked is growing, by whatever process, and is not taken from it."""
    left = killed(store, folder / "b.sqlite")
    with left.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert problems(store) == []
        prune(store, folder / "c.sqlite")
        assert left.exists()
    assert len(problems(store)) == 1


def test_names_that_are_no_text_are_remembered(store: OwnStore, folder: Path) -> None:
    """A folder may be called anything."""
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/\xff %41"))
    odd.mkdir(mode=0o700)
    left = killed(store, odd / "b.sqlite")
    assert str(left) in problems(store)[0]
    prune(store, folder / "c.sqlite")
    assert list(odd.iterdir()) == []


def test_names_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    """The memory of them does not grow."""
    state = StateDirectory(tmp_path).load("sqlite:/somewhere")
    state.keep_drafts([tmp_path / str(number) for number in range(MAX_DRAFTS + 3)])
    state.save()
    kept = StateDirectory(tmp_path).load("sqlite:/somewhere").drafts
    assert kept == [tmp_path / str(number) for number in range(3, MAX_DRAFTS + 3)]


def test_a_damaged_memory_is_a_fault_and_hides_none(store: OwnStore, folder: Path) -> None:
    """`verify` still checks the store, and says that it cannot know of leftovers."""
    prune(store, folder / "b.sqlite")
    [file] = store.state.glob("*.json")
    file.write_text("{")
    store.run("INSERT INTO loose VALUES ('nobody', 1)")
    found = problems(store)
    assert any("orphans" in line for line in found)
    assert any(line.startswith("state: ") for line in found)
