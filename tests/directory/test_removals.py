"""What happens between the first look at a run and its end: writers, killers, and the way back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun.core.errors import Refused, StoreFailure, UnitNotFound
from afterrun.stores.directory import folders, leftovers, removal
from afterrun.stores.directory.leftovers import settle
from afterrun.stores.directory.sweeping import sweeping
from afterrun.stores.directory.trash import restore
from directory.pi_tree import DAY, Pass, PiTree, opened, planned, verdicts

Hook = Callable[[str, str], object]


@pytest.fixture
def after_rename(monkeypatch: pytest.MonkeyPatch) -> list[Hook]:
    """Give a list of hooks that are called after each rename of a removal, with both names."""
    hooks: list[Hook] = []
    rename = folders.rename_new

    def renaming(old: str, new: str, *, at: int, to: int | None = None) -> None:
        rename(old, new, at=at, to=to)
        for hook in hooks:
            hook(old, new)

    monkeypatch.setattr(removal, "rename_new", renaming)
    return hooks


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the content of all files of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_writer_with_an_open_file_gets_its_run_back_whole(tree: PiTree, after_rename: list[Hook]) -> None:
    """A write after the rename is seen by the second look, and the run is back as the writer left it."""
    folder = tree.run("r", files=3)
    tree.run("other")
    with (folder / "output-1.log").open("ab", buffering=0) as log:
        tree.age(folder)
        after_rename.append(lambda old, _: log.write(b"more\n") and None if old == "r" else None)
        report = Pass(tree.root).run()[0]
        log.write(b"and more\n")
    assert (report.units.removed, dict(report.units.skipped)) == (1, {"recheck: grace": 1})
    assert tree.names() == {"r"}
    assert snapshot(folder)["output-1.log"] == b"output\nmore\nand more\n"
    assert len(snapshot(folder)) == 4
    assert tree.tombstones() == []


def test_a_run_that_runs_again_after_the_rename_comes_back(tree: PiTree, after_rename: list[Hook]) -> None:
    """A status that changes through an open file is read under the new name."""
    folder = tree.run("r")
    with (folder / "status.json").open("r+") as status:

        def again(old: str, _new: str) -> None:
            if old == "r":
                status.write(json.dumps(tree.status("r", state="running")))
                status.truncate()
                status.flush()

        after_rename.append(again)
        report = Pass(tree.root).run()[0]
    assert dict(report.units.skipped) == {"recheck: live-member": 1}
    assert tree.names() == {"r"}


def test_a_wait_that_comes_after_the_rename_is_honoured(tree: PiTree, after_rename: list[Hook]) -> None:
    """Waits are read again by the second look."""
    tree.run("r")
    after_rename.append(lambda old, _: tree.wait("w.json", "r", expires=60) and None if old == "r" else None)
    report = Pass(tree.root).run()[0]
    assert dict(report.units.skipped) == {"recheck: wait-reference": 1}
    assert tree.names() == {"r"}


def test_a_run_whose_name_is_taken_meanwhile_stays_as_a_tombstone(
    tree: PiTree, after_rename: list[Hook]
) -> None:
    """Nothing is overwritten: both are there, it is reported, and the old one goes back once it can."""
    tree.run("r", files=2)

    def take(old: str, _new: str) -> None:
        if old == "r" and not (tree.runs / "r").exists():
            (tree.runs / "r").mkdir()
            (tree.runs / "r" / "status.json").write_text(json.dumps(tree.status("r", state="running")))
            tree.wait("w.json", "r", expires=60)

    after_rename.append(take)
    mine = Pass(tree.root)
    report = mine.run()[0]
    assert report.units.removed == 0
    assert any("is there again" in notice for notice in mine.notices)
    assert json.loads((tree.runs / "r" / "status.json").read_text())["state"] == "running"
    left = [path for path in tree.tombstones() if path.parent == tree.runs]
    assert len(left) == 1
    with opened(tree.root) as store:
        assert any("moved and not put back" in line for line in store.problems())
    after_rename.clear()
    Pass(tree.root).run()
    assert left[0].exists(), "the name is still taken"
    (tree.runs / "r" / "status.json").unlink()
    (tree.runs / "r").rmdir()
    (tree.waits / "w.json").unlink()
    report = Pass(tree.root).run()[0]
    assert report.units.removed == 1
    assert tree.tombstones() == []


def test_an_interrupt_between_rename_and_decision_puts_everything_back(
    tree: PiTree, after_rename: list[Hook]
) -> None:
    """Whatever stops a batch before its decision leaves every run in its place."""
    for name in ("a", "b", "c"):
        tree.run(name)

    def stop(old: str, _new: str) -> None:
        if old == "b":
            raise KeyboardInterrupt

    after_rename.append(stop)
    with pytest.raises(KeyboardInterrupt):
        Pass(tree.root).run()
    after_rename.clear()
    assert tree.names() == {"a", "b", "c"}
    assert tree.tombstones() == []
    assert Pass(tree.root).run()[0].units.removed == 3
    assert tree.tombstones() == []


def test_nothing_is_renamed_once_the_lock_is_lost(tree: PiTree, after_rename: list[Hook]) -> None:
    """The token is read before each rename and each deletion; another one's ends the pass."""
    for name in ("a", "b", "c"):
        tree.run(name)
    owner = tree.root / ".afterrun" / "lock" / "owner.json"

    def forge(old: str, _new: str) -> None:
        if old == "a":
            owner.write_text(owner.read_text().replace('"token": "', '"token": "x'))

    after_rename.append(forge)
    report = Pass(tree.root).run()[0]
    assert report.ended == "failed"
    assert report.message.startswith("lock-lost")
    assert tree.names() == {"a", "b", "c"}


