"""What afterrun remembers of a store: bounded, whole or not at all, and nobody else's to read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from afterrun import AfterrunError
from afterrun.core.store import Cursor
from afterrun.state import StateDirectory, StoreState
from afterrun.state.files import MAX_DEFERRALS, MAX_RECORDS, Record
from fakes import NOW

DAY = 86_400_000_000
STORE = "sqlite:/somewhere/app.sqlite"


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    """Give a state directory that does not exist yet."""
    return StateDirectory(tmp_path / "made" / "state")


def again(directory: StateDirectory, state: StoreState, now: int = NOW) -> StoreState:
    """Save a state, load it as the next sweep would, and begin that sweep."""
    state.save()
    loaded = directory.load(STORE)
    loaded.begin("sweep", now=now, fingerprint="f")
    return loaded


def record(number: int) -> Record:
    """Make a record that can be told from others."""
    return Record(at=NOW + number, command="sweep", ended="completed", fingerprint="f", removed=number)


def test_nothing_is_written_before_it_is_saved(directory: StateDirectory) -> None:
    """Looking leaves no trace."""
    state = directory.load(STORE)
    assert (state.cursor("f"), state.records, state.history("f").swept) == (None, (), False)
    assert not directory.path.exists()


def test_files_are_readable_by_nobody_else(directory: StateDirectory) -> None:
    """Ids of units that failed are in there: the folder is 0700, a file 0600, and no draft is left."""
    again(directory, directory.load(STORE)).save()
    (file,) = directory.path.iterdir()
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_stores_are_told_apart(directory: StateDirectory) -> None:
    """Each store has a file of its own, whose name tells nothing of it."""
    for number, identity in enumerate((STORE, STORE + "2", "sqlite:/\udcff")):
        state = directory.load(identity)
        state.keep_cursor("f", Cursor(0, number, 1))
        if number < 2:
            state.save()
    assert directory.load(STORE).cursor("f") == Cursor(0, 0, 1)
    assert directory.load(STORE + "2").cursor("f") == Cursor(0, 1, 1)
    assert all("app" not in file.name for file in directory.path.iterdir())


def test_the_state_directory_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given wins over the variable, and the variable over the user's own folder."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "by-variable"))
    assert StateDirectory().path == tmp_path / "by-variable"
    assert StateDirectory(tmp_path / "given").path == tmp_path / "given"
    monkeypatch.delenv("AFTERRUN_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    assert StateDirectory().path == tmp_path / "user" / "afterrun"


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"null", b'{"sweeps": 1}', b'{"identity": "x", "sweeps": "many"}', b"\xff\xfe"],
)
def test_a_damaged_file_is_an_error_that_names_it(directory: StateDirectory, damage: bytes) -> None:
    """Promise 10: what cannot be read is not taken for a store that was never seen, nor for one that was."""
    directory.load(STORE).save()
    (file,) = directory.path.iterdir()
    file.write_bytes(damage)
    with pytest.raises(AfterrunError, match="damaged") as error:
        directory.load(STORE)
    assert str(file) in str(error.value)
    assert file.read_bytes() == damage


def test_a_file_of_a_later_version_is_read(directory: StateDirectory) -> None:
    """Keys that this version does not know do no harm."""
    state = directory.load(STORE)
    state.keep_cursor("f", Cursor(1, 5, 6))
    state.save()
    (file,) = directory.path.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"later": {"a": 1}}))
    assert directory.load(STORE).cursor("f") == Cursor(1, 5, 6)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A sweep that cannot remember says so."""
    state = StateDirectory(tmp_path / "folder").load(STORE)
    (tmp_path / "folder").write_text("in the way")
    with pytest.raises(AfterrunError, match="cannot be written"):
        state.save()
    with pytest.raises(AfterrunError, match="cannot be read"):
        StateDirectory(tmp_path / "folder").load(STORE)


@pytest.mark.parametrize(
    "cursor", [None, Cursor(0, 1_767_225_600_000, 17), Cursor(1, None, None), Cursor(0, 5, "k")]
)
def test_a_cursor_survives(directory: StateDirectory, cursor: Cursor | None) -> None:
    """A sweep goes on where the last one was cut off, in whatever process."""
    state = directory.load(STORE)
    state.keep_cursor("f", cursor)
    assert again(directory, state).cursor("f") == cursor


@pytest.mark.parametrize("cursor", [Cursor(0, 5, b"key"), Cursor(0, 5, "\udcff"), Cursor(0, float("inf"), 1)])
def test_a_place_that_json_cannot_hold_is_forgotten(directory: StateDirectory, cursor: Cursor) -> None:
    """The next sweep starts from the beginning, rather than this one failing after it removed."""
    state = directory.load(STORE)
    state.keep_cursor("f", Cursor(0, 5, 6))
    state.keep_cursor("f", cursor)
    assert again(directory, state).cursor("f") is None


def test_a_cursor_is_for_the_plan_it_was_made_by(directory: StateDirectory) -> None:
    """With one pin less, what lies before the cursor may go, too."""
    state = directory.load(STORE)
    state.keep_cursor("f", Cursor(0, 5, 6))
    assert again(directory, state).cursor("g") is None


