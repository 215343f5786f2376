"""Backups of rows of row tables, beside those of runs: all that goes is in one file, and comes back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Refused, SweepOptions
from afterrun.core.errors import BackupFailed, UnitNotFound
from afterrun.core.sweep import Budget
from afterrun.stores.sql.backups import BackupKind, BackupOrder
from cli.kit import run_cli
from generations.backed_loops import rewritten
from row_policies.backed_shops import (
    BOTH,
    KINDS,
    OFFLINE,
    ROWS,
    content,
    kinds,
    made,
    prune,
    prune_anyhow,
    removed,
    restore,
    then,
)
from row_policies.tables import PROFILE, Shop, ago, keep, log, policy, written

NOTES = """
[units.rows.notes]
table = "notes"
key = ["id"]
end = { column = "at", format = "epoch_ms" }
"""
BOTH_KINDS: tuple[BackupKind, ...] = ("removed", "whole")


def test_all_that_went_comes_back(shop: Shop, target: Path) -> None:
    """One file has rows and runs; restored, every row of every table is what it was."""
    before = made(shop)
    report = prune(shop, target)
    assert removed(report) == kinds(report) == {"tree": 1, **KINDS}
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    restored = restore(shop, target)
    assert content(shop) == before
    assert (dict(restored.kinds), restored.refused) == ({"tree": 1, **KINDS}, {})
    assert restored.rows == +report.rows
    with shop.open() as retention:
        assert list(retention.verify()) == []


def test_a_policy_for_rows_alone_backs_up_rows_alone(shop: Shop, target: Path) -> None:
    """The rows in the file are those that went, table by table; no run is in it."""
    before = made(shop)
    report = prune(shop, target, ROWS)
    assert removed(report) == kinds(report) == KINDS
    assert report.backup is not None
    held = report.backup["rows"]
    assert isinstance(held, dict)
    assert {name: count for name, count in held.items() if count} == dict(+report.rows)
    assert dict(restore(shop, target).kinds) == KINDS
    assert content(shop) == before


def test_a_whole_backup_is_taken_before_any_row_goes(shop: Shop, target: Path) -> None:
    """The database's own backup holds what the tables held; it is not restored from here."""
    made(shop)
    report = prune(shop, target, kind="whole")
    assert removed(report) == kinds(report) == {"tree": 1, **KINDS}
    assert report.backup is not None
    held = report.backup["rows"]
    assert isinstance(held, dict)
    assert (held["logs"], held["events"], held["marks"]) == (7, 3, 3)
    with pytest.raises(Refused, match="backup"):
        restore(shop, target)


def test_a_second_restore_changes_nothing(shop: Shop, target: Path) -> None:
    """What is there unchanged is counted and is no fault, in whatever parts it came back."""
    before = made(shop)
    prune(shop, target)
    restore(shop, target, rows=["logs"])
    first = restore(shop, target)
    again = restore(shop, target)
    assert (first.present, first.refused) == (KINDS["row:logs"], {})
    assert (again.units, again.present, again.refused) == (0, 1 + sum(KINDS.values()), {})
    assert content(shop) == before


def test_rows_of_one_table_come_back_alone(shop: Shop, target: Path) -> None:
    """With a row table's name nothing else comes; a run comes without rows that went by themselves."""
    made(shop)
    prune(shop, target)
    assert dict(restore(shop, target, rows=["events"]).kinds) == {"row:events": 2}
    assert shop.ids("events") == ["a", "b", "c/d"]
    assert shop.counts()["event_parts"] == 4
    restored = restore(shop, target, "old")
    assert (dict(restored.kinds), dict(restored.rows)) == ({"tree": 1}, {"runs": 1, "logs": 1})
    assert shop.ids("logs") == [2, 11, 21]


def test_one_row_comes_back_alone(shop: Shop, target: Path) -> None:
    """By the name of its table and its key; a key of several columns is a JSON list."""
    made(shop)
    prune(shop, target)
    assert restore(shop, target, "c/d", rows=["events"]).rows == {"events": 1, "event_parts": 1}
    assert restore(shop, target, '["a", 1]', rows=["marks"]).units == 1
    assert restore(shop, target, "20", rows=["logs", "events"]).units == 1
    assert (shop.ids("logs"), shop.counts()["marks"]) == ([11, 20, 21], 2)
    for name, rows in (("0", ["events"]), ("a/1", ["marks"]), ("0", [])):
        with pytest.raises(UnitNotFound):
            restore(shop, target, name, rows=rows)


