"""A backup of a directory: exactly what goes, verified before anything does, and a way back."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import BackupFailed, BackupOrder, DirectoryRetention, Policy, Refused, UsageError
from afterrun.core.errors import Exit
from afterrun.core.report import Report
from afterrun.service import SweepOptions
from afterrun.stores.directory import backup as making
from afterrun.stores.directory import backup_reading
from cli.kit import POWERLESS, run_cli, run_process
from directory.pi_tree import MONTH, PiTree

WORDS = ("--keep-for", "30d", "--apply", "--yes", "--json")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give the name of a backup."""
    return tmp_path / "backup.tar"


@pytest.fixture
def filled(tree: PiTree) -> PiTree:
    """Give two trees and a result that go, with links, empty folders and odd names, and a live run."""
    first = tree.run("first", files=2)
    (first / "deep" / "er").mkdir(parents=True)
    (first / "deep" / "empty").mkdir(mode=0o750)
    (first / "deep" / "er" / "big.bin").write_bytes(os.urandom(3_000_000))
    (first / "deep" / "out").symlink_to("/etc/passwd")
    (first / "deep" / ("n" * 200)).write_text("long")
    Path(os.fsdecode(os.fsencode(first / "deep") + b"/\xff\xfe")).write_text("bytes")
    (first / "run.sh").write_text("#!")
    (first / "run.sh").chmod(0o750)
    tree.age(first)
    os.utime(first / "run.sh", ns=(0, -1_500_000_001))  # a clock was wrong
    tree.run("child", under=tree.root / "nested-subagent-runs" / "first")
    tree.run("second")
    tree.run("lives", state="running")
    tree.result("result-pending/s/gone.json", "gone")
    return tree


@contextmanager
def retention(root: Path) -> Iterator[DirectoryRetention]:
    """Open a store."""
    with DirectoryRetention(str(root)) as found:
        yield found


def prune(root: Path, place: Path) -> Report:
    """Remove with a backup."""
    with retention(root) as found:
        return found.prune(MONTH, options=SweepOptions(offline=True), backup=BackupOrder(path=place))


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return all that is below a folder but our own: kind, mode, time and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".afterrun" in name:
            continue
        facts = path.lstat()
        content: object = None
        if path.is_symlink():
            content = path.readlink()
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        is_run = "async-subagent-runs/" in name or name.count("/") > 2 or path.is_file()
        time = facts.st_mtime_ns if is_run else 0  # folders above runs change with what is in them
        found[name] = (stat.S_IFMT(facts.st_mode), stat.S_IMODE(facts.st_mode), time, content)
    return found


def test_what_went_comes_back_exactly(filled: PiTree, place: Path) -> None:
    """Content, modes, times to the nanosecond, links as links, empty folders and strange names."""
    before = picture(filled.root)
    report = prune(filled.root, place)
    assert {kind: units.removed for kind, units in report.kinds.items()} == {"directory": 2, "result": 1}
    assert filled.names() == {"lives"}
    with retention(filled.root) as found:
        back = found.restore(place)
    assert (back.units, dict(back.kinds), back.members) == (3, {"directory": 2, "result": 1}, 3)
    assert picture(filled.root) == before
    assert dict(back.rows) == dict(report.rows)
    assert filled.tombstones() == []
    assert run_cli("verify", filled.root).code == Exit.DONE


def test_the_report_tells_of_the_backup(filled: PiTree, place: Path) -> None:
    """The same words as of a database; the file is new, private, and a plain tar archive."""
    answer = run_cli("prune", filled.root, *WORDS, "--backup", place)
    assert answer.code == Exit.DONE
    facts = answer.json["backup"]
    assert (facts["kind"], facts["units"], facts["kinds"]) == ("removed", 3, {"directory": 2, "result": 1})
    assert facts["rows"] == answer.json["rows"]
    assert facts["bytes"] == place.stat().st_size
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with tarfile.open(place) as archive:
        names = archive.getnames()
        end = json.loads(archive.extractfile("afterrun-end.json").read())  # type: ignore[union-attr]
        assert archive.getmember("store/async-subagent-runs/first/deep/out").issym()
    assert end["checksum"] == facts["checksum"]
    assert "store/async-subagent-runs/second/status.json" in names
    assert not any("lives" in name for name in names)
    assert list(place.parent.glob(".backup*")) == []


