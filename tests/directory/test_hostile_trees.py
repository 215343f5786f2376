"""Trees that nobody would make on purpose: nothing outside is touched, and each has a clear reason."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.core.errors import StoreFailure
from directory.pi_tree import Pass, PiTree, opened, planned, surroundings, verdicts

HERE = Path(__file__).parent
NOBODY = 65_534


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Give a folder beside the store with a file that must stay."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


def untouched(outside: Path) -> bool:
    """Say whether the folder beside the store is as it was."""
    return [path.name for path in outside.iterdir()] == ["precious"]


def test_a_link_in_a_run_goes_and_what_it_points_at_stays(tree: PiTree, outside: Path) -> None:
    """Links are removed as links."""
    folder = tree.run("r")
    (folder / "link").symlink_to(outside)
    (folder / "up").symlink_to("..")
    tree.age(folder)
    os.utime(outside)
    assert Pass(tree.root).run()[0].units.removed == 1
    assert untouched(outside)
    assert tree.runs.is_dir()


def test_a_link_in_the_place_of_a_run_is_no_run(tree: PiTree, outside: Path) -> None:
    """A run that is a symbolic link is blocked; neither it nor its target is touched."""
    (tree.runs / "r").symlink_to(outside)
    assert verdicts(tree.root)["r"] >= {"blocked", "unsafe-path"}
    assert Pass(tree.root).run()[0].units.removed == 0
    assert untouched(outside)
    assert (tree.runs / "r").is_symlink()


def test_a_link_in_the_place_of_the_folder_of_runs_is_not_followed(tree: PiTree, outside: Path) -> None:
    """What discovery cannot open without following a link is reported, and nothing in it is proposed."""
    moved = outside.parent / "moved"
    tree.run("r")
    tree.runs.rename(moved)
    tree.runs.symlink_to(moved)
    with opened(tree.root) as store:
        assert planned(store.runs).units.scanned == 0
        assert any("async-subagent-runs" in line for line in store.problems())
    Pass(tree.root).run()
    assert (moved / "r" / "status.json").exists()


def test_a_link_in_the_place_of_a_status_says_nothing(tree: PiTree, outside: Path) -> None:
    """A status that is a link is malformed, whatever it points at."""
    folder = tree.run("r")
    (folder / "status.json").rename(outside / "precious")
    (folder / "status.json").symlink_to(outside / "precious")
    tree.age(folder)
    assert verdicts(tree.root)["r"] == {"blocked", "invalid-status"}


def test_a_plain_file_among_the_runs_is_no_run(tree: PiTree) -> None:
    """It is named, and it stays."""
    (tree.runs / "stray").write_text("x")
    found = verdicts(tree.root)
    assert "unsafe-path" in found["stray"]
    Pass(tree.root).run()
    assert (tree.runs / "stray").exists()


def test_pipes_and_sockets_are_not_opened(tree: PiTree) -> None:
    """A FIFO in the place of a status, a record or a result waits for nobody; within a run it goes."""
    folder = tree.run("plain")
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "x.lock")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    tree.age(folder)
    (tree.run("piped") / "status.json").unlink()
    os.mkfifo(tree.runs / "piped" / "status.json")
    tree.age(tree.runs / "piped")
    os.mkfifo(tree.results / "r.json")
    os.utime(tree.results / "r.json", (tree.old, tree.old))
    found = verdicts(tree.root)
    assert found == {"plain": {"expired"}, "piped": {"blocked", "invalid-status"}}
    result = verdicts(tree.root, result=True)
    assert list(result.values()) == [{"blocked", "unsafe-path"}]
    assert [report.units.removed for report in Pass(tree.root).run()] == [1, 0]
    assert tree.names() == {"piped"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (b"new\nline", "unsafe-name"),
        (b"\x1b[31mred", "unsafe-name"),
        (b"not-utf-8-\xff", "unreadable-key"),
    ],
)
def test_a_run_of_a_strange_name_is_blocked(name: bytes, reason: str, tree: PiTree) -> None:
    """The name could not be shown, or not be bound; the folder stays."""
    shown = os.fsdecode(name)
    tree.run(shown)
    found = verdicts(tree.root) if reason == "unsafe-name" else {}
    with opened(tree.root) as store:
        report = planned(store.runs)
    assert dict(report.units.blocked) == {reason: 1}
    assert not found or found[shown] >= {"blocked", reason}
    assert Pass(tree.root).run()[0].units.removed == 0
    assert (tree.runs / shown).is_dir()


def test_a_name_of_255_bytes_goes(tree: PiTree) -> None:
    """The longest name that a file system takes is a plain one, and tombstones have names of their own."""
    tree.run("é" * 127 + "x")
    assert Pass(tree.root).run()[0].units.removed == 1
    assert tree.names() == set()


def test_wildcards_in_a_name_stand_for_nothing_but_themselves(tree: PiTree) -> None:
    """`ray[1]` is one run; `ray1` beside it lives and stays."""
    tree.run("ray[1]")
    tree.run("ray1", state="running")
    tree.run("*", state="running")
    assert Pass(tree.root).run()[0].units.removed == 1
    assert tree.names() == {"ray1", "*"}


def test_a_status_that_names_a_way_out_is_no_run(tree: PiTree) -> None:
    """An id with `..` differs from the name of its folder, and templates never use it."""
    tree.run("r", runId="../../etc")
    assert verdicts(tree.root)["r"] == {"blocked", "identity-mismatch"}


def test_folders_too_deep_to_walk_block_their_run(tree: PiTree) -> None:
    """A chain of folders costs a descriptor each: beyond a bound the run is named and stays."""
    folder = tree.run("r")
    deep = folder.joinpath(*["d"] * 120)
    deep.mkdir(parents=True)
    tree.age(folder)
    assert "too-deep" in verdicts(tree.root)["r"]
    assert Pass(tree.root).run()[0].units.removed == 0
    assert deep.is_dir()


def test_a_forged_journal_leads_nowhere(tree: PiTree, outside: Path) -> None:
    """A journal that names a path outside, or an entry of somebody else, deletes nothing and is reported."""
    journal = tree.root / ".afterrun" / "journal"
    journal.mkdir(parents=True)
    facts = outside.stat()
    entry = {
        "unit": "x",
        "kind": "directory",
        "run": "x",
        "path": ["..", "x"],
        "tombstone": "outside",
        "inode": facts.st_ino,
        "device": facts.st_dev,
        "end": None,
        "at": 0,
        "state": "deleting",
    }
    forged = [entry, entry | {"path": ["x"], "tombstone": "async-subagent-runs"}, {"path": 7}]
    for number, item in enumerate(forged):
        content = {"version": 1, "root": facts.st_dev, "entries": [item]}
        (journal / f"{number}.json").write_text(json.dumps(content))
    (journal / "broken.json").write_text("{")
    (tree.run("r") / "note").touch()
    (tree.root / ".afterrun").chmod(0o700)
    tree.result("gone.json", "gone")
    assert list(verdicts(tree.root, result=True).values()) == [{"blocked", "run-tombstone-present"}]
    with opened(tree.root) as store:
        assert len(list(store.problems())) == 4
        with store.sweep_lock():
            assert store.work.held is not None
            assert len(store.work.held.notices) == 4
    assert untouched(outside)
    assert tree.runs.is_dir()


def test_a_folder_of_ours_that_others_can_write_to_is_not_believed(tree: PiTree) -> None:
    """What stands in the journal decides what is deleted."""
    tree.run("r")
    (tree.root / ".afterrun").mkdir()
    (tree.root / ".afterrun").chmod(0o777)
    with pytest.raises(StoreFailure, match="by others"):
        Pass(tree.root).run()
    assert tree.names() == {"r"}


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Path]:
    """Give a folder that a user without rights can reach, below no private one."""
    folder = Path(tempfile.mkdtemp(prefix="afterrun-test-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    shutil.rmtree(folder)


def _as_nobody(root: Path) -> dict[str, object]:
    command = [sys.executable, str(HERE / "one_pass.py"), str(root), str(NOBODY)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=surroundings())
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_folders_that_cannot_be_read_block_their_run(others: Path) -> None:
    """Unreadable is not the same as gone: such a run stays, and so does one with such a folder inside."""
    tree = PiTree(others / "store")
    tree.run("open")
    closed = tree.run("closed")
    inner = tree.run("inner") / "private"
    inner.mkdir()
    tree.age(inner.parent)
    if os.getuid() == 0:
        for path in [others / "store", *(others / "store").rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    closed.chmod(0)
    inner.chmod(0)
    answer = _as_nobody(tree.root)
    assert answer["removed"] == {"directory": 1, "result": 0}
    assert answer["blocked"] == {"unreadable": 2}
    assert tree.names() == {"closed", "inner"}


def test_a_folder_of_runs_that_may_not_be_written_to_defers_its_runs(others: Path) -> None:
    """Without the right to rename, nothing goes; each run is deferred with the system's own word."""
    tree = PiTree(others / "store")
    tree.run("r")
    if os.getuid() == 0:
        for path in [others / "store", *(others / "store").rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    tree.runs.chmod(0o555)
    answer = _as_nobody(tree.root)
    assert answer["removed"] == {"directory": 0, "result": 0}
    assert answer["deferred"] == {"r": "io"}
    assert (tree.runs / "r" / "status.json").exists()


def _in_mount_namespace(mode: str, root: Path) -> dict[str, object]:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    probe = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("mounts are not permitted here")
    command = ["unshare", "-m", "--propagation", "private", sys.executable, str(HERE / "mounting.py"), mode]
    done = subprocess.run(
        [*command, str(root)], check=False, capture_output=True, text=True, env=surroundings()
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("mode", ["bind-below", "bind-file", "bind-run", "other-device", "bind-between"])
def test_nothing_below_a_mount_point_is_touched(mode: str, tree: PiTree, outside: Path) -> None:
    """A bind mount of the same device looks like any folder; the kernel's table names it."""
    tree.run("r")
    tree.run("free")
    answer = _in_mount_namespace(mode, tree.root)
    assert answer["removed"] == {"directory": 1, "result": 0}
    assert answer["precious"] is True
    assert tree.names() == {"r"}
    assert untouched(outside)


def test_on_a_full_file_system_everything_stays(tree: PiTree) -> None:
    """Where the journal cannot be written, no run is renamed; the pass fails and says why."""
    answer = _in_mount_namespace("full", tree.root)
    assert answer["ended"] == ["failed", "failed"] or answer["ended"] == ["refused"]
    assert "disk-full" in str(answer["messages"]) or "No space" in str(answer["messages"])
    assert answer["names"] == ["r-0", "r-1", "r-2"]
    assert answer["tombstones"] == 0