def test_a_table_that_is_not_in_the_backup_is_told(shop: Shop, target: Path) -> None:
    """With the names of those that are."""
    made(shop)
    prune(shop, target, policy(logs=keep(7)))
    with pytest.raises(UnitNotFound, match=r"no rows of event; row tables in it: logs"):
        restore(shop, target, rows=["event"])


@pytest.mark.parametrize("kind", BOTH_KINDS)
@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ("UPDATE logs SET body = 'late' WHERE id = 20", ("logs", 20)),
        ("INSERT INTO event_parts VALUES ('a', 99)", ("events", "a")),
        ("DELETE FROM event_parts WHERE event = 'a' AND number = 2", ("events", "a")),
        ("UPDATE task_states SET id = 7 WHERE id = 1", ("tasks", "t")),
    ],
)
def test_a_row_that_changed_since_the_backup_stays(
    shop: Shop, target: Path, kind: BackupKind, change: str, stays: tuple[str, object]
) -> None:
    """Any difference of a row, or of one that goes with it, keeps it alone, and ends nothing."""
    made(shop)
    report = prune_anyhow(shop, target, kind=kind, options=then(target, lambda: shop.store.run(change)))
    table, key = stays
    units = report.kinds[f"row:{table}"]
    assert units.skipped == {"recheck: changed since the backup": 1}
    assert (
        removed(report) == {"tree": 1, **KINDS} | {f"row:{table}": KINDS[f"row:{table}"] - 1}
        or table == "tasks"
    )
    assert key in shop.ids(table)
    assert report.tables[table].outcome == "drained"
    assert not report.undone


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_what_came_since_the_backup_stays(shop: Shop, target: Path, kind: BackupKind) -> None:
    """Rows that were not there, or might not go, when it was made are not in it, and do not go."""
    made(shop)
    store = shop.store

    def act() -> None:
        log(store, [90], start=70)
        store.insert("events", [("late", written(90), "x")])
        store.run("UPDATE results SET made = 5 WHERE id = 99", "DELETE FROM waits")

    report = prune_anyhow(shop, target, kind=kind, options=then(target, act))
    assert removed(report) == {"tree": 1, **KINDS}
    assert 70 in shop.ids("logs")
    assert "late" in shop.ids("events")
    assert report.tables["logs"].outcome == "drained"


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_row_that_is_held_after_the_backup_stays(shop: Shop, target: Path, kind: BackupKind) -> None:
    """It is judged again in the transaction that removes, as without a backup."""
    made(shop)
    held = then(target, lambda: shop.store.insert("heads", [("x", 4)]))
    report = prune_anyhow(shop, target, kind=kind, options=held)
    assert removed(report)["row:results"] == KINDS["row:results"] - 1
    assert 4 in shop.ids("results")


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_a_row_of_a_run_that_changed_keeps_the_run(shop: Shop, target: Path, kind: BackupKind) -> None:
    """A row that was to go by itself and is another one now must not go with its run unsaved."""
    made(shop)
    change = "UPDATE logs SET body = 'late' WHERE id = 0"
    report = prune_anyhow(shop, target, kind=kind, options=then(target, lambda: shop.store.run(change)))
    assert report.units.skipped == {"recheck: changed since the backup": 1}
    assert "old" in shop.ids("runs")
    assert shop.ids("logs")[0] == 0


