"""Never two owners: live and dead ones, reused ids, restarts, namespaces, forged machines, long sweeps."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afterrun.core.errors import Refused, StoreLocked
from afterrun.stores.directory import lock as lock_module
from afterrun.stores.directory.ownership import Owner, Standing, read_owner, standing
from afterrun.stores.directory.process import Here, here, start_of, started_at
from directory.pi_tree import PiTree, opened, surroundings

HOLDER = Path(__file__).parent / "holder.py"
HOUR = 3_600.0
DAYS = 48 * HOUR
THERE, OTHER = "there", "other"
ME = Here(pid=10, start="500", namespace="pid:[1]", boot="boot-1", machine="machine-1")
OWNER = Owner.of(ME, "token", 0.0)


@pytest.mark.parametrize(
    ("owner", "start", "age", "expected"),
    [
        (OWNER, "500", 0.0, Standing.HELD),
        (OWNER, "500", DAYS, Standing.HELD),  # however long it takes, a live one is the owner
        (OWNER, None, 0.0, Standing.STALE),
        (OWNER, "501", 0.0, Standing.STALE),  # another process has got its id
        (replace(OWNER, namespace="pid:[2]"), None, HOUR, Standing.HELD),
        (replace(OWNER, namespace="pid:[2]"), None, DAYS, Standing.STALE),
        (replace(OWNER, boot="boot-0"), "500", HOUR, Standing.HELD),  # a restart, or a copy of a machine
        (replace(OWNER, boot="boot-0"), None, DAYS, Standing.STALE),
        (replace(OWNER, start=""), None, HOUR, Standing.HELD),
        (replace(OWNER, machine="machine-2"), None, DAYS, Standing.FOREIGN),
        (replace(OWNER, machine="machine-2", boot="boot-2"), None, DAYS, Standing.FOREIGN),
        (replace(OWNER, machine=""), None, DAYS, Standing.STALE),  # the same start of a kernel
        (replace(OWNER, machine="", boot="boot-2"), None, DAYS, Standing.FOREIGN),
        (replace(OWNER, machine="", boot=""), None, DAYS, Standing.FOREIGN),
        (None, None, HOUR, Standing.HELD),
        (None, None, DAYS, Standing.STALE),
        (OWNER, "500", -DAYS, Standing.HELD),
    ],
)
def test_who_may_take_a_lock_over(
    owner: Owner | None, start: str | None, age: float, expected: Standing
) -> None:
    """The rules alone, each by one difference from a live owner."""
    assert standing(owner, ME, start=start, age=age) is expected


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'{"version": 2}', b"[" * 100_000, OWNER.as_bytes().replace(b"10", b'"10"', 1)],
)
def test_an_owner_that_cannot_be_read_is_none(raw: bytes) -> None:
    """Whatever stands in the file, it is no error."""
    assert read_owner(raw) is None
    assert read_owner(OWNER.as_bytes()) == OWNER


@contextmanager
def holding(root: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds the lock."""
    command = [*before, sys.executable, str(HOLDER), "hold", str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings()
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def take(root: Path, *, breaking: str | None = None) -> None:
    """Take the lock and let it go."""
    with opened(root, break_token=breaking) as store, store.sweep_lock():
        pass


def owner_file(tree: PiTree) -> Path:
    """Return the file that says who has the lock."""
    return tree.root / ".afterrun" / "lock" / "owner.json"


def forge(tree: PiTree, **fields: object) -> dict[str, Any]:
    """Change what the owner's file says; make a lock of nobody first if there is none."""
    file = owner_file(tree)
    if not file.exists():
        file.parent.mkdir(parents=True)
        file.write_bytes(Owner.of(here(), "forged", time.time()).as_bytes())
    data: dict[str, Any] = json.loads(file.read_text()) | fields
    file.write_text(json.dumps(data))
    return data


def test_a_second_sweep_leaves_at_once_and_the_lock_goes_with_its_owner(tree: PiTree) -> None:
    """One at a time; a killed owner is no owner, and what it left is cleaned."""
    with holding(tree.root) as owner:
        with pytest.raises(StoreLocked, match=str(owner.pid)):
            take(tree.root)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        take(tree.root)
    assert sorted(path.name for path in (tree.root / ".afterrun").iterdir()) == ["journal", "log.jsonl"]
    assert (tree.root / ".afterrun").stat().st_mode & 0o777 == 0o700


def test_an_owner_that_sweeps_for_days_stays_the_owner(tree: PiTree) -> None:
    """Alive is alive: also where the last renewal is long ago, as of a process that was stopped."""
    with holding(tree.root) as owner:
        owner.send_signal(signal.SIGSTOP)
        forge(tree, renewed=time.time() - DAYS)
        with pytest.raises(StoreLocked):
            take(tree.root)
        owner.send_signal(signal.SIGCONT)


def test_a_process_that_has_only_got_the_owners_id_is_not_the_owner(tree: PiTree) -> None:
    """The start of the process tells; its id is used again."""
    forge(tree, pid=os.getpid(), start="1")
    take(tree.root)
    forge(tree, pid=os.getpid(), start=start_of(os.getpid()))
    with pytest.raises(StoreLocked):
        take(tree.root)


def test_an_owner_before_a_restart_is_believed_for_a_day(tree: PiTree) -> None:
    """Its id says nothing after a restart, and a copied machine has another start as well."""
    forge(tree, boot="another")
    with pytest.raises(StoreLocked):
        take(tree.root)
    forge(tree, boot="another", renewed=time.time() - DAYS)
    take(tree.root)


def test_the_lock_of_another_machine_is_broken_only_by_name(tree: PiTree) -> None:
    """Nothing here can tell whether it lives; a person can, and names the lock that is meant."""
    forge(tree, machine="another", renewed=time.time() - DAYS, token=THERE)
    with pytest.raises(StoreLocked, match=f"--break-lock {THERE}"):
        take(tree.root)
    with pytest.raises(StoreLocked):
        take(tree.root, breaking="another one")
    take(tree.root, breaking=THERE)


def test_a_lock_whose_flock_is_held_is_never_broken(tree: PiTree) -> None:
    """Whatever its file says and whoever names it: somebody has it."""
    with holding(tree.root):
        for fields in (
            {"machine": "another"},
            {"boot": "another", "renewed": 0.0},
            {"pid": 2**22 + 1},
            {"start": "1"},
        ):
            before = owner_file(tree).read_text()
            token = forge(tree, **fields)["token"]
            with pytest.raises(StoreLocked):
                take(tree.root, breaking=token)
            owner_file(tree).write_text(before)


def test_a_lock_that_names_nobody_is_taken_after_a_day(tree: PiTree) -> None:
    """By the time of its folder; until then somebody may be about to write it."""
    folder = owner_file(tree).parent
    folder.mkdir(parents=True)
    with pytest.raises(StoreLocked):
        take(tree.root)
    os.utime(folder, (time.time() - DAYS,) * 2)
    take(tree.root)
    assert not folder.exists()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tree: PiTree, tmp_path: Path) -> None:
    """Nor one in the place of our own folder."""
    (tree.root / ".afterrun").mkdir()
    (tree.root / ".afterrun" / "lock").symlink_to(tmp_path)
    with pytest.raises((Refused, StoreLocked)):
        take(tree.root)
    assert tmp_path.is_dir()


