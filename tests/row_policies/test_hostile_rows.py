"""Row tables with keys, names and times that nobody expects: nothing is taken for another row, or for old."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from generations.loops import SqliteLoops
from row_policies.tables import PROFILE, Shop, ago, keep, make, policy, written


@pytest.fixture
def file(tmp_path: Path) -> Shop:
    """Give an empty store in a file."""
    store = SqliteLoops(tmp_path)
    make(store)
    return Shop(store)


def remade(shop: Shop, table: str, script: str, *changes: tuple[str, str]) -> None:
    """Make one table anew, and change the profile."""
    shop.store.run(f"DROP TABLE {table}", script)
    text = PROFILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (shop.store.folder / "shop.toml").write_text(text, encoding="utf-8")


def test_keys_that_are_no_plain_text_stay(file: Shop) -> None:
    """Bytes, text that is no UTF-8, fractions and NULL can be no parameter: such rows stay, and are told."""
    remade(file, "events", "CREATE TABLE events (id PRIMARY KEY, occurred TEXT, kind TEXT)")
    with closing(sqlite3.connect(file.store.location)) as connection, connection:
        rows = [(key, written(30), "x") for key in (b"bytes", 1.5, None, "text", 7)]
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        connection.execute("INSERT INTO events VALUES (CAST(x'ff' AS TEXT), ?, 'x')", (written(30),))
        connection.execute("DROP TABLE event_parts")
        connection.execute("CREATE TABLE event_parts (event, number)")
    plan, done = file.both(policy(events=keep(7)))
    assert plan.kinds["row:events"].blocked == {"unreadable-key": 4}
    assert (done.removed, done.tables["events"].outcome) == (2, "drained")


def test_a_table_without_row_numbers(file: Shop) -> None:
    """Pages go by the key where a table has no number of its rows, with an index by time and without."""
    for index in ("", "CREATE INDEX results_made ON results (made);"):
        remade(
            file,
            "results",
            f"CREATE TABLE results (id TEXT PRIMARY KEY, name TEXT, made BIGINT) WITHOUT ROWID; {index}",
        )
        file.store.run("DELETE FROM heads")
        file.store.insert("results", [(f"k{n}", "a", ago(30)) for n in range(4_500)])
        file.both(policy(results=keep(7, 10)))
        assert file.ids("results") == sorted(f"k{n}" for n in range(4_500))[-10:]


def test_names_are_quoted(file: Shop) -> None:
    """Any name that the database takes may stand in a profile."""
    odd = 'odd ""; DROP TABLE runs; --'
    remade(
        file,
        "results",
        f'CREATE TABLE "{odd}" ("the ""key""" INTEGER PRIMARY KEY, "select" TEXT, "the end" BIGINT)',
        ('table = "results"\nkey = ["id"]', """table = 'odd "; DROP TABLE runs; --'\nkey = ['the "key"']"""),
        ('column = "made"', 'column = "the end"'),
        ('partition = ["name"]', 'partition = ["select"]'),
    )
    with closing(sqlite3.connect(file.store.location)) as connection, connection:
        connection.executemany(f'INSERT INTO "{odd}" VALUES (?, ?, ?)', [(1, "a", ago(30)), (2, "a", ago(1))])
    done = file.prune(policy(results=keep(7)))
    assert done.tables["results"].rows == 1
    assert file.store.rows(f'SELECT "the ""key""" FROM "{odd}"') == [(2,)]
    assert file.ids("runs") == []


def test_a_key_that_ignores_case_takes_no_other_row(file: Shop) -> None:
    """Where rows that go along are kept apart more strictly than their key, nothing goes."""
    remade(
        file,
        "events",
        "CREATE TABLE events (id TEXT COLLATE NOCASE PRIMARY KEY, occurred TEXT, kind TEXT)",
    )
    file.store.insert("events", [("a", written(30), "x")])
    done = file.prune(policy(events=keep(7)))
    assert "takes other keys for equal" in done.tables["events"].why


@pytest.mark.parametrize(
    "text",
    [
        "{d} {t}",
        "{d}T{t}",
        "{d}T{t}Z",
        "{d}T{t}+00:00",
        "{d} {t}.000",
        "{d} {t}.000000",
    ],
)
@pytest.mark.parametrize(("hours", "goes"), [(7 * 24 + 1, True), (7 * 24 - 1, False)])
def test_six_spellings_of_a_time(shop: Shop, text: str, hours: float, *, goes: bool) -> None:
    """A moment around the cutoff is the same moment however it is written."""
    date, _, clock = written(hours / 24).partition(" ")
    shop.store.insert("events", [("a", text.format(d=date, t=clock[:8]), "x")])
    shop.both(policy(events=keep(7)))
    assert (shop.ids("events") == []) == goes


@pytest.mark.parametrize(
    "text",
    ["now", "12:00", "", "2026-02-31 10:00:00", "1999-01-01 00:00:00", "2026-13-01T00:00:00Z", "1700000000"],
)
def test_what_is_no_time_never_goes(shop: Shop, text: str) -> None:
    """Text that a database may take for a time, or for an old one, blocks its row."""
    shop.store.insert("events", [("a", text, "x")])
    plan, _ = shop.both(policy(events=keep(7)))
    assert plan.kinds["row:events"].blocked == {"unreadable-end-time": 1}
    assert shop.ids("events") == ["a"]