@pytest.mark.parametrize("kind", BOTH_KINDS)
def test_rows_that_are_left_go_with_their_run_if_they_are_in_the_backup(
    shop: Shop, target: Path, kind: BackupKind
) -> None:
    """A row whose own turn did not come is in the file all the same, so its run may take it along."""
    before = made(shop)
    held: list[bool] = []

    def act() -> None:  # the row is young for a moment: its turn passes it, and the run's comes
        shop.store.run(f"UPDATE logs SET at = {ago(1)} WHERE id = 0")

    def gate() -> bool:
        if target.exists() and not held:
            held.append(True)
            act()
        elif held and 1 not in shop.ids("logs"):
            shop.store.run(f"UPDATE logs SET at = {ago(50)} WHERE id = 0")
        return True

    report = prune_anyhow(shop, target, kind=kind, options=SweepOptions(offline=True, gate=gate))
    assert removed(report)["tree"] == 1
    assert shop.ids("logs") == [11, 21]
    if kind == "removed":
        assert restore(shop, target).refused == {}
        assert content(shop) == before


def test_a_limit_bounds_the_backup_over_all_kinds(shop: Shop, target: Path) -> None:
    """With --limit 6 each table and the runs have a share, and exactly what is in the backup goes."""
    before = made(shop)
    report = prune(shop, target, options=SweepOptions(offline=True, budget=Budget(units=6)))
    assert removed(report) == kinds(report) == dict.fromkeys(["tree", *KINDS], 1)
    restore(shop, target)
    assert content(shop) == before


def test_a_limit_is_used_where_rows_are(shop: Shop, target: Path) -> None:
    """What some tables do not need goes to those that have more."""
    log(shop.store, [30] * 50)
    report = prune(shop, target, options=SweepOptions(offline=True, budget=Budget(units=30)))
    assert removed(report) == kinds(report) == {"row:logs": 30}


def test_a_list_of_rows_bounds_the_backup_too(shop: Shop, target: Path) -> None:
    """What a plan file leaves out is neither in the backup nor removed."""
    before = made(shop)
    only = {"tree": {"old"}, "row:logs": {0, 20}, "row:marks": {("a", 1)}}
    with shop.open() as retention:
        report = retention.prune(BOTH, options=OFFLINE, only=only, backup=BackupOrder(path=target))
    assert removed(report) == kinds(report) == {"tree": 1, "row:logs": 2, "row:marks": 1}
    restore(shop, target)
    assert content(shop) == before


def test_with_nothing_to_remove_no_backup_is_made(shop: Shop, target: Path) -> None:
    """Where nothing goes there is nothing to fall back on."""
    log(shop.store, [1])
    report = prune(shop, target)
    assert (report.removed, report.backup, list(target.parent.iterdir())) == (0, None, [])


def test_a_row_that_is_there_again_is_refused(shop: Shop, target: Path) -> None:
    """Its key was used again: the one in the store stays, and all others come back."""
    made(shop)
    prune(shop, target)
    shop.store.insert("logs", [(20, None, ago(1), "new")])
    shop.store.insert("event_parts", [("a", 77)])
    restored = restore(shop, target)
    assert sum(restored.refused.values()) == len(restored.named) == 2
    assert all("again, and they differ" in why for why in restored.refused)
    assert sorted(restored.named) == ["20", "a"]
    assert shop.store.rows("SELECT body FROM logs WHERE id = 20") == [("new",)]
    assert shop.ids("logs") == [0, 1, 2, 10, 11, 20, 21]
    assert restore(shop, target).refused == restored.refused


def test_a_row_whose_run_is_gone_is_refused(shop: Shop, target: Path) -> None:
    """Where a foreign key leads to what is not there, a sentence says so; with its run it comes back."""
    shop.store.run(
        "CREATE TABLE owners (id TEXT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, owner TEXT REFERENCES owners (id), at BIGINT)",
        "CREATE INDEX notes_owner ON notes (owner)",
    )
    (shop.store.folder / "shop.toml").write_text(PROFILE + NOTES, encoding="utf-8")
    shop.store.insert("owners", [("o",), ("p",)])
    shop.store.insert("notes", [(1, "o", ago(30)), (2, "p", ago(30)), (3, None, ago(30))])
    prune_anyhow(shop, target, policy(notes=keep(7)))
    shop.store.run("DELETE FROM owners WHERE id = 'o'")
    restored = restore(shop, target)
    assert (restored.units, restored.named) == (2, ["1"])
    assert next(iter(restored.refused)).startswith("what it refers to is gone")
    shop.store.insert("owners", [("o",)])
    assert (restore(shop, target, "1", rows=["notes"]).units, shop.ids("notes")) == (1, [1, 2, 3])