def _namespace() -> list[str]:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces are not permitted here")
    return command


def test_an_owner_in_another_namespace_stays_the_owner(tree: PiTree) -> None:
    """Its id means another process here, or none; its flock is what tells that it lives."""
    with holding(tree.root, *_namespace()):
        assert json.loads(owner_file(tree).read_text())["namespace"] != here().namespace
        with pytest.raises(StoreLocked):
            take(tree.root)
        forge(tree, renewed=time.time() - DAYS)
        with pytest.raises(StoreLocked):
            take(tree.root)


def test_a_killed_owner_in_another_namespace_is_believed_for_a_day(tree: PiTree) -> None:
    """Nobody can look at it from here, so only time tells."""
    with holding(tree.root, *_namespace()) as owner:
        assert owner.stdout is not None
        owner.kill()
        assert owner.stdout.read() == ""  # its end, once the last process in the namespace is gone
    with pytest.raises(StoreLocked):
        take(tree.root)
    forge(tree, renewed=time.time() - DAYS)
    take(tree.root)


def test_a_sweep_in_another_namespace_leaves_an_owner_here_alone(tree: PiTree) -> None:
    """There, too, the owner's id says nothing."""
    command = [*_namespace(), sys.executable, str(HOLDER), "hold", str(tree.root)]
    with holding(tree.root):
        forge(tree, renewed=time.time() - DAYS)
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=surroundings(), input="\n"
        )
    assert done.stdout == "locked\n"