def test_one_run_comes_back_by_its_id_or_that_of_a_member(filled: PiTree, place: Path) -> None:
    """The whole unit comes, and nothing else; a second time it is there already."""
    prune(filled.root, place)
    answer = run_cli("restore", filled.root, place, "child", "--json")
    assert (answer.code, answer.json["units"], answer.json["members"]) == (Exit.DONE, 1, 2)
    assert filled.names() == {"lives", "first"}
    again = run_cli("restore", filled.root, place, "first", "--json").json
    assert (again["units"], again["present"], again["refused"]) == (0, 1, {})
    everything = run_cli("restore", filled.root, place, "--json").json
    assert (everything["units"], everything["present"]) == (2, 1)
    assert run_cli("restore", filled.root, place, "nobody").code == Exit.ERROR


def test_what_is_there_again_is_never_replaced(filled: PiTree, place: Path) -> None:
    """A run of the same name that differs, or half of a tree, stays as it is; the rest comes back."""
    prune(filled.root, place)
    filled.run("second", files=3)
    filled.run("child", under=filled.root / "nested-subagent-runs" / "first")
    before = picture(filled.root)
    refused = run_cli("restore", filled.root, place, "second", "--json")
    assert refused.code == Exit.REFUSED
    answer = run_cli("restore", filled.root, place, "--json")
    assert answer.code == Exit.DEFERRED
    assert answer.json["refused"] == {"it is in the store again": 2}
    assert set(answer.json["named"]) == {"first", "second"}
    after = picture(filled.root)
    assert {name: after[name] for name in before} == before
    assert filled.tombstones() == []


