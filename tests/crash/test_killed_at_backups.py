"""Backups of folders and restores from them, killed before each of their changing system calls."""

from __future__ import annotations

import shutil
import signal
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from afterrun import BackupOrder, SweepOptions, open_retention
from crash.aged import MONTH, Request
from crash.killing import victims
from crash.test_killed_in_directory import GOING, Scene, check, content, make, places

pytestmark = [pytest.mark.slow]

CHILD = "nested-subagent-runs/a/a-child"


@pytest.mark.timeout(1_800)
def test_killed_at_any_call_whatever_is_gone_is_in_a_whole_backup(tmp_path: Path) -> None:
    """Before the first run goes the backup is whole, under its name; a draft goes with the next one."""
    tree = make(tmp_path / "made")
    before = content(tree.root)
    with victims(make(tmp_path / "warm-up").root) as killer:
        scene = Scene(tree.root, before, killer)

        def copied(name: str) -> Request:
            request = scene.copy(tmp_path / name)
            return replace(request, backup=str(tmp_path / name / "backup.tar"))

        whole = killer.run(copied("untouched"), tmp_path / "log")
        assert whole.code == 0
        for number in places(whole):
            request = copied(f"kill-{number:03}")
            killed = killer.run(request, tmp_path / f"log-{number:03}", kill=whole.calls[number - 1])
            assert killed.code == -signal.SIGKILL
            there = check(request, before)
            if not all(there):
                assert in_backup(Path(request.backup)) == set(GOING)
            again = replace(request, backup=str(Path(request.backup).with_name("again.tar")))
            with open_retention(again.store, state=Path(again.state)) as retention:
                retention.prune(
                    MONTH, options=SweepOptions(offline=True), backup=BackupOrder(path=Path(again.backup))
                )
                assert list(retention.verify()) == []
            assert check(request, before) == [False] * 3
            shutil.rmtree(tmp_path / f"kill-{number:03}")


@pytest.mark.timeout(1_800)
def test_killed_at_any_call_a_restore_leaves_whole_units(tmp_path: Path) -> None:
    """A unit is back as a whole, or will be with the next lock, or not at all; a second restore ends it."""
    tree = make(tmp_path / "made")
    tree.run("a-child", under=tree.root / "nested-subagent-runs" / "a")
    before = content(tree.root)
    backup = tmp_path / "backup.tar"
    with open_retention(str(tree.root), state=tmp_path / "state") as retention:
        retention.prune(MONTH, options=SweepOptions(offline=True), backup=BackupOrder(path=backup))
    with victims(make(tmp_path / "warm-up").root) as killer:
        scene = Scene(tree.root, before, killer)

        def copied(name: str) -> Request:
            return replace(scene.copy(tmp_path / name), command="restore", backup=str(backup))

        whole = killer.run(copied("untouched"), tmp_path / "log")
        assert whole.code == 0
        for number in places(whole):
            request = copied(f"kill-{number:03}")
            killed = killer.run(request, tmp_path / f"log-{number:03}", kill=whole.calls[number - 1])
            assert killed.code == -signal.SIGKILL
            check(request, before)
            with open_retention(request.store, state=Path(request.state)) as retention:
                back = retention.restore(backup)
                assert (back.refused, back.units + back.present) == ({}, 3)
                assert list(retention.verify()) == []
            assert check(request, before) == [True] * 3
            assert (Path(request.store) / CHILD / "status.json").exists()
            assert [p for p in Path(request.store).rglob(".afterrun-*") if "journal" not in str(p)] == []
            shutil.rmtree(tmp_path / f"kill-{number:03}")


def in_backup(path: Path) -> set[str]:
    """Return the runs in a backup that is whole."""
    with tarfile.open(path) as archive:
        names = archive.getnames()
    assert names[-1] == "afterrun-end.json"
    parts = [name.split("/") for name in names if name.startswith("store/async-subagent-runs/")]
    return {part[2] for part in parts}
