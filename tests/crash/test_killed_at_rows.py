"""Rows of row tables on their way out, into a backup, and back, killed before changing system calls."""

from __future__ import annotations

import os
import shutil
import signal
from ast import literal_eval
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from afterrun import Retention, SweepOptions
from afterrun.stores.sql.backups import BackupOrder
from crash.aged import Request
from crash.killing import Run, Victims, victims
from generations.loops import SqliteLoops
from row_policies.backed_shops import Content, content, made
from row_policies.tables import Shop, make

pytestmark = [pytest.mark.slow]

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
KILLS: Final = 1_000 if SOAK else 8
"""Kills of one run, spread over its calls; the last three calls are always among them."""

ROWS: Final = ("logs", "events", "tasks", "marks")
GOING: Final[dict[str, set[object]]] = {
    "logs": {0, 1, 10, 20},
    "events": {"a", "c/d"},
    "tasks": {"t"},
}
"""Keys of rows that go by themselves; log 2 goes with its run."""


@dataclass(frozen=True)
class Scene:
    """A store that is copied for each kill, all its rows, and the process that forks the victims."""

    shop: Shop
    before: Content
    killer: Victims

    def copy(self, folder: Path) -> Request:
        """Copy the store to a new folder, which will also hold afterrun's state."""
        folder.mkdir()
        shutil.copyfile(self.shop.store.location, folder / "loops.sqlite")
        shutil.copyfile(self.shop.store.folder / "shop.toml", folder / "shop.toml")
        return Request(
            store=str(folder / "loops.sqlite"),
            state=str(folder / "state"),
            profile=str(folder / "shop.toml"),
            rows=ROWS,
        )


def shop_of(request: Request) -> Shop:
    """Return the store of a request."""
    return Shop(SqliteLoops(Path(request.store).parent))


def opened(request: Request) -> Retention:
    """Open it."""
    return Retention(request.store, profile=request.profile, state=Path(request.state))


def filled(folder: Path) -> tuple[Shop, Content]:
    """Make a store with rows that go."""
    folder.mkdir()
    store = SqliteLoops(folder)
    make(store)
    return Shop(store), made(Shop(store))


def places(run: Run) -> Sequence[int]:
    """Return which calls, counted from 1, are killed."""
    every = range(1, len(run.calls) + 1)
    return sorted({*every[:: len(every) // KILLS + 1], *every[-3:]})


def check(request: Request, before: Content) -> Content:
    """Check that whatever stands is as it was, and that rows stand or fall with those that belong to them."""
    shop = shop_of(request)
    left = content(shop)
    with opened(request) as retention:
        assert list(retention.store.problems()) == []
    for table, rows in left.items():
        assert set(rows) <= set(before[table]), table
    for table, keys in GOING.items():
        gone = {row[0] for row in _keys(before[table])} - {row[0] for row in _keys(left[table])}
        assert gone <= keys | {2}, table
    for table, part, at in (("events", "event_parts", 0), ("tasks", "task_states", 1)):
        whole = {row[0] for row in _keys(left[table])}
        assert set(left[part]) == {row for row in before[part] if _row(row)[at] in whole}
    return left


def _row(text: str) -> tuple[object, ...]:
    found: tuple[object, ...] = literal_eval(text)
    return found


def _keys(rows: Sequence[str]) -> list[tuple[object, ...]]:
    return [_row(text) for text in rows]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("backup", [False, True])
def test_killed_at_any_call_rows_are_there_or_gone_and_what_is_gone_is_saved(
    tmp_path: Path, *, backup: bool
) -> None:
    """No row is half there, none is gone before its backup is whole, and the next removal ends the work."""
    shop, before = filled(tmp_path / "made")
    warm, _ = filled(tmp_path / "warm-up")
    with victims(Path(warm.store.location), warm.store.folder / "shop.toml") as killer:
        scene = Scene(shop, before, killer)

        def copied(name: str) -> Request:
            request = scene.copy(tmp_path / name)
            return replace(request, backup=str(tmp_path / name / "went.sqlite") if backup else "")

        untouched = copied("untouched")
        whole = killer.run(untouched, tmp_path / "log")
        assert whole.code == 0
        after = content(shop_of(untouched))
        for number in places(whole):
            request = copied(f"kill-{number:03}")
            killed = killer.run(request, tmp_path / "log", kill=whole.calls[number - 1])
            assert killed.code == -signal.SIGKILL
            left = check(request, before)
            if backup and left != before:
                with opened(request) as retention:
                    assert retention.restore(Path(request.backup), rest=0.0).refused == {}
                assert content(shop_of(request)) == before
            order = BackupOrder(path=Path(request.store).with_name("again.sqlite")) if backup else None
            with opened(request) as retention:
                done = retention.prune(request.policy, options=SweepOptions(offline=True), backup=order)
                assert (done.ended, list(retention.verify())) == ("completed", [])
            assert content(shop_of(request)) == after
            shutil.rmtree(tmp_path / f"kill-{number:03}")


@pytest.mark.timeout(1_200)
def test_killed_at_any_call_a_restore_leaves_whole_rows(tmp_path: Path) -> None:
    """A row is back with all that belongs to it, or not at all; a second restore ends the work."""
    shop, before = filled(tmp_path / "made")
    warm, _ = filled(tmp_path / "warm-up")
    backup = tmp_path / "went.sqlite"
    own = Request(
        store=shop.store.location,
        state=str(tmp_path / "state"),
        profile=str(shop.store.folder / "shop.toml"),
        rows=ROWS,
    )
    with opened(own) as retention:
        retention.prune(own.policy, options=SweepOptions(offline=True), backup=BackupOrder(path=backup))
    with victims(Path(warm.store.location), warm.store.folder / "shop.toml") as killer:
        scene = Scene(shop, before, killer)

        def copied(name: str) -> Request:
            return replace(scene.copy(tmp_path / name), command="restore", backup=str(backup))

        whole = killer.run(copied("untouched"), tmp_path / "log")
        assert whole.code == 0
        for number in places(whole):
            request = copied(f"kill-{number:03}")
            killed = killer.run(request, tmp_path / "log", kill=whole.calls[number - 1])
            assert killed.code == -signal.SIGKILL
            check(request, before)
            with opened(request) as retention:
                again = retention.restore(backup, rest=0.0)
                assert (again.refused, list(retention.verify())) == ({}, [])
            assert content(shop_of(request)) == before
            shutil.rmtree(tmp_path / f"kill-{number:03}")