def test_takers_of_a_stale_lock_never_have_it_together(tree: PiTree) -> None:
    """Several processes that find the same dead owner, again and again, are never two at once."""
    forge(tree, pid=2**22 + 1)
    command = [sys.executable, str(HOLDER), "compete", str(tree.root), "15"]
    racers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings()) for _ in range(4)
    ]
    try:
        said = [racer.communicate(timeout=90)[0] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
    assert said == ["done\n"] * 4


def test_only_its_owner_lets_a_lock_go(tree: PiTree) -> None:
    """One that was broken and taken is somebody else's when the first one ends."""
    with opened(tree.root) as store:
        with store.sweep_lock():
            forge(tree, token=OTHER)
        assert json.loads(owner_file(tree).read_text())["token"] == OTHER


def test_an_owner_renews_its_record(tree: PiTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread, so that a long deletion does not look like a dead owner."""
    monkeypatch.setattr(lock_module, "RENEWAL", 0.01)
    with opened(tree.root) as store, store.sweep_lock():
        first = json.loads(owner_file(tree).read_text())["renewed"]
        while json.loads(owner_file(tree).read_text())["renewed"] == first:
            os.sched_yield()


def test_what_killed_makers_left_is_cleaned_when_it_is_old(
    tree: PiTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that was never put in its place, or half removed, does not stay for ever."""
    for name in ("lock-0123", "lock-4567"):
        folder = tree.root / ".afterrun" / name
        folder.mkdir(parents=True)
        (folder / "owner.json").write_text("{}")
    take(tree.root)
    assert len(list((tree.root / ".afterrun").glob("lock-*"))) == 2
    monkeypatch.setattr(lock_module, "MAKING", -1.0)
    take(tree.root)
    assert list((tree.root / ".afterrun").glob("lock-*")) == []


def test_the_engines_own_lock_is_held_meanwhile(tree: PiTree) -> None:
    """Both kinds of retention would remove the same folders; the engine's lock keeps it away."""
    theirs = tree.root / ".async-retention.lock"
    with opened(tree.root) as store, store.sweep_lock():
        owner = json.loads((theirs / "owner.json").read_text())
        assert (owner["pid"], owner["version"]) == (os.getpid(), 1)
    assert not theirs.exists()


def test_a_live_retention_of_the_engine_is_waited_for(tree: PiTree) -> None:
    """Its lock is taken over only by its own rules: never from a live process, nor another machine."""
    theirs = tree.root / ".async-retention.lock"
    theirs.mkdir()
    live = {
        "version": 1,
        "token": "t",
        "pid": os.getpid(),
        "hostname": os.uname().nodename,
        "startedAt": 1,
        "processStartIdentity": f"linux:{start_of(os.getpid())}",
    }
    for owner in (live, live | {"hostname": "elsewhere", "pid": 2**22 + 1}):
        (theirs / "owner.json").write_text(json.dumps(owner))
        with pytest.raises(StoreLocked, match="engine"):
            take(tree.root)
        assert json.loads((theirs / "owner.json").read_text()) == owner
    (theirs / "owner.json").write_text(json.dumps(live | {"pid": 2**22 + 1}))
    take(tree.root)
    assert not theirs.exists()


def test_the_start_of_a_process_is_a_time(tree: PiTree) -> None:
    """It lies between the start of this test's process and now; nobody has the id of a dead one."""
    started = started_at(os.getpid())
    assert started is not None
    assert time.time() - 24 * HOUR * 365 < started <= time.time() + 2
    assert started_at(2**22 + 1) is None
