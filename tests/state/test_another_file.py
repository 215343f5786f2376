"""A path at which another database lies than the one that was swept: it is a store of first contact again."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Budget, Policy, Report, SweepOptions
from afterrun.core.space import ReclaimOptions
from afterrun.core.store import Cursor
from afterrun.state import StateDirectory, StoreState
from afterrun.state.files import MAX_SUBJECTS
from dumps import Row
from fakes import NOW, stand_still
from own_store import RUNS, own_store
from sites import NOW_MS, OLD_MS, SqliteSite, fill, keys, live, run

MONTH = Policy(keep_for=timedelta(days=30))
NEVER_SEEN = "no sweep of this store is on record yet"


def expired(count: int, name: str) -> list[Row]:
    """Make roots that can go."""
    return [run(f"{name}{number}", completed_at=OLD_MS + number) for number in range(count)]


def young(count: int, name: str) -> list[Row]:
    """Make roots that stay."""
    return [run(f"{name}{number}", completed_at=NOW_MS, created_at=NOW_MS) for number in range(count)]


@pytest.fixture
def trusted(sqlite_site: SqliteSite) -> SqliteSite:
    """Make a store whose sweeps run by themselves, with runs that stay and some that can go."""
    fill(sqlite_site, [live("now", created_at=NOW_MS), *young(20, "young"), *expired(2, "first")])
    assert sqlite_site.retention.sweep(MONTH, always=True).units.removed == 2
    fill(sqlite_site, expired(5, "old"))
    return sqlite_site


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """Make another database of the same engine."""
    other = SqliteSite(tmp_path / "stranger.sqlite")
    fill(other, [live("its-own", created_at=NOW_MS), *young(20, "its-young"), *expired(30, "its")])
    other.retention.close()
    return other.path


def again(site: SqliteSite, put: Callable[[], object]) -> SqliteSite:
    """Close the store, do something with its file, and open what is there then."""
    site.retention.close()
    put()
    site.open()
    return site


def sweep(site: SqliteSite) -> Report:
    """Sweep as a timer does."""
    return site.retention.sweep(MONTH)


def state_of(site: SqliteSite) -> StoreState:
    """Return what is remembered."""
    return site.retention._state.load(site.store.identity)


def test_the_same_file_is_known(trusted: SqliteSite) -> None:
    """Opened again, written to and compacted in place, it is still the store that was swept."""
    assert sweep(again(trusted, lambda: None)).units.removed == 5
    fill(trusted, [*expired(3, "more"), *young(40, "newer")])
    trusted.retention.reclaim(ReclaimOptions(rest=0.0))
    assert sweep(again(trusted, lambda: None)).units.removed == 3


@pytest.mark.parametrize("way", ["moved", "copied over"])
def test_another_database_is_asked_about(trusted: SqliteSite, stranger: Path, way: str) -> None:
    """Promise 10: whether it took the name or the very file, nothing goes, and the message says why."""
    put = shutil.move if way == "moved" else shutil.copyfile
    report = sweep(again(trusted, lambda: put(stranger, trusted.path)))
    assert (report.ended, report.units.expired, report.units.removed) == ("guard", 30, 0)
    assert ("another file" if way == "moved" else "copied over it") in report.message
    assert NEVER_SEEN in report.message
    assert sweep(trusted).message == report.message  # as long as nobody answers
    assert len(keys(trusted)) == 51


def test_an_approval_makes_it_known(trusted: SqliteSite, stranger: Path) -> None:
    """Promise 10: asked and answered once, the file that is there now is the store."""
    again(trusted, lambda: shutil.move(stranger, trusted.path))
    assert trusted.retention.sweep(MONTH, approve=sweep(trusted).fingerprint).units.removed == 30
    fill(trusted, expired(3, "more"))
    report = sweep(again(trusted, lambda: None))
    assert (report.ended, report.units.removed) == ("completed", 3)
    assert state_of(trusted).replaced == ""


def test_a_person_who_prunes_has_looked(trusted: SqliteSite, stranger: Path) -> None:
    """A manual removal is its own approval, of this file too."""
    again(trusted, lambda: shutil.move(stranger, trusted.path))
    assert trusted.retention.prune(MONTH).units.removed == 30
    fill(trusted, expired(3, "more"))
    assert sweep(trusted).units.removed == 3


def test_an_approval_of_one_file_serves_no_other(sqlite_site: SqliteSite, stranger: Path) -> None:
    """Promise 10: what was shown of the first is no answer for the second, with the same policy."""
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(40, "old")])
    shown = sweep(sqlite_site).fingerprint
    again(sqlite_site, lambda: shutil.move(stranger, sqlite_site.path))
    report = sqlite_site.retention.sweep(MONTH, approve=shown)
    assert (report.ended, report.units.removed, report.fingerprint) == ("guard", 0, shown)


def test_a_copy_that_was_put_back_is_asked_about(trusted: SqliteSite) -> None:
    """A backup that somebody restored has runs again that a sweep would take the same night."""
    kept = trusted.path.with_suffix(".kept")
    with closing(sqlite3.connect(trusted.path)) as connection:
        connection.execute("VACUUM INTO ?", (str(kept),))
    assert sweep(trusted).units.removed == 5
    report = sweep(again(trusted, lambda: kept.rename(trusted.path)))
    assert (report.ended, report.units.removed) == ("guard", 0)
    assert "a backup that was put back" in report.message
    assert len(keys(trusted)) == 26


def test_nothing_of_the_first_is_remembered_for_the_second(trusted: SqliteSite, stranger: Path) -> None:
    """Cursor, deferrals, allowance and the last sweep's time are of the other file; the records stay."""
    state = state_of(trusted)
    state.now = NOW
    plan = trusted.retention.plan(MONTH).fingerprint
    state.keep_cursor(plan, Cursor(0, NOW_MS, 5))
    state.defer("its3", "timeout")
    state.defer("its3", "timeout")
    state.allow(plan, 500)
    state.save()
    assert state.last_completed is not None
    records = state.records
    again(trusted, lambda: shutil.move(stranger, trusted.path))
    assert sweep(trusted).ended == "guard"
    state = state_of(trusted)
    assert state.cursor(plan) is None
    assert (state.history(plan).allowance, state.history(plan).swept) == (None, False)
    assert (state.last_completed, state.waiting("its3")) == (None, False)
    assert state.records[: len(records)] == records


