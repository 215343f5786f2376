"""The end of a run as the newest among rows of another table: verdicts, pages, counts and the recheck."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun import Budget, Policy, SweepOptions
from afterrun.core.errors import ProfileError
from afterrun.core.store import Cursor
from afterrun.stores import open_store
from afterrun.stores.sql import candidates
from afterrun.stores.sql.store import SqlStore
from ends.jobs import (
    MONTH,
    NEWEST,
    OWN,
    Job,
    fill,
    left,
    make,
    open_jobs,
    prune,
    verdicts,
)
from generations.loops import NOW_MS, Loops, SqliteLoops, days_ago
from sql_kit import FAR, pages

SECONDS_MS = 1_000


def test_the_newest_event_is_the_end(store: Loops) -> None:
    """One recent event among old ones keeps a job; without a time, none is known to be old."""
    make(store)
    fill(
        store,
        [
            Job(1, events=[90, 40, 60]),
            Job(2, events=[90, 2, 60]),
            Job(3, events=[]),
            Job(4, events=[None]),
            Job(5, events=[None, 40]),
            Job(6, events=[90], status="running"),
            Job(7, events=[40, -3]),
            Job(8, events=[40], planned=[-300, 1]),
            Job(9, events=[], planned=[40]),
        ],
    )
    assert verdicts(store, *range(1, 10)) == {
        1: "expired",
        2: "recent keep-for",
        3: "blocked unknown-end-time",
        4: "blocked unknown-end-time",
        5: "expired",
        6: "protected live-member",
        7: "blocked future-end-time",
        8: "expired",
        9: "blocked unknown-end-time",
    }
    report = prune(store)
    assert report.units.removed == 3
    assert left(store) == {2, 3, 4, 6, 7, 9}


@pytest.mark.parametrize("at", ["5", "0", "1600000000"])
def test_one_event_with_a_time_that_makes_no_sense_keeps_its_job(store: Loops, at: str) -> None:
    """Promise 3: seconds in a column of milliseconds may be newer than all the others."""
    make(store)
    fill(store, [Job(1, events=[40, 50])])
    store.run(f"INSERT INTO events VALUES (99, 1, 'step', {at})")
    assert verdicts(store, 1) == {1: "blocked unreadable-end-time"}
    assert prune(store).units.removed == 0


def test_text_among_numbers_keeps_its_job(tmp_path: Path) -> None:
    """Promise 3: SQLite holds any value in any column."""
    store = SqliteLoops(tmp_path)
    make(store)
    fill(store, [Job(1), Job(2)])
    store.run("INSERT INTO events VALUES (99, 1, 'step', 'long ago')")
    assert verdicts(store, 1, 2) == {1: "blocked unreadable-end-time", 2: "expired"}
    prune(store)
    assert left(store) == {1}


def test_a_tree_ends_with_the_latest_event_of_any_member(store: Loops) -> None:
    """A finished parent waits for its child, which may have ended later, or not at all."""
    make(store)
    fill(store, [Job(1, events=[90]), Job(2, events=[2], parent=1)])
    fill(store, [Job(3, events=[90]), Job(4, events=[40], parent=3), Job(5, events=[80], parent=4)])
    fill(store, [Job(6), Job(7, parent=6, status="waiting"), Job(8, parent=99)])
    assert verdicts(store, 1, 5, 6, 8) == {
        1: "recent keep-for",
        5: "expired",
        6: "protected live-member",
        8: "expired",
    }
    prune(store)
    assert left(store) == {1, 2, 6, 7}


def test_a_column_of_its_own_comes_first_where_it_is_listed_first(store: Loops) -> None:
    """The first source that is not NULL decides; each job is met in one stream."""
    make(store, OWN, NEWEST)
    fill(store, [Job(1, ended=2, events=[90]), Job(2, ended=40, events=[1]), Job(3, events=[90]), Job(4)])
    fill(store, [Job(5, events=[1])])
    assert verdicts(store, 1, 2, 3, 5) == {
        1: "recent keep-for",
        2: "expired",
        3: "expired",
        5: "recent keep-for",
    }
    prune(store)
    assert left(store) == {1, 5}


def test_events_come_first_where_they_are_listed_first(store: Loops) -> None:
    """The other order: the job's own column counts only where no event has a time."""
    make(store, NEWEST, OWN)
    store.run("CREATE INDEX jobs_ended ON jobs (ended)")
    fill(store, [Job(1, ended=2, events=[90]), Job(2, ended=90, events=[1]), Job(3, ended=90, events=[])])
    fill(store, [Job(4, ended=1, events=[])])
    assert verdicts(store, 1, 2, 3, 4) == {
        1: "expired",
        2: "recent keep-for",
        3: "expired",
        4: "recent keep-for",
    }
    prune(store)
    assert left(store) == {2, 4}


