"""Records of sweeps that could not open their store: by location, without a password, one for those alike."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from afterrun import Refused, Retention, StoreLocked, StoreUnreadable, UsageError
from afterrun.state import StateDirectory, SweepLock
from afterrun.state.attempts import Attempts, failure_word
from afterrun.state.files import MAX_RECORDS, Record
from afterrun.stores.place import place_of
from cli.kit import make_store
from fakes import NOW

SECRET = "s3cret"  # noqa: S105 - it opens nothing
SERVER = f"postgresql://someone:{SECRET}@host:5432/db"
GONE = StoreUnreadable("there is no file")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a.db", "./x/../a.db", True),
        ("a.db", "sqlite:///a.db", True),
        ("a.db", "b.db", False),
        (SERVER, "postgresql://host:5432/db", True),
        (SERVER, "postgresql+psycopg://other:x@host:5432/db?connect_timeout=3", True),
        (SERVER, "postgres://host:5432/db", True),
        (SERVER, "postgresql://host:5433/db", False),
        (SERVER, "postgresql://host:5432/db?schema=a", False),
        ("postgresql://h/db?schema=a", "postgresql://u@h/db?schema=a&sslmode=require", True),
    ],
)
def test_two_locations_of_one_store_have_one_place(one: str, other: str, same: bool) -> None:
    """User, password and ways to connect make no difference; where and what it is does."""
    assert (place_of(one) == place_of(other)) is same
    assert SECRET not in place_of(one) + place_of(other)


def test_the_place_of_a_file_is_what_names_it_when_it_is_open(tmp_path: Path) -> None:
    """So its records are found by one name, whether it can be opened or not; links are followed."""
    store = make_store(tmp_path / "store.sqlite")
    (tmp_path / "link.sqlite").symlink_to(store)
    with Retention(str(store), state=tmp_path, writable=False) as retention:
        assert place_of(str(tmp_path / "link.sqlite")) == retention.store.identity


@pytest.mark.parametrize("location", ["a\0b", "postgresql://h:port/db", "://"])
def test_what_can_be_no_location_is_refused(location: str) -> None:
    """As it would be when it is opened."""
    with pytest.raises(UsageError):
        place_of(location)


def test_attempts_that_failed_alike_are_one_record(tmp_path: Path) -> None:
    """The last time and the number; another failure begins a record of its own."""
    attempts = Attempts(str(tmp_path / "gone.db"), state=tmp_path / "state")
    for number, error in enumerate([GONE, GONE, Refused("schema", "x"), GONE]):
        attempts.note(error, at=NOW + number)
    told = [(record.ended, record.why, record.attempts, record.at - NOW) for record in attempts.records()]
    assert told == [
        ("failed", "StoreUnreadable", 2, 1),
        ("refused", "schema", 1, 2),
        ("failed", "StoreUnreadable", 1, 3),
    ]


def test_a_sweep_in_between_keeps_its_own_record(tmp_path: Path) -> None:
    """What began is never joined with what did not."""
    attempts = Attempts(str(tmp_path / "gone.db"), state=tmp_path / "state")
    attempts.note(GONE, at=NOW)
    state = StateDirectory(tmp_path / "state").load(place_of(str(tmp_path / "gone.db")))
    state.begin("sweep", now=NOW + 1, fingerprint="f")
    state.abandon("failed", why="StoreUnreadable")
    attempts.note(GONE, at=NOW + 2)
    assert [record.fingerprint for record in attempts.records()] == ["", "f", ""]


def test_records_of_attempts_are_bounded(tmp_path: Path) -> None:
    """A store that fails in turns for weeks does not fill the disk."""
    attempts = Attempts(SERVER, state=tmp_path / "state")
    for number in range(MAX_RECORDS + 5):
        attempts.note(GONE if number % 2 else OSError(5, "io"), at=NOW + number)
    assert len(attempts.records()) == MAX_RECORDS
    assert attempts.records()[-1].at == NOW + MAX_RECORDS + 4


def test_the_records_of_a_server_are_joined_with_those_of_its_database(tmp_path: Path) -> None:
    """Once it answers, what it is called inside is known: both come in the order of time."""
    attempts = Attempts(SERVER, state=tmp_path)
    attempts.note(GONE, at=NOW + 1)
    state = StateDirectory(tmp_path).load("cluster-1/db/public")
    for at in (NOW, NOW + 2):
        state.finish(
            Record(at=at, command="sweep", ended="completed", fingerprint="f"), finished=True, runs=None
        )
    state.save()
    joined = attempts.records(identity="cluster-1/db/public")
    assert [(record.ended, record.at - NOW) for record in joined] == [
        ("completed", 0),
        ("failed", 1),
        ("completed", 2),
    ]


def test_no_file_of_the_state_directory_holds_a_password(tmp_path: Path) -> None:
    """And nobody else may read it."""
    Attempts(SERVER, state=tmp_path / "state").note(GONE, at=NOW)
    (file,) = (tmp_path / "state").iterdir()
    assert SECRET not in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_who_sweeps_a_store_writes_its_records(tmp_path: Path) -> None:
    """While another process holds a file's sweep lock, nothing is written over its record."""
    store = tmp_path / "broken.db"
    store.write_bytes(b"junk")
    attempts = Attempts(str(store), state=tmp_path / "state")
    with SweepLock(store), pytest.raises(StoreLocked):
        attempts.note(GONE, at=NOW)
    assert not (tmp_path / "state").exists()
    attempts.note(GONE, at=NOW)
    assert len(attempts.records()) == 1


def test_a_missing_store_gets_no_lock_beside_it(tmp_path: Path) -> None:
    """Looking for a store leaves nothing where it is not, and a folder that is not there is no error."""
    for name in ("gone.db", "no/such/folder.db"):
        attempts = Attempts(str(tmp_path / name), state=tmp_path / "state")
        attempts.note(GONE, at=NOW)
        assert len(attempts.records()) == 1
    assert os.listdir(tmp_path) == ["state"]  # noqa: PTH208 - names are all that is wanted


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (GONE, "StoreUnreadable"),
        (Refused("unknown-status", "x"), "unknown-status"),
        (FileNotFoundError(2, "/a/path"), "FileNotFoundError"),
        (KeyError("an id"), "KeyError"),
    ],
)
def test_a_failure_is_a_word(error: Exception, word: str) -> None:
    """Which tells nothing of the store."""
    assert failure_word(error) == word
