"""Removals of loops with a backup, and what is compared before and after them."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from afterrun import Policy, Report, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Restored
from generations.loops import WEEK, Loops, Turn, fill, loop, open_loops

TABLES: Final = ("runs", "turns", "events", "inbox")
BOTH: Final = Policy(keep_for=timedelta(days=7), generations=Policy(keep_for=timedelta(days=7)))
OFFLINE: Final = SweepOptions(offline=True)
STRANGE: Final = (
    "o'neil",
    'say "hi"',
    '["a", 1]',
    "a/2",
    "5",
    "tab\tline\nback\\slash",
    "\\N",
    "{braces,commas}",
    "NULL",
    "\u0436\u202e",
)
"""Ids of runs that break out of quotes, arrays, paths and JSON, where these are made by hand."""

OLD_TABLES: Final = """
DROP TABLE afterrun_units; DROP TABLE afterrun_members;
CREATE TABLE afterrun_units (unit INTEGER PRIMARY KEY, root TEXT NOT NULL);
CREATE INDEX afterrun_units_root ON afterrun_units (root);
CREATE TABLE afterrun_members (key PRIMARY KEY NOT NULL, unit INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX afterrun_members_unit ON afterrun_members (unit);
"""

Content = dict[str, list[str]]


def made(store: Loops) -> Content:
    """Fill a store with two trees that have ended and three loops that live; return all rows."""
    fill(store, [*loop("old", 3)[:2], *loop("a", 4), *loop("b", 3), *loop("single", 1)], ended=["old"])
    fill(store, [Turn("child", 1), Turn("child", 2), Turn("other", 1, events=0)], ended=["child", "other"])
    store.run("UPDATE runs SET parent = 'old' WHERE id = 'child'")
    store.run("INSERT INTO inbox VALUES (1, 'a', 3, 17)", "INSERT INTO inbox VALUES (2, 'old', 1, 17)")
    return content(store)


TREES: Final = 2
GENERATIONS: Final = 5
"""Units of a made store that go by `BOTH`."""

PAST: Final = GENERATIONS + 2
"""Generations of it that go by `WEEK`: those of trees that have ended, too."""


def content(store: Loops) -> Content:
    """Return all rows of all tables."""
    return {table: sorted(map(repr, store.rows(f"SELECT * FROM {table}"))) for table in TABLES}


def prune(
    store: Loops,
    target: Path,
    policy: Policy = WEEK,
    *,
    kind: BackupKind = "removed",
    options: SweepOptions = OFFLINE,
) -> Report:
    """Remove after a backup; report, backup and the difference of all tables must agree."""
    before = content(store)
    report = prune_anyhow(store, target, policy, kind=kind, options=options)
    left = content(store)
    gone = {table: len(before[table]) - len(left[table]) for table in TABLES}
    assert {table: rows for table, rows in gone.items() if rows} == dict(+report.rows)
    if report.backup is not None:
        assert report.backup["units"] == sum(kinds(report).values())
        assert target.exists()
    return report


def prune_anyhow(
    store: Loops,
    target: Path,
    policy: Policy = BOTH,
    *,
    kind: BackupKind = "removed",
    options: SweepOptions = OFFLINE,
) -> Report:
    """Remove after a backup, while others may change the store."""
    with open_loops(store) as retention:
        report = retention.prune(policy, options=options, backup=BackupOrder(path=target, kind=kind))
        assert report.ended in {"completed", "budget"}, report.message
        assert list(retention.verify()) == []
    return report


def kinds(report: Report) -> dict[str, int]:
    """Return how many units of each kind a backup holds."""
    assert report.backup is not None
    found = report.backup["kinds"]
    assert isinstance(found, dict)
    return found


def removed(report: Report) -> Counter[str]:
    """Return how many units of each kind went."""
    return +Counter({kind: units.removed for kind, units in report.kinds.items()})


def restore(store: Loops, backup: Path, run: str | None = None) -> Restored:
    """Put back what a backup holds."""
    with open_loops(store) as retention:
        return retention.restore(backup, run, rest=0.0)


def then(target: Path, act: Callable[[], None]) -> SweepOptions:
    """Return options by which something happens once, after the backup and before the first batch."""
    done: list[bool] = []

    def gate() -> bool:
        if target.exists() and not done:
            done.append(True)
            act()
        return True

    return SweepOptions(offline=True, gate=gate)


def rewritten(backup: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Write an archive again, each member as a function has it."""
    draft = backup.with_suffix(".draft")
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    shutil.move(draft, backup)


def made_old(backup: Path) -> None:
    """Write a backup of trees as it was written before there were kinds."""
    if zipfile.is_zipfile(backup):
        _made_old_archive(backup)
    else:
        _made_old_database(backup)


def _made_old_database(backup: Path) -> None:
    with closing(sqlite3.connect(backup)) as connection, connection:
        head = json.loads(connection.execute("SELECT json FROM afterrun_head").fetchone()[0])
        roots = connection.execute("SELECT unit, root FROM afterrun_units").fetchall()
        members = connection.execute("SELECT key, unit FROM afterrun_members").fetchall()
        connection.executescript(OLD_TABLES)
        connection.executemany("INSERT INTO afterrun_units VALUES (?, ?)", roots)
        connection.executemany("INSERT INTO afterrun_members VALUES (?, ?)", members)
        rows = [repr((unit, dict(roots)[unit], key)).encode() for key, unit in members]
        total = sum(int.from_bytes(hashlib.sha256(row).digest(), "big") for row in rows) % (1 << 256)
        sums = [[name, *found] for name, found in head["tables"].items()]
        _date_back(head, "afterrun-backup/1", [len(roots), f"{total:064x}"], sums)
        connection.execute("UPDATE afterrun_head SET json = ?", (json.dumps(head),))


def _made_old_archive(backup: Path) -> None:
    lines: list[bytes] = []

    def without_kinds(name: str, text: bytes) -> bytes:
        if not name.endswith("units.jsonl"):
            return text
        said = [json.loads(line) for line in text.splitlines()]
        mine = [
            json.dumps({key: unit[key] for key in unit if key != "kind"}).encode() + b"\n" for unit in said
        ]
        lines.extend(mine)
        return b"".join(mine)

    def dated_back(name: str, text: bytes) -> bytes:
        if name != "afterrun.json":
            return text
        head = json.loads(text)
        sums = [[table, said["rows"], said["checksum"]] for table, said in head["tables"].items()]
        units = [len(lines), hashlib.sha256(b"".join(lines)).hexdigest()]
        _date_back(head, "afterrun-postgresql-backup/1", units, sums)
        return json.dumps(head).encode()

    rewritten(backup, without_kinds)
    rewritten(backup, dated_back)


def _date_back(head: dict[str, Any], form: str, units: list[Any], sums: Sequence[list[Any]]) -> None:
    del head["kinds"]
    overall = hashlib.sha256(json.dumps([sorted(sums), units]).encode()).hexdigest()
    head |= {"format": form, "units": units, "checksum": overall}