def special(folder: Path, kind: str) -> None:
    """Put something into a run that no archive holds."""
    if kind == "fifo":
        os.mkfifo(folder / "it")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "it"))


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_a_special_file_keeps_its_unit_alone(
    kind: str, tree: PiTree, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never opened; the unit is not in the backup, stays whole, and is told of with its reason."""
    tree.run("plain")
    odd = tree.run("odd")
    monkeypatch.chdir(odd)  # the path of a socket is short
    special(Path(), kind)
    tree.age(odd)
    report = prune(tree.root, place)
    assert (report.units.removed, report.units.deferred) == (1, 1)
    assert tree.names() == {"odd"}
    assert any("FIFO" in notice and "odd" in notice for notice in report.notices)
    with tarfile.open(place) as archive:
        assert not any("odd" in name for name in archive.getnames())
    answer = run_cli("prune", tree.root, *WORDS, "--backup", place.with_name("more.tar"))
    assert answer.code == Exit.DEFERRED


def test_what_cannot_be_read_keeps_its_unit_alone(tree: PiTree, place: Path) -> None:
    """A file without the right to read it is no reason to lose it."""
    tree.run("plain")
    closed = tree.run("closed")
    (closed / "output-0.log").chmod(0)
    answer = run_process("prune", tree.root, *WORDS, "--backup", place, prefix=POWERLESS)
    assert answer.code == Exit.DEFERRED
    assert answer.json["units"]["directory"]["deferred"] == 1
    assert any("cannot be read" in notice for notice in answer.json["notices"])
    assert tree.names() == {"closed"}


def quietly(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Change a run, and leave its times as they were, as far as anybody can."""

    def changed(folder: Path) -> None:
        times = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
        change(folder)
        for path, facts in times.items():
            if path.exists():
                os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    return changed


@pytest.mark.parametrize(
    "change",
    [
        quietly(lambda run: (run / "output-0.log").write_text("OUTPUT\n")),
        quietly(lambda run: (run / "output-0.log").chmod(0o600)),
        lambda run: (run / "new").write_text("new"),
        lambda run: (run / "output-0.log").unlink(),
    ],
    ids=["content, with its old time", "mode", "a new file", "a file less"],
)
def test_a_unit_that_changed_since_the_backup_stays(
    change: Callable[[Path], None], tree: PiTree, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared under its tombstone's name, put back, and told of; whatever the policy says of it."""
    first, _ = tree.run("first"), tree.run("second")
    verify = backup_reading.verify

    def then_change(file: object) -> object:
        found = verify(file)  # type: ignore[arg-type]
        change(first)
        return found

    monkeypatch.setattr(making, "verify", then_change)
    report = prune(tree.root, place)
    assert report.units.removed == 1
    assert tree.names() == {"first"}
    assert tree.tombstones() == []
    assert sum(report.units.skipped.values()) == 1


def test_a_result_that_changed_since_the_backup_stays(
    tree: PiTree, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is compared, whatever its time."""
    file = tree.result("gone.json", "gone")
    verify = backup_reading.verify

    def then_change(opened: object) -> object:
        found = verify(opened)  # type: ignore[arg-type]
        facts = file.stat()
        file.write_text(file.read_text() + " ")
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        return found

    monkeypatch.setattr(making, "verify", then_change)
    report = prune(tree.root, place)
    assert report.kinds["result"].removed == 0
    assert dict(report.kinds["result"].skipped) == {"recheck: changed since the backup": 1}
    assert file.exists()


def test_a_backup_that_reads_back_wrong_removes_nothing(
    filled: PiTree, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte on the disk that is another one ends it before the first batch; no file stays."""
    fsync = os.fsync

    def spoil(descriptor: int) -> None:
        fsync(descriptor)
        if os.fstat(descriptor).st_size > 3_000_000:
            os.pwrite(descriptor, b"\0", os.fstat(descriptor).st_size // 2)

    monkeypatch.setattr(os, "fsync", spoil)
    before = picture(filled.root)
    with pytest.raises(BackupFailed):
        prune(filled.root, place)
    assert picture(filled.root) == before
    assert list(place.parent.glob("*backup.tar*")) == []


def test_with_a_limit_only_the_first_units_are_in_it(filled: PiTree, place: Path) -> None:
    """What goes is what is in the backup, and no more."""
    answer = run_cli("prune", filled.root, *WORDS, "--limit", "1", "--backup", place)
    assert answer.json["backup"]["units"] == 1
    assert sum(units["removed"] for units in answer.json["units"].values()) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("store/backup.tar", UsageError),
        ("store/async-subagent-runs/backup.tar", UsageError),
        ("link/backup.tar", UsageError),
        ("there.tar", UsageError),
        ("open/backup.tar", Refused),
    ],
)
def test_a_place_that_is_not_safe_is_refused(
    name: str, error: type[Exception], filled: PiTree, tmp_path: Path
) -> None:
    """In the store, by whatever path; a file that is there; a folder that others can write to."""
    (tmp_path / "link").symlink_to(filled.runs)
    (tmp_path / "there.tar").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(error):
        prune(filled.root, tmp_path / name)
    assert "first" in filled.names()


def test_there_is_no_whole_backup(filled: PiTree, place: Path) -> None:
    """The kind of a database is refused, also by the dry run."""
    words = ("--backup", place, "--backup-kind", "whole")
    assert run_cli("prune", filled.root, *WORDS, *words).code == Exit.REFUSED
    assert run_cli("prune", filled.root, "--keep-for", "30d", *words).code == Exit.REFUSED
    assert not place.exists()


def test_a_backup_and_the_trash_go_together(filled: PiTree, place: Path) -> None:
    """What is in the trash is in the backup, too, and comes back from either."""
    answer = run_cli("prune", filled.root, *WORDS, "--trash", "1d", "--backup", place)
    assert answer.json["backup"]["units"] == 3
    assert run_cli("restore", filled.root, "trash", "second").code == Exit.DONE
    assert run_cli("restore", filled.root, place, "first").code == Exit.DONE
    assert filled.names() == {"lives", "first", "second"}


def test_a_backup_holds_whatever_policy_it_was_made_by(tree: PiTree, place: Path, tmp_path: Path) -> None:
    """Periods, caps and narrower rules stand in its head."""
    for name in ("a", "b", "c"):
        tree.run(name)
    tree.run("failed", state="failed")
    file = tmp_path / "policy.toml"
    rules = '[[policy.rules]]\nmatch = { status = ["failed"] }\nkeep_for = "90d"\n'
    file.write_text(f'[policy]\nkeep_for = "30d"\nkeep_daily = 1\ncap_units = 100\n{rules}')
    words = ("--policy", file, "--apply", "--yes", "--json", "--backup", place)
    answer = run_cli("prune", tree.root, *words)
    assert (answer.code, answer.json["backup"]["units"]) == (Exit.DONE, 2)
    assert run_cli("restore", tree.root, place).code == Exit.DONE


def test_history_shows_a_restore(filled: PiTree, place: Path) -> None:
    """With the units that came back."""
    prune(filled.root, place)
    run_cli("restore", filled.root, place)
    records = run_cli("history", filled.root, "--json").json["records"]
    assert records[-1]["command"] == "restore"
    assert records[-1]["restored"] == 3


def test_keeping_time_counts_from_the_old_end(filled: PiTree, place: Path) -> None:
    """What came back is as old as it was: the next sweep takes it again."""
    prune(filled.root, place)
    with retention(filled.root) as found:
        found.restore(place)
        assert found.plan(Policy(keep_for=timedelta(days=30))).would_go == 3
