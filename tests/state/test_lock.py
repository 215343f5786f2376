"""One sweep a store at a time, across processes; the kernel lets the lock go with its holder."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Refused, StoreLocked
from afterrun.state import SweepLock
from sites import SqliteSite, fill, keys, run

HOLDER = """
import sys
from pathlib import Path
from afterrun.state import SweepLock
with SweepLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
MONTH = Policy(keep_for=timedelta(days=30))


@contextmanager
def held_elsewhere(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock of a store while this is entered."""
    command = [sys.executable, "-c", HOLDER, str(store)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_second_sweep_leaves_at_once_and_says_so(sqlite_site: SqliteSite) -> None:
    """Promise 9: while another process sweeps, nothing is read or removed, by prune or by sweep."""
    fill(sqlite_site, [run("old")])
    with held_elsewhere(sqlite_site.path):
        with pytest.raises(StoreLocked, match="another sweep"):
            sqlite_site.retention.prune(MONTH)
        with pytest.raises(StoreLocked):
            sqlite_site.retention.sweep(MONTH, always=True)
        assert sqlite_site.retention.plan(MONTH).units.expired == 1
    assert keys(sqlite_site) == {"old"}
    assert sqlite_site.retention.prune(MONTH).units.removed == 1


def test_a_killed_holder_leaves_the_lock_free(sqlite_site: SqliteSite) -> None:
    """Promise 9: a sweep that died blocks nobody; the lock's file stays and means nothing by itself."""
    fill(sqlite_site, [run("old")])
    with held_elsewhere(sqlite_site.path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert sqlite_site.retention.prune(MONTH).units.removed == 1
    assert sqlite_site.path.with_name("app.sqlite.afterrun-lock").exists()


def test_the_lock_is_let_go_with_its_end(tmp_path: Path) -> None:
    """It can be taken again and again, also after an error, and not twice at once within a process."""
    store = tmp_path / "app.sqlite"
    for _ in range(3):
        with SweepLock(store), pytest.raises(StoreLocked), SweepLock(store):
            pass
    with pytest.raises(ZeroDivisionError), SweepLock(store):
        raise ZeroDivisionError
    with SweepLock(store):
        pass


def test_two_names_of_one_store_are_one_lock(tmp_path: Path, sqlite_site: SqliteSite) -> None:
    """Promise 9: the lock lies beside the real file, whatever link somebody opens it by."""
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(sqlite_site.path)
    other = SqliteSite(link)
    with held_elsewhere(sqlite_site.path), pytest.raises(StoreLocked):
        other.retention.prune(MONTH)
    other.retention.close()
    assert list(link.parent.iterdir()) == [link]


def test_a_lock_that_is_a_link_is_refused(sqlite_site: SqliteSite, tmp_path: Path) -> None:
    """Nobody who may write beside the store can make a sweep open a file of their choice."""
    fill(sqlite_site, [run("old")])
    target = tmp_path / "precious"
    sqlite_site.path.with_name("app.sqlite.afterrun-lock").symlink_to(target)
    with pytest.raises(Refused, match="symbolic link") as refused:
        sqlite_site.retention.prune(MONTH)
    assert refused.value.reason == "rights"
    assert not target.exists()
    assert keys(sqlite_site) == {"old"}


def test_the_lock_is_its_owners_alone_and_no_child_inherits_it(tmp_path: Path) -> None:
    """A program that is started meanwhile does not keep the store locked."""
    store = tmp_path / "app.sqlite"
    with SweepLock(store) as lock:
        assert stat.S_IMODE(lock.path.stat().st_mode) == 0o600
        assert lock._descriptor is not None
        assert not os.get_inheritable(lock._descriptor)


def test_a_folder_in_the_way_is_refused(sqlite_site: SqliteSite) -> None:
    """What cannot be locked is not swept."""
    sqlite_site.path.with_name("app.sqlite.afterrun-lock").mkdir()
    with pytest.raises(Refused, match="cannot be opened"):
        sqlite_site.retention.prune(MONTH)
