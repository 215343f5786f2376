"""Rows that repeat the newest row which refers to them, as Prefect's artifact collections do."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta

import pytest

from afterrun import Policy, SweepOptions
from afterrun.core.errors import ProfileError
from payloads.blob_kit import DAY_MS, HEAD, MONTH, NOW_MS, Session, Shop, between, opened

TABLES = (
    "CREATE TABLE notes (id text PRIMARY KEY, run text, topic text, said text, made bigint)",
    "CREATE INDEX notes_run ON notes (run)",
    "CREATE INDEX notes_topic ON notes (topic, made)",
    "CREATE TABLE topics (topic text PRIMARY KEY, latest text, said text, run text, size integer)",
)
PROFILE = (
    HEAD.replace("owned = [", 'owned = [{ table = "notes", column = "run" }, ')
    + """
[[blobs]]
table = "topics"
key = "topic"
size = "size"
references = [{ table = "notes", column = "topic" }]
[blobs.repeats]
table = "notes"
key = "id"
pointer = "latest"
newest = "made"
columns = ["said", "run"]
"""
)
YOUNG, OLD, OLDER = 10, 40, 50


@pytest.fixture
def board(shop: Shop) -> Shop:
    """Give a store whose runs leave notes, and a row for each topic that repeats the newest of them."""
    shop.profile.write_text(PROFILE, encoding="utf-8")
    with closing(shop.connect()) as session:
        for statement in TABLES:
            session.run(statement)
    return shop


def note(board: Shop, run: str, topic: str, days: float) -> None:
    """Let a run leave a note and end, so many days ago, as the engine does."""
    made = NOW_MS - int(days * DAY_MS)
    with closing(board.connect()) as session:
        session.run("INSERT INTO runs VALUES (?, 'done', ?, NULL, NULL)", run, made)
        session.run("DELETE FROM topics WHERE topic = ?", topic)
        session.run("INSERT INTO topics VALUES (?, ?, ?, ?, 5)", topic, f"n-{run}", f"by {run}", run)
        session.run("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", f"n-{run}", run, topic, f"by {run}", made)


def topics(board: Shop) -> dict[str, tuple[str, str, str]]:
    """Return what the row of each topic says: the note, its text and its run."""
    with closing(board.connect()) as session:
        rows = session.run("SELECT topic, latest, said, run FROM topics ORDER BY topic")
    return {topic: (latest, said, run) for topic, latest, said, run in rows}


def said(run: str) -> tuple[str, str, str]:
    """Return what the row of a topic says whose newest note is of this run."""
    return (f"n-{run}", f"by {run}", run)


def test_the_newest_that_is_left_takes_the_place_of_one_that_goes(board: Shop) -> None:
    """Older notes of runs that stay are repeated from then on, also where more than one goes at once."""
    note(board, "pinned-1", "both", OLDER + 1)
    note(board, "pinned-2", "both", OLDER)
    note(board, "goes-1", "both", OLD + 1)
    note(board, "goes-2", "both", OLD)
    policy = Policy(keep_for=timedelta(days=30), pins=frozenset({"pinned-1", "pinned-2"}))
    planned, report = _pruned(board, policy)
    assert topics(board) == {"both": said("pinned-2")}
    assert planned == report == {"notes": 2, "runs": 2}


def test_a_row_goes_with_the_last_that_it_repeats(board: Shop) -> None:
    """A plan counts it, whatever the order in which the runs go."""
    note(board, "first", "gone", OLDER)
    note(board, "last", "gone", OLD)
    note(board, "other", "stays", YOUNG)
    planned, report = _pruned(board, MONTH)
    assert topics(board) == {"stays": said("other")}
    assert planned == report == {"notes": 2, "runs": 2, "topics": 1}


def test_what_repeats_another_row_does_not_change(board: Shop) -> None:
    """Where only older notes go, nothing is written."""
    note(board, "old", "topic", OLD)
    note(board, "young", "topic", YOUNG)
    with closing(board.connect()) as session:
        session.run("UPDATE topics SET said = 'as edited'")
    _pruned(board, MONTH)
    assert topics(board) == {"topic": ("n-young", "as edited", "young")}


def test_a_row_that_leads_nowhere_for_another_reason_stays_so(board: Shop) -> None:
    """Only topics of removed notes are looked at."""
    note(board, "young", "topic", YOUNG)
    note(board, "old", "other", OLD)
    with closing(board.connect()) as session:
        session.run("UPDATE topics SET latest = 'nowhere' WHERE topic = 'topic'")
    _pruned(board, MONTH)
    assert topics(board)["topic"][0] == "nowhere"


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_a_topic_that_a_writer_holds_is_waited_for(board: Shop) -> None:
    """What the writer commits meanwhile is the newest, and is not taken for one that is missing."""
    note(board, "pinned", "topic", OLDER)
    note(board, "goes", "topic", OLD)
    policy = Policy(keep_for=timedelta(days=30), pins=frozenset({"pinned"}))
    with closing(board.connect()) as writer, opened(board) as retention:
        writer.run("BEGIN")
        writer.run("UPDATE topics SET latest = 'n-new', said = 'by new', run = 'new'")
        writer.run("INSERT INTO notes VALUES ('n-new', 'new', 'topic', 'by new', ?)", NOW_MS)
        ending = threading.Thread(target=_commit_once_waited_for, args=(board, writer))
        with between(retention.store, "before", r"(?s)FROM .*topics.*FOR UPDATE\s*$", ending.start) as met:
            report = retention.prune(policy, options=SweepOptions(offline=True))
        ending.join()
        assert (len(met), report.units.removed) == (1, 1)
    assert topics(board) == {"topic": said("new")}


def _commit_once_waited_for(board: Shop, writer: Session) -> None:
    """Commit as soon as another transaction waits for this one."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with closing(board.connect()) as observer:
        while not observer.run(waiting):
            pass
    writer.run("COMMIT")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('pointer = "latest"', 'pointer = "latst"', "has no column latst"),
        ('newest = "made"', 'newest = "mad"', "has no column mad"),
        ('columns = ["said", "run"]', 'columns = ["size"]', "the table notes has no column size"),
        ('table = "notes"\nkey', 'table = "steps"\nkey', "the one column of steps"),
    ],
)
def test_names_of_what_is_repeated_are_checked(board: Shop, old: str, new: str, told: str) -> None:
    """As all names of a profile."""
    assert old in PROFILE
    board.profile.write_text(PROFILE.replace(old, new), encoding="utf-8")
    with pytest.raises(ProfileError) as caught, opened(board):
        pass
    assert told in str([str(caught.value), *caught.value.problems])


def _pruned(board: Shop, policy: Policy) -> tuple[dict[str, int], dict[str, int]]:
    """Plan and prune; return the rows by table of both, those of which nothing went left out."""
    with opened(board) as retention:
        planned = retention.plan(policy)
        report = retention.prune(policy, options=SweepOptions(offline=True))
        assert report.ended == "completed"
        assert list(retention.verify()) == []
    told = [{table: rows for table, rows in part.rows.items() if rows} for part in (planned, report)]
    return told[0], told[1]
