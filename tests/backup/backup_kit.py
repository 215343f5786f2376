"""Stores that tests of backups work on: every row of them read, and wrappers that interfere."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Restored
from afterrun.stores.sql.sqlite import backup as backup_module
from own_store import OLD, OwnStore, own_store

MONTH = Policy(keep_for=timedelta(days=30))
TREE = """
table = "runs"
key = "id"
status = "status"
terminal = ["done", "failed"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
edges = [{ column = "parent" }]
missing = "root"
owned = [
  { table = "notes", column = "link", via = { table = "links", key = "link", owner = "run" } },
  { table = "links", column = "run" },
  { table = "loose", column = "run" },
]
"""
TABLES = """
CREATE TABLE runs (
  id PRIMARY KEY, status TEXT, ended INTEGER, parent, "odd ""name" BLOB, n REAL, free,
  twice INTEGER GENERATED ALWAYS AS (ended * 2) STORED, FOREIGN KEY (parent) REFERENCES runs (id)
);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_parent ON runs (parent);
CREATE TABLE links (link INTEGER PRIMARY KEY AUTOINCREMENT, run REFERENCES runs (id));
CREATE INDEX links_run ON links (run);
CREATE TABLE notes (link INTEGER REFERENCES links (link), text, PRIMARY KEY (link, text)) WITHOUT ROWID;
CREATE TABLE loose (run, value);
CREATE INDEX loose_run ON loose (run);
"""
HOSTILE = (
    "o'neil",
    'say "hi"',
    "a;--",
    "%s {x} ?",
    "\u202egnp.exe",
    "ключ",
    " ",
    "../../etc/passwd",
    "5",
    "x'00'",
)
"""Ids that break out of quotes, paths and formats, where these are made by hand."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for backups that nobody else can write to."""
    made = tmp_path / "backups"
    made.mkdir(mode=0o700)
    return made


def strange_store(folder: Path) -> OwnStore:
    """Make a store with every kind of value and key, generated columns, links and equal rows."""
    store = own_store(folder, TABLES, TREE)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        add = 'INSERT INTO runs (id, status, ended, parent, "odd ""name", n, free) VALUES (?,?,?,?,?,?,?)'
        values: list[object] = [1, 1.0, "1", b"1", None, -0.0, "a\0b", 1e300, 2**62, b"\xff\0"]
        keys: list[object] = [*HOSTILE, 5, -7, *(f"run-{number}" for number in range(8))]
        for number, key in enumerate(keys):
            value = values[number % len(values)]
            connection.execute(add, (key, "done", OLD + number, None, value, number / 3, value))
            connection.execute("INSERT INTO links (run) VALUES (?)", (key,))
            link = connection.execute("SELECT max(link) FROM links").fetchone()[0]
            connection.execute("INSERT INTO notes VALUES (?, x'31'), (?, 1), (?, '1')", (link, link, link))
            connection.executemany(
                "INSERT INTO loose VALUES (?, ?)", [(key, value), (key, value), (key, 1.0)]
            )
        connection.execute(add, ("child", "done", OLD, "run-0", None, 1, 1))
        connection.execute(add, ("grandchild", "done", OLD, "child", None, 1, 1))
        connection.execute("UPDATE runs SET free = CAST(x'ff41' AS TEXT) WHERE id = 'run-1'")
        connection.execute(add, ("alive", "running", None, None, None, 1, 1))
        connection.execute("INSERT INTO loose VALUES ('alive', 1)")
    return store


def content(store: OwnStore | Path) -> dict[str, list[str]]:
    """Return every row of every table; 1, 1.0 and '1' differ."""
    path = store if isinstance(store, Path) else store.path
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        listed = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        names = [name for (name,) in listed if name != "sqlite_sequence"]
        return {name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in names}


def prune(
    store: OwnStore, target: Path, *, kind: BackupKind = "removed", options: SweepOptions | None = None
) -> Report:
    """Remove what is old, after a backup."""
    with store.retention() as retention:
        return retention.prune(
            MONTH, options=options or SweepOptions(offline=True), backup=BackupOrder(path=target, kind=kind)
        )


def restore(store: OwnStore, backup: Path, run: str | None = None) -> Restored:
    """Put back what a backup holds."""
    with store.retention() as retention:
        return retention.restore(backup, run, rest=0.0)


def script(path: Path, text: str) -> None:
    """Change a database file by SQL."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)


def ids(path: Path) -> set[object]:
    """Return the ids of all runs in a file."""
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM runs")}


@contextmanager
def after_backup(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> Iterator[None]:
    """Do something between the making of a backup and the first batch."""
    made = backup_module.BackupMaker.made

    @contextmanager
    def meddled(*args: object, **words: object) -> Iterator[object]:
        with made(*args, **words) as backup:  # type: ignore[arg-type]
            act()
            yield backup

    with monkeypatch.context() as patch:
        patch.setattr(backup_module.BackupMaker, "made", meddled)
        yield


def opened(store: OwnStore) -> Retention:
    """Open a store for removal."""
    return store.retention()