def test_a_sweep_is_on_record_before_it_removes_anything(directory: StateDirectory) -> None:
    """Promise 12: one that is killed stays on record as started, and one that ends takes that place."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    assert [(kept.command, kept.ended) for kept in directory.load(STORE).records] == [("sweep", "started")]
    killed = directory.load(STORE)
    killed.begin("prune", now=NOW + 5, fingerprint="f")
    killed.finish(record(5), finished=True, runs=None)
    assert [kept.ended for kept in killed.records] == ["started", "completed"]


def test_a_file_of_another_store_is_refused(directory: StateDirectory) -> None:
    """A state file that was copied over another's admits nothing there."""
    state = directory.load(STORE)
    state.save()
    other = directory.load(STORE + "2")
    other.save()
    first, second = sorted(directory.path.iterdir())
    second.write_bytes(first.read_bytes())
    taken = next(identity for identity in (STORE, STORE + "2") if directory.file_of(identity) == second)
    with pytest.raises(AfterrunError, match="another store"):
        directory.load(taken)


def test_a_state_file_that_is_a_pipe_keeps_nobody_waiting(directory: StateDirectory) -> None:
    """It is an error at once, also while the sweep lock is held."""
    directory.load(STORE).save()
    (file,) = directory.path.iterdir()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(AfterrunError, match="not a regular file"):
        directory.load(STORE)


def test_records_are_bounded_and_the_newest_stay(directory: StateDirectory) -> None:
    """Promise 12: every sweep leaves a record, and they do not grow for ever."""
    state = directory.load(STORE)
    for number in range(MAX_RECORDS + 5):
        state.finish(record(number), finished=True, runs=7)
    state.save()
    loaded = directory.load(STORE)
    assert [kept.removed for kept in loaded.records] == list(range(5, MAX_RECORDS + 5))
    assert (loaded.history("f").swept, loaded.history("f").runs) == (True, 7)


@pytest.mark.parametrize(("finishes", "swept"), [([False], False), ([True], True), ([True, False], True)])
def test_only_a_finished_sweep_ends_first_contact(
    directory: StateDirectory, finishes: list[bool], swept: bool
) -> None:
    """Promise 10: a guarded or failed one does not, and nothing brings first contact back."""
    state = directory.load(STORE)
    for finished in finishes:
        state.finish(record(1), finished=finished, runs=None)
    assert again(directory, state).history("f").swept is swept


def test_a_unit_that_fails_again_and_again_waits_1_2_4_sweeps(directory: StateDirectory) -> None:
    """It is tried in every sweep after 1, 2, 4, 8 ... others, however often they run."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    tried = []
    for number in range(40):
        if not state.waiting("u"):
            tried.append(number)
            state.defer("u", "timeout")
        state = again(directory, state, NOW + number)
    assert tried == [0, 1, 3, 7, 15, 31]


def test_a_unit_waits_no_longer_than_seven_days(directory: StateDirectory) -> None:
    """Where sweeps are rare, time decides."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    for _ in range(10):
        state.defer("u", "lock")
    assert again(directory, state, NOW + 7 * DAY - 1).waiting("u")
    assert not again(directory, state, NOW + 7 * DAY).waiting("u")


def test_a_unit_that_went_is_forgotten(directory: StateDirectory) -> None:
    """If the id comes back, it starts anew."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    for _ in range(5):
        state.defer("u", "lock")
    state.clear("u")
    state.clear("never there")
    assert not again(directory, state).waiting("u")


def test_deferrals_are_bounded_and_the_oldest_give_way(directory: StateDirectory) -> None:
    """A store where everything fails does not fill the disk of the one that watches it."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    for number in range(MAX_DEFERRALS + 3):
        state.defer(f"u{number}", "lock")
    assert len(state._contents.deferrals) == MAX_DEFERRALS
    assert (state.waiting("u2"), "u2" in state._contents.deferrals) == (False, False)
    assert "u3" in state._contents.deferrals


def test_an_approval_is_for_what_was_shown_last(directory: StateDirectory) -> None:
    """Promise 10: another question takes the place of the first, and an approval is used up."""
    state = directory.load(STORE)
    state.show("one", 10)
    state.show("two", 20)
    loaded = again(directory, state)
    assert (loaded.history("one").shown, loaded.history("two").shown) == (None, 20)
    loaded.allow("two", 15)
    loaded = again(directory, loaded)
    assert (loaded.history("two").shown, loaded.history("two").allowance) == (None, 15)
    loaded.allow("two", None)
    assert again(directory, loaded).history("two").allowance is None


def test_an_empty_stream_is_believed_for_seven_days(directory: StateDirectory) -> None:
    """Old rows may come back by a restored backup, so it is looked again, and at once for another schema."""
    state = directory.load(STORE)
    state.begin("sweep", now=NOW, fingerprint="f")
    state.note_empty("updated_at@125")
    assert again(directory, state, NOW + 7 * DAY - 1).stream_is_empty("updated_at@125")
    assert not again(directory, state, NOW + 7 * DAY).stream_is_empty("updated_at@125")
    assert not again(directory, state).stream_is_empty("updated_at@126")