def test_a_run_that_cannot_be_renamed_is_deferred_alone(
    tree: PiTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the system refuses to rename is left for later; the others go."""
    for name in ("a", "b", "c"):
        tree.run(name)
    rename = folders.rename_new

    def refusing(old: str, new: str, *, at: int, to: int | None = None) -> None:
        if old == "b":
            raise OSError(16, os.strerror(16), old)
        rename(old, new, at=at, to=to)

    monkeypatch.setattr(removal, "rename_new", refusing)
    mine = Pass(tree.root)
    report = mine.run()[0]
    assert (report.units.removed, report.units.deferred) == (2, 1)
    assert mine.deferrals.failed == {"b": "io"}
    assert tree.names() == {"b"}
    assert tree.tombstones() == []


def test_the_host_ends_within_a_deletion_and_the_next_pass_finishes_it(tree: PiTree) -> None:
    """A run of many files is not waited for; what is left of it is named by the journal and goes next."""
    tree.run("r", files=50)
    asked: list[int] = []

    def halt() -> bool:
        asked.append(1)
        return len(asked) > 20

    with opened(tree.root) as store:
        store.heed(halt)
        reports = Pass(tree.root).over(store)
    assert reports[0].units.removed == 1
    left = [path for path in tree.tombstones() if path.parent == tree.runs]
    assert len(left) == 1
    assert 0 < len(list(left[0].iterdir())) < 51
    with opened(tree.root) as store:
        assert any("half deleted" in line for line in store.problems())
    Pass(tree.root).run()
    assert tree.tombstones() == []


def test_a_tombstone_without_its_status_is_still_removed(tree: PiTree) -> None:
    """What the journal says of a tombstone is enough; the order in which files went does not matter."""
    tree.run("r")
    Pass(tree.root).run(trash=timedelta(hours=24))
    left = [path for path in tree.tombstones() if path.parent == tree.runs]
    (left[0] / "status.json").unlink()
    _backdate(tree, hours=25)
    Pass(tree.root).run()
    assert tree.tombstones() == []


def _backdate(tree: PiTree, *, hours: float, **fields: object) -> None:
    """Make everything in the journal older, or otherwise different."""
    for file in (tree.root / ".afterrun" / "journal").iterdir():
        data = json.loads(file.read_text())
        data["entries"] = [
            entry | {"until": entry["until"] - int(hours * 3_600_000_000)} | fields
            for entry in data["entries"]
        ]
        file.write_text(json.dumps(data))


def test_what_is_in_the_trash_comes_back_whole(tree: PiTree) -> None:
    """Within the trash window a run is put back as it was, with its times."""
    folder = tree.run("r", files=3)
    before, when = snapshot(folder), folder.stat().st_mtime
    assert Pass(tree.root).run(trash=timedelta(hours=24))[0].rows == {"folders": 1, "files": 4}
    assert tree.names() == set()
    _backdate(tree, hours=23)
    Pass(tree.root).run(trash=timedelta(hours=24))
    with opened(tree.root) as store:
        with store.sweep_lock():
            assert store.restore("r").units == 1
        assert list(store.problems()) == []
    assert snapshot(folder) == before
    assert folder.stat().st_mtime == when
    assert verdicts(tree.root)["r"] == {"expired"}


def test_the_trash_is_emptied_after_its_window(tree: PiTree) -> None:
    """The window counts from the rename, not from the age of the run (weak point 4 of the engine's own)."""
    tree.run("r")
    trash = timedelta(hours=24)
    Pass(tree.root).run(trash=trash)
    _backdate(tree, hours=23.9)
    Pass(tree.root).run(trash=trash)
    assert len([path for path in tree.tombstones() if path.parent == tree.runs]) == 1
    _backdate(tree, hours=0.2)
    Pass(tree.root).run(trash=trash)
    assert tree.tombstones() == []
    with opened(tree.root) as store, store.sweep_lock(), pytest.raises(UnitNotFound):
        store.restore("r")


def test_a_tombstone_stays_while_a_folder_of_its_name_is_back(tree: PiTree) -> None:
    """After the window, too: somebody may be comparing them."""
    tree.run("r")
    Pass(tree.root).run(trash=timedelta(hours=24))
    tree.run("r", state="running")
    _backdate(tree, hours=30)
    Pass(tree.root).run()
    assert len([path for path in tree.tombstones() if path.parent == tree.runs]) == 1
    with opened(tree.root) as store, store.sweep_lock(), pytest.raises(Refused, match="taken again"):
        store.restore("r")


def test_a_half_deleted_run_does_not_come_back(tree: PiTree) -> None:
    """A restore that would bring back a part is refused."""
    tree.run("r")
    Pass(tree.root).run(trash=timedelta(hours=24))
    _backdate(tree, hours=0, state="deleting")
    # a restore begins as a sweep does, and that would end the deletion; so look without it
    with (
        opened(tree.root) as store,
        sweeping(store.site) as mine,
        pytest.raises(Refused, match="half deleted"),
    ):
        restore(mine, "r")


def test_a_tombstone_that_is_another_folder_is_left_alone(tree: PiTree) -> None:
    """Only what has the inode of the journal's entry is deleted."""
    tree.run("r")
    Pass(tree.root).run(trash=timedelta(hours=24))
    left = next(path for path in tree.tombstones() if path.parent == tree.runs)
    left.rename(tree.root / "elsewhere")
    left.mkdir()
    (left / "mine").touch()
    _backdate(tree, hours=30)
    mine = Pass(tree.root)
    mine.run()
    assert (left / "mine").exists()
    assert any("not what the journal says" in notice for notice in mine.notices)


def test_a_workflow_goes_whole_or_not_at_all(tree: PiTree) -> None:
    """The tree has the end of its latest member; one that lives keeps all of it."""
    tree.run("flow", mode="workflow", steps=[{"agent": "a", "status": "complete", "runId": "child-1"}])
    tree.run("child-1", parentWorkflowRunId="flow", workflowKey="one")
    late = tree.run("child-2", parentWorkflowRunId="flow", workflowKey="two")
    os.utime(late / "output-0.log", (time.time() - DAY,) * 2)
    assert verdicts(tree.root) == {"flow": {"recent", "keep-for"}}
    assert Pass(tree.root).run()[0].units.removed == 0
    tree.age(late)
    with opened(tree.root) as store:
        report = planned(store.runs)
        assert (report.units.expired, report.units.members, report.units.unrooted) == (1, 3, 0)
        assert set(store.runs.find("child-2").members) == {"flow", "child-1", "child-2"}
    report = Pass(tree.root).run()[0]
    assert report.units.removed == 1
    assert tree.names() == set()


def test_a_tree_of_which_one_member_comes_back_comes_back_whole(
    tree: PiTree, after_rename: list[Hook]
) -> None:
    """A child that is written to after the rename brings its parent and its siblings back."""
    tree.run("flow", mode="workflow")
    child = tree.run("child", parentWorkflowRunId="flow")
    tree.run("sibling", parentWorkflowRunId="flow")
    with (child / "output-0.log").open("ab", buffering=0) as log:
        tree.age(child)
        after_rename.append(lambda old, _: log.write(b"x") and None if old == "sibling" else None)
        assert Pass(tree.root).run()[0].units.removed == 0
    assert tree.names() == {"flow", "child", "sibling"}


def test_a_child_that_begins_after_the_scan_keeps_its_tree(tree: PiTree, after_rename: list[Hook]) -> None:
    """The second look lists the runs again where a tree is to go."""
    tree.run("flow", mode="workflow")
    tree.run("child", parentWorkflowRunId="flow")

    def begin(old: str, _new: str) -> None:
        if old == "child":
            tree.run("late", parentWorkflowRunId="flow", state="running")

    after_rename.append(begin)
    report = Pass(tree.root).run()[0]
    assert (report.units.removed, dict(report.units.skipped)) == (0, {"recheck: live-member": 1})
    assert tree.names() == {"flow", "child", "late"}


def test_nested_runs_go_with_the_run_that_started_them(tree: PiTree) -> None:
    """They lie in a folder of their own, named for the root; a live one keeps all."""
    nested = tree.root / "nested-subagent-runs" / "top"
    tree.run("top", steps=[{"agent": "a", "status": "complete", "children": [{"id": "deep"}]}])
    inner = tree.run("deep", under=nested, isNested=True)
    (inner / "status.json").write_text(json.dumps(tree.status("deep", isNested=True, state="running")))
    tree.age(inner)
    assert verdicts(tree.root) == {"top": {"protected", "live-member"}}
    (inner / "status.json").write_text(json.dumps(tree.status("deep", isNested=True)))
    tree.age(inner)
    assert Pass(tree.root).run()[0].units.removed == 1
    assert tree.names() == set()
    assert not inner.exists()


def test_runs_that_are_each_others_parents_are_counted_and_stay(tree: PiTree) -> None:
    """No root reaches a circle; the plan says how many runs that is."""
    tree.run("a", parentWorkflowRunId="b")
    tree.run("b", parentWorkflowRunId="a")
    with opened(tree.root) as store:
        report = planned(store.runs)
    assert (report.units.expired, report.units.unrooted) == (0, 2)
    assert Pass(tree.root).run()[0].units.removed == 0


def test_an_unknown_state_stops_the_whole_store(tree: PiTree) -> None:
    """A newer engine may write states that mean life, and such a run may need others."""
    tree.run("a")
    tree.run("b", state="hibernating")
    with pytest.raises(Refused, match="hibernating"):
        Pass(tree.root).run()
    assert tree.names() == {"a", "b"}


def test_leftovers_take_a_bounded_time(tree: PiTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others left is settled for a minute at most, and the rest by the next sweep."""
    for name in ("a", "b"):
        tree.run(name)
        Pass(tree.root, batch_units=1).run(trash=timedelta(hours=24))
    _backdate(tree, hours=30)
    monkeypatch.setattr(leftovers, "SECONDS", -1.0)
    with opened(tree.root, trash=timedelta(hours=24)) as store, store.sweep_lock():
        assert store.work.held is not None
        assert settle(store.work.held).deleted == 0
    monkeypatch.undo()
    Pass(tree.root).run()
    assert tree.tombstones() == []


def test_a_pass_leaves_one_line_in_a_bounded_log(tree: PiTree) -> None:
    """Counts and at most a hundred ids, also when nothing ran."""
    for number in range(120):
        tree.run(f"r-{number:03}")
    Pass(tree.root).run()
    Pass(tree.root).run()
    lines = (tree.root / ".afterrun" / "log.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["removed"] == {"directory": 120}
    assert len(first["ids"]) == 100
    assert (second["removed"], second["ids"]) == ({}, [])


def test_index_entries_go_after_their_run(tree: PiTree) -> None:
    """An old entry of a run that is not there goes; a new one, one of a run that stays, and others stay."""
    index = tree.runs / ".terminal-runs" / "session"
    index.mkdir(parents=True)
    tree.run("gone")
    tree.run("stays", state="running")
    names = {
        "old": "1700000000000000-gone.json",
        "kept": "1700000000000000-stays.json",
        "new": "1700000000000001-gone.json",
        "other": "notes.json",
    }
    for name in names.values():
        (index / name).write_text("{}")
        if name != names["new"]:
            os.utime(index / name, (tree.old, tree.old))
    Pass(tree.root).run()
    assert {path.name for path in index.iterdir()} == {names["kept"], names["new"], names["other"]}


def test_removal_needs_the_lock(tree: PiTree) -> None:
    """A batch of a store that is not held removes nothing."""
    tree.run("r")
    with opened(tree.root) as store, pytest.raises(StoreFailure, match="lock-lost"):
        store.runs.transaction(seconds=1)