def test_rows_that_go_by_a_cascade_of_the_database_block_their_table_alone(shop: Shop, target: Path) -> None:
    """They would be in no backup of what goes; a whole one has them, and no other table waits for that."""
    shop.store.run(
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, log BIGINT REFERENCES logs (id) ON DELETE CASCADE)",
        "CREATE INDEX notes_log ON notes (log)",
    )
    known = 'known = [{ table = "notes", column = "log" }]\nnote ='
    (shop.store.folder / "shop.toml").write_text(PROFILE.replace("note =", known), encoding="utf-8")
    made(shop)
    shop.store.insert("notes", [(1, 20)])
    rules = policy(logs=keep(7), events=keep(7))
    report = prune_anyhow(shop, target, rules)
    assert removed(report) == kinds(report) == {"row:events": 2}
    assert report.tables["logs"].outcome == "blocked"
    assert "backup-kind whole" in report.tables["logs"].why
    with shop.open() as retention:
        assert any("row:logs stays whole" in text for text in retention.backup_notices("removed", rules))
        assert not any("stays whole" in text for text in retention.backup_notices("whole", rules))
    whole = prune_anyhow(shop, target.with_name("all.backup"), rules, kind="whole")
    assert removed(whole) == {"row:logs": 4}
    assert shop.store.rows("SELECT * FROM notes") == []


def test_many_rows_come_back_in_groups(shop: Shop, target: Path) -> None:
    """More than fit a group, with some in the way: only these stay in the backup."""
    log(shop.store, [30] * 2_300)
    before = content(shop)
    prune(shop, target, policy(logs=keep(7)))
    log(shop.store, [1], start=700)
    restored = restore(shop, target)
    assert (restored.units, restored.named) == (2_299, ["700"])
    shop.store.run("DELETE FROM logs WHERE id = 700")
    again = restore(shop, target)
    assert (again.units, again.present, content(shop) == before) == (1, 2_299, True)


DAMAGE = [
    "DELETE FROM afterrun_rows_logs WHERE key0 = 1",
    "INSERT INTO afterrun_rows_logs VALUES (2)",
    "UPDATE afterrun_rows_logs SET key0 = '1' WHERE key0 = 1",
    "DROP TABLE afterrun_rows_logs",
    "UPDATE logs SET body = 'y' WHERE id = 1",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_backup_puts_nothing_back(shop: Shop, target: Path, damage: str) -> None:
    """A list or a row that is not what it was is found before anything is written."""
    made(shop)
    prune(shop, target)
    after = content(shop)
    if "://" in shop.store.location:
        rewritten(target, lambda name, text: text.replace(b"x\n", b"y\n") if "logs" in name else text)
    else:
        with closing(sqlite3.connect(target)) as connection, connection:
            connection.execute(damage)
    with pytest.raises((BackupFailed, Refused)):
        restore(shop, target)
    assert content(shop) == after


def test_the_commands_say_it(shop: Shop, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`prune --backup` and `restore --rows` at the command line, for people and in JSON."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(shop.store.folder / "state"))
    before = made(shop)
    words = (shop.store.location, "--profile", str(shop.store.folder / "shop.toml"))
    said = ("--rows", "logs=7d", "--rows", "events=7d", "--apply", "--yes", "--backup", target, "--json")
    answer = run_cli("prune", *words, *said)
    assert (answer.code, answer.json["backup"]["kinds"]) == (0, {"row:logs": 4, "row:events": 2}), answer.err
    told = run_cli("restore", words[0], target, *words[1:], "--rows", "events")
    assert (told.code, "rows of events among them" in told.out) == (0, True), told.err
    one = run_cli("restore", words[0], target, "20", *words[1:], "--rows", "logs", "--json")
    assert (one.code, one.json["kinds"]) == (0, {"row:logs": 1}), one.err
    rest = run_cli("restore", words[0], target, *words[1:], "--json")
    assert (rest.code, rest.json["present"]) == (0, 3), rest.err
    assert content(shop) == before
