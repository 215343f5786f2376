"""Shops whose rows go after a backup, and a way to look at all rows of both."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from typing import Final

from afterrun import Policy, Report, SweepOptions
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Restored
from row_policies.tables import Shop, ago, keep, log, written

OFFLINE: Final = SweepOptions(offline=True)
BOTH: Final = Policy(
    keep_for=timedelta(days=30),
    tables={"logs": keep(7), "events": keep(7), "tasks": keep(7), "marks": keep(7), "results": keep(None, 2)},
)
ROWS: Final = Policy(tables=BOTH.tables)
TABLES: Final = ("runs", "logs", "events", "event_parts", "tasks", "task_states", "results", "marks")

Content = dict[str, list[str]]


def made(shop: Shop) -> Content:
    """Fill a store with rows that go and rows that stay; return all of them.

    Logs 0 and 1 go by themselves, 2 is too young for that and goes with its run; 10 is of a run that stays.
    """
    store = shop.store
    store.insert("runs", [("old", "done", ago(40)), ("new", "done", ago(1)), ("alive", "running", None)])
    log(store, [50, 20, 1], run="old")
    log(store, [50, 1], run="alive", start=10)
    log(store, [50, None], start=20)
    store.insert("events", [("a", written(30), "x"), ("b", written(1), "x"), ("c/d", written(30), "x")])
    store.insert("event_parts", [("a", 1), ("a", 2), ("b", 1), ("c/d", 1)])
    store.insert("tasks", [("t", "ok", ago(30), None, None), ("u", "ok", ago(1), None, None)])
    store.insert("task_states", [(1, "t"), (2, "t"), (3, "u")])
    store.insert("marks", [("a", 1, ago(30)), ("a", 2, ago(1)), ("o\"'n", 1, ago(30))])
    store.insert("results", [(n, "name", ago(30 + n)) for n in range(5)])
    return content(shop)


KINDS: Final = {"row:logs": 4, "row:events": 2, "row:tasks": 1, "row:marks": 2, "row:results": 3}
"""Rows of a made store that go by `ROWS`."""


def content(shop: Shop) -> Content:
    """Return all rows of all tables."""
    return {table: sorted(map(repr, shop.store.rows(f"SELECT * FROM {table}"))) for table in TABLES}


def prune(
    shop: Shop,
    target: Path,
    policy: Policy = BOTH,
    *,
    kind: BackupKind = "removed",
    options: SweepOptions = OFFLINE,
) -> Report:
    """Remove after a backup; report and the difference of all tables must agree."""
    before = content(shop)
    report = prune_anyhow(shop, target, policy, kind=kind, options=options)
    left = content(shop)
    gone = {table: len(before[table]) - len(left[table]) for table in TABLES}
    assert {table: rows for table, rows in gone.items() if rows} == dict(+report.rows)
    return report


def prune_anyhow(
    shop: Shop,
    target: Path,
    policy: Policy = BOTH,
    *,
    kind: BackupKind = "removed",
    options: SweepOptions = OFFLINE,
) -> Report:
    """Remove after a backup, while others may change the store."""
    with shop.open() as retention:
        report = retention.prune(policy, options=options, backup=BackupOrder(path=target, kind=kind))
        assert report.ended in {"completed", "budget"}, report.message
        assert list(retention.verify()) == []
    return report


def restore(shop: Shop, backup: Path, run: str | None = None, *, rows: Collection[str] = ()) -> Restored:
    """Put back what a backup holds."""
    with shop.open() as retention:
        return retention.restore(backup, run, rows=rows, rest=0.0)


def kinds(report: Report) -> dict[str, int]:
    """Return how many units of each kind a backup holds."""
    assert report.backup is not None
    found = report.backup["kinds"]
    assert isinstance(found, dict)
    return found


def removed(report: Report) -> dict[str, int]:
    """Return how many units of each kind went."""
    return {kind: units.removed for kind, units in report.kinds.items() if units.removed}


def then(target: Path, act: Callable[[], None]) -> SweepOptions:
    """Return options by which something happens once, after the backup and before the first batch."""
    done: list[bool] = []

    def gate() -> bool:
        if target.exists() and not done:
            done.append(True)
            act()
        return True

    return SweepOptions(offline=True, gate=gate)