def test_the_backlog_of_another_file_is_no_measure(trusted: SqliteSite, stranger: Path) -> None:
    """Whether sweeps gain on the inflow is not judged by what an earlier file had left."""
    one = SweepOptions(budget=Budget(units=1))
    trusted.retention.sweep(MONTH, options=one)
    assert trusted.retention.sweep(MONTH, options=one).gaining is not None
    again(trusted, lambda: shutil.move(stranger, trusted.path))
    stand_still(trusted.retention, NOW + 1)
    assert trusted.retention.sweep(MONTH, options=one, always=True).gaining is None
    assert trusted.retention.sweep(MONTH, options=one, always=True).gaining is not None


def test_a_file_that_lost_its_newest_runs_is_asked_about(trusted: SqliteSite) -> None:
    """If all that was known of it is gone, nobody can tell whether it is the same."""
    for key in keys(trusted):
        if not str(key).startswith("old"):
            trusted.drop(key)
    report = sweep(trusted)
    assert (report.ended, report.units.removed) == ("guard", 0)
    assert "somebody else has removed them" in report.message


def test_one_or_two_runs_are_too_few_to_know_a_file_by(sqlite_site: SqliteSite) -> None:
    """That they are gone says nothing: an engine may have removed them."""
    fill(sqlite_site, young(2, "young"))
    assert sqlite_site.retention.sweep(MONTH, always=True).ended == "completed"
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(2, "old")])
    sqlite_site.drop("young0")
    sqlite_site.drop("young1")
    assert sweep(sqlite_site).units.removed == 2


def test_one_run_that_is_still_there_is_enough(trusted: SqliteSite) -> None:
    """An engine may remove its own runs; the newest go last."""
    for key in keys(trusted):
        if str(key) not in {"young7", "old1", "now"}:
            trusted.drop(key)
    assert sweep(trusted).units.removed == 1


