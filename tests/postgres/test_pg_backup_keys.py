"""Backups on PostgreSQL whatever the keys are: every row is told for its unit, however keys are spelled."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from own_store import HEAD, OLD, PLAIN
from pg_server import Database

from .pg_backup_kit import PgStore

TREE = f"""{PLAIN}
edges = [{{ column = "parent" }}]
missing = "root"
owned = [{{ table = "things", column = "run" }}]
"""
UPPER = [f"{UUID(int=number << 64)}".upper() for number in range(10, 14)]
KEYS = {
    "bigint": ["-9223372036854775808", "0", "7", "9223372036854775807"],
    "integer": ["-1", "0", "7", "2147483647"],
    "uuid": [text.lower() for text in UPPER],
    "text": ["5", "05", "a", "A"],
    "upper": UPPER,
    "varchar(9)": ["5", "05", "a", "A"],
}
COLUMNS = [
    ("bigint", "bigint"),
    ("bigint", "text"),
    ("bigint", "integer"),
    ("integer", "bigint"),
    ("uuid", "uuid"),
    ("uuid", "text"),
    ("upper", "uuid"),
    ("text", "varchar(9)"),
    ("varchar(9)", "text"),
    ("text", "character(9)"),
]
"""Types of the run's key and of the column that refers to it, without a foreign key."""


def made(database: Database, folder: Path, key: str, owner: str) -> PgStore:
    """Make a store of finished runs with these keys, each with two equal rows and one of its own."""
    profile = folder / "own.toml"
    profile.write_text(HEAD.format(detect="", tree=TREE), encoding="utf-8")
    store = PgStore(database, "public", str(profile), folder / "state")
    kind = "text" if key == "upper" else key
    store.run(
        "CREATE TABLE version (number integer); INSERT INTO version VALUES (1);"
        f"CREATE TABLE runs (id {kind} PRIMARY KEY, status text, ended bigint, parent {kind});"
        f"CREATE TABLE things (run {owner}, value text); CREATE INDEX ON things (run);"
        "CREATE INDEX ON runs (ended); CREATE INDEX ON runs (parent)"
    )
    for number, text in enumerate(KEYS[key]):
        if owner == "integer" and abs(int(text)) > 2**31:
            continue
        store.run("INSERT INTO runs VALUES (%s, 'done', %s)", text, OLD + number)
        store.run("INSERT INTO things SELECT %s, unnest(ARRAY['same', 'same', %s])", text, f"of {text}")
    return store


@pytest.mark.parametrize(("key", "owner"), COLUMNS)
def test_every_row_comes_back_to_its_run(database: Database, tmp_path: Path, key: str, owner: str) -> None:
    """Removed and restored, one by one and all, the store is what it was."""
    store = made(database, tmp_path, key, owner)
    before, ids = store.content(), store.rows("SELECT id::text FROM runs ORDER BY ended")
    report = store.prune(tmp_path / "b.zip")
    assert report.units.removed == len(ids), report.message
    assert report.backup is not None
    assert report.backup["rows"] == {"things": 3 * len(ids), "runs": len(ids)}
    assert store.restore(tmp_path / "b.zip", ids[1][0]).rows == {"things": 3, "runs": 1}
    assert store.rows("SELECT run::text, value FROM things ORDER BY value") == [
        (before_text(ids[1][0], owner), f"of {ids[1][0]}"),
        (before_text(ids[1][0], owner), "same"),
        (before_text(ids[1][0], owner), "same"),
    ]
    assert store.restore(tmp_path / "b.zip").units == len(ids) - 1
    assert store.content() == before


@pytest.mark.parametrize(("key", "owner"), COLUMNS)
def test_beside_an_engine_rows_are_counted_run_by_run(
    database: Database, tmp_path: Path, key: str, owner: str
) -> None:
    """A batch is packed by the rows of each unit, whatever the types of its key and of what refers to it."""
    store = made(database, tmp_path, key, owner)
    with store.retention() as retention:
        units = [retention.store.find(text) for (text,) in store.rows("SELECT id::text FROM runs")]
        assert retention.store.weigh(units) == [4] * len(units)


def before_text(key: str, owner: str) -> str:
    """Return a key as a column of this type spells it."""
    return key.lower() if owner == "uuid" else key