@pytest.mark.parametrize(
    "ends", [(NEWEST,), (OWN, NEWEST), (NEWEST, OWN)], ids=["rows", "own first", "own last"]
)
def test_pages_are_cut_from_windows_and_miss_none(
    store: Loops, ends: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 3: one scan reads a window of keys; many jobs of one instant, and the cursor always grows."""
    monkeypatch.setattr(candidates, "WINDOW", 70)
    make(store, *ends)
    fill(store, [Job(number, events=[40 + number % 7]) for number in range(300)])
    fill(store, [Job(1_000 + number, events=[], ended=40 + number % 3) for number in range(60)])
    opened = opened_store(store)
    scans = opened.candidates._read
    looks: list[Cursor] = []

    def read(cursor: Cursor, cutoff: int, limit: int) -> object:
        looks.append(cursor)
        return scans(cursor, cutoff, limit)

    monkeypatch.setattr(opened.candidates, "_read", read)
    streams = range(len(opened.streams()))
    found = [[key for page in pages(opened, stream=n, cutoff=FAR, limit=20) for key in page] for n in streams]
    opened.close()
    by_events = found[ends.index(NEWEST)]
    assert sorted(by_events) == list(range(300))
    assert sorted(key for keys in found for key in keys) == [
        *range(300),
        *(range(1_000, 1_060) if OWN in ends else ()),
    ]
    assert [key % 7 for key in by_events] == sorted((key % 7 for key in by_events), reverse=True)
    assert len(looks) <= len(found) * (1 + 360 // 70)


def test_a_budget_goes_on_where_it_stopped(store: Loops) -> None:
    """The cursor is an instant and a key: the next sweep takes up there, and in the end all is gone."""
    make(store)
    fill(store, [Job(number, events=[50]) for number in range(100)])
    fill(store, [Job(number, events=[2]) for number in range(100, 110)])
    options = SweepOptions(offline=True, budget=Budget(units=40))
    removed = []
    for _ in range(3):
        with open_jobs(store) as retention:
            report = retention.sweep(MONTH, options=options, always=True)
        removed.append((report.ended, report.units.removed, report.backlog_after))
    assert removed == [("budget", 40, 60), ("budget", 40, 20), ("completed", 20, 0)]
    assert left(store) == set(range(100, 110))


def test_the_newest_of_a_group_are_told_by_their_events(store: Loops) -> None:
    """`keep_last` ranks by the newest event, not by key."""
    make(store)
    fill(store, [Job(1, events=[31]), Job(2, events=[99]), Job(3, events=[50]), Job(4, events=[32, 98])])
    fill(store, [Job(5, events=[70], name="other")])
    assert prune(store, Policy(keep_last=2, group_by=("name",))).units.removed == 2
    assert left(store) == {1, 4, 5}


def test_an_event_that_came_later_is_seen_by_the_recheck(store: Loops) -> None:
    """Promise 2: inside the transaction the end is read again."""
    make(store)
    fill(store, [Job(1), Job(2)])
    with open_jobs(store) as retention:
        opened = retention.store
        assert isinstance(opened, SqlStore)
        units = opened.units([1, 2])
        store.run(f"INSERT INTO events VALUES (99, 1, 'retried', {NOW_MS})")
        with opened.transaction(seconds=5) as batch:
            fresh = {unit.key: unit.end for unit in batch.units(units)}
    assert fresh == {1: NOW_MS * SECONDS_MS, 2: (days_ago(40) or 0) * SECONDS_MS}


def test_a_page_is_judged_by_the_events_of_its_moment(store: Loops) -> None:
    """A retry between the plan and the removal keeps the job."""
    make(store)
    fill(store, [Job(1), Job(2)])
    with open_jobs(store) as retention:
        assert retention.plan(MONTH).units.expired == 2
        store.run(f"INSERT INTO events VALUES (99, 1, 'retried', {NOW_MS})")
        assert retention.prune(MONTH, options=SweepOptions(offline=True)).units.removed == 1
    assert left(store) == {1}


def test_a_link_that_the_database_empties_holds_nothing(store: Loops) -> None:
    """A tick stays and loses its job: the key has SET NULL, and the profile knows of it."""
    make(store)
    fill(store, [Job(1), Job(2, events=[1])])
    store.run("INSERT INTO ticks VALUES ('nightly', 1), ('hourly', 2)")
    assert prune(store).units.removed == 1
    assert sorted(store.rows("SELECT task, job FROM ticks")) == [("hourly", 2), ("nightly", None)]


def test_the_same_link_holds_its_job_while_the_profile_does_not_know_it(store: Loops) -> None:
    """What an unknown table would lose is not known."""
    make(store)
    fill(store, [Job(1), Job(2)])
    store.run("INSERT INTO ticks VALUES ('nightly', 1)")
    path = store.folder / "jobs.toml"
    path.write_text(path.read_text().replace('unlinked = [{ table = "ticks", column = "job" }]', ""))
    assert verdicts(store, 1, 2) == {1: "blocked unknown-reference:ticks", 2: "expired"}


def test_the_clock_is_compared_with_the_events(store: Loops) -> None:
    """`seen` may be rows of another table, too: the newest credible time of the store is known by them."""
    make(store)
    fill(store, [Job(1, events=[40, 3]), Job(2, events=[90, -50])])
    opened = opened_store(store)
    newest = opened.newest(NOW_MS * SECONDS_MS)
    opened.close()
    assert newest == (days_ago(3) or 0) * SECONDS_MS


def test_a_store_without_a_version_is_read_by_its_shape(store: Loops) -> None:
    """Without a version, another shape is another schema, of which nothing is removed."""
    make(store)
    fill(store, [Job(1)])
    store.run("ALTER TABLE events ADD COLUMN note TEXT")
    with open_jobs(store, writable=False) as retention:
        told = retention.store.schema()
        assert (told.read, len(told.problems)) == (False, 1)
        assert "was never read" in told.problems[0]
        assert retention.plan(MONTH).units.expired == 1


def test_events_that_no_index_finds_are_refused(store: Loops) -> None:
    """Each job would take a look at all events, at every step of a sweep; the message says what helps."""
    make(store)
    store.run("DROP INDEX events_job")
    with pytest.raises(ProfileError) as caught:
        open_jobs(store)
    (told,) = caught.value.problems
    assert told == (
        "no index serves events (job), so the time of each run would take a look at all of events: its owner "
        "should index this column"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('column = "at"', 'column = "att"', "the table events has no column att (did you mean 'at'?)"),
        ('job = "id"', 'jobb = "id"', "the table events has no column jobb (did you mean 'job'?)"),
        ('job = "id"', 'job = "idd"', "the table jobs has no column idd (did you mean 'id'?)"),
        ("{ kind =", "{ kin =", "the table events has no column kin (did you mean 'kind'?)"),
        (
            'rows = { table = "events"',
            'rows = { table = "event"',
            "there is no table event (did you mean 'events'?)",
        ),
    ],
)
def test_names_that_do_not_exist_are_told(store: Loops, old: str, new: str, told: str) -> None:
    """Every name of the source is compared with the real schema."""
    make(store)
    path = store.folder / "jobs.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ProfileError) as caught:
        open_jobs(store)
    assert told in caught.value.problems


def test_a_time_among_rows_is_told_by_its_table(store: Loops) -> None:
    """A plan says that every sweep reads all runs, and names the column with its table."""
    make(store)
    with open_jobs(store, writable=False) as retention:
        notices = retention.store.schema().notices
    assert "no index serves events.at, so every sweep reads all runs" in notices


def test_every_view_of_a_store_agrees(store: Loops) -> None:
    """Inspection groups the same jobs by the same ends as a plan counts."""
    make(store)
    fill(store, [Job(number, events=[10 * number + 1, 95]) for number in range(1, 9)])
    fill(store, [Job(20, events=[]), Job(21, status="running", events=[80]), Job(22, events=[-9])])
    with open_jobs(store, writable=False) as retention:
        plan = retention.plan(MONTH)
        opened = retention.store
        assert isinstance(opened, SqlStore)
        found = opened.standings(NOW_MS * SECONDS_MS)
        days = opened.kept_by_day(cutoff=None, now=NOW_MS * SECONDS_MS)
    old = sum(
        part.count for part in found if part.end == "known" and part.days >= 30 and part.status == "done"
    )
    assert old == plan.units.expired == 6
    assert {part.end: part.count for part in found if part.end.startswith(("un", "fut"))} == {
        "unknown-end-time": 1,
        "future-end-time": 1,
    }
    assert [part.age for part in found if part.status == "running"] == ["stale"]
    assert sum(days.values()) == 8


def opened_store(store: Loops) -> SqlStore:
    """Open it for reading."""
    return open_store(store.location, profile=str(store.folder / "jobs.toml"))