def test_an_empty_store_is_known_by_its_file(sqlite_site: SqliteSite, stranger: Path) -> None:
    """Where there was no run to remember, the file itself still tells."""
    assert sqlite_site.retention.sweep(MONTH, always=True).ended == "completed"
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(2, "x")])
    assert sweep(sqlite_site).units.removed == 2
    for key in keys(sqlite_site):
        sqlite_site.drop(key)
    sqlite_site.retention.prune(MONTH)
    again(sqlite_site, lambda: shutil.move(stranger, sqlite_site.path))
    assert sweep(sqlite_site).ended == "guard"


def test_a_sweep_that_takes_every_known_run_knows_the_next(sqlite_site: SqliteSite) -> None:
    """What a sweep itself removes is no sign of another file."""
    fill(sqlite_site, expired(20, "a"))
    assert sqlite_site.retention.sweep(MONTH, always=True).units.removed == 20
    fill(sqlite_site, [live("now", created_at=NOW_MS), *expired(20, "b")])
    assert sweep(sqlite_site).units.removed == 20


def test_a_memory_from_before_is_taken_on(trusted: SqliteSite) -> None:
    """A state file that knows no marks yet is believed once, and has them afterwards."""
    state = state_of(trusted)
    state._contents.file, state._contents.newest = "", {}
    state.save()
    assert sweep(trusted).units.removed == 5
    assert state_of(trusted).marks("dbos:workflow_status").file == str(trusted.path.stat().st_ino)


def test_two_engines_in_one_file_do_not_take_each_other_for_another(tmp_path: Path) -> None:
    """Each is known by its own runs, whoever was swept last."""
    store = own_store(tmp_path, RUNS)
    store.run(
        f"CREATE TABLE others (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);"
        f"CREATE INDEX others_ended ON others (ended);"
        f"INSERT INTO runs VALUES ('a', 'done', {OLD_MS}, NULL), ('stays', 'running', NULL, NULL);"
        f"INSERT INTO others VALUES ('b', 'done', {OLD_MS}, NULL), ('stays too', 'running', NULL, NULL);"
    )
    text = store.profile.read_text(encoding="utf-8")
    second = store.profile.with_name("second.toml")
    second.write_text(text.replace('name = "own"', 'name = "second"').replace('"runs"', '"others"'), "utf-8")
    other = type(store)(store.path, second, store.state)
    for place in (store, other, store, other):
        with place.retention() as retention:
            assert retention.prune(MONTH).ended == "completed"
            retention_state = retention._state.load(retention.store.identity)
    assert retention_state.replaced == ""
    assert retention_state.since is None


def test_what_is_known_of_engines_is_bounded(tmp_path: Path) -> None:
    """The memory does not grow with profiles that were tried once."""
    state = StateDirectory(tmp_path).load("sqlite:/somewhere")
    for number in range(MAX_SUBJECTS + 3):
        state.keep_marks(f"profile {number}", state.marks("x")._replace(file="1", runs=("a",)))
    assert len(state._contents.newest) == MAX_SUBJECTS
    assert state.marks(f"profile {MAX_SUBJECTS + 2}").runs == ("a",)
    assert state.marks("profile 0").runs == ()


def test_hostile_ids_are_remembered_as_they_are(sqlite_site: SqliteSite) -> None:
    """Ids of any spelling tell a file, and those that nobody can ask for are left out."""
    odd = ["\u202eexe", "o'neil", "5", "{}", " "]
    fill(sqlite_site, [live(key, created_at=NOW_MS) for key in odd])
    sqlite_site.add("workflow_status", live(b"\xff", created_at=NOW_MS), live("a\0b", created_at=NOW_MS))
    sqlite_site.retention.sweep(MONTH, always=True)
    assert set(state_of(sqlite_site).marks("dbos:workflow_status").runs) == set(odd)
    fill(sqlite_site, expired(1, "x"))
    assert sweep(sqlite_site).units.removed == 1
