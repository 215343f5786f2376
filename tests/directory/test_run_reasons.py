"""One run for each reason to stay: exactly the intended verdict, and no other reason."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from directory.pi_tree import DAY, Pass, PiTree, opened, planned, verdicts


def _session(tree: PiTree) -> str:
    path = tree.root / "session.jsonl"
    path.write_text("{}\n")
    return str(path)


def _active(tree: PiTree) -> None:
    tree.run("r")
    (tree.runs / ".active-runs").mkdir()
    (tree.runs / ".active-runs" / "r").touch()


def _mission_index(tree: PiTree) -> None:
    tree.run("r")
    index = tree.results / "result-index" / "observers" / "mission"
    index.mkdir(parents=True)
    (index / "r.json").write_text("{}")


def _fresh_file(tree: PiTree) -> None:
    folder = tree.run("r")
    os.utime(folder / "output-0.log", (time.time() - DAY,) * 2)


def _deep_file(tree: PiTree) -> None:
    folder = tree.run("r")
    (folder / "a" / "b").mkdir(parents=True)
    tree.age(folder)
    (folder / "a" / "b" / "late").touch()
    os.utime(folder / "a" / "b" / "late", (time.time() - DAY,) * 2)
    for path in (folder / "a" / "b", folder / "a", folder):
        os.utime(path, (tree.old, tree.old))


def _unreadable_wait(tree: PiTree) -> None:
    tree.run("r")
    (tree.waits / "w.json").write_text("{")


def _old_unreadable_wait(tree: PiTree) -> None:
    tree.run("r")
    (tree.waits / "r.json").write_text("{")
    os.utime(tree.waits / "r.json", (time.time() - 2 * DAY,) * 2)


Make = Callable[[PiTree], object]
HANDOFF = {"version": 1, "groups": [{"cleanup": {"state": "pending"}}]}
CASES: dict[str, tuple[Make, set[str]]] = {
    "finished": (lambda t: t.run("r"), {"expired"}),
    "failed": (lambda t: t.run("r", state="failed"), {"expired"}),
    "no end but old files": (lambda t: t.run("r", endedAt=None, lastUpdate=None), {"expired"}),
    "expired wait": (lambda t: (t.run("r"), t.wait("w.json", "r", expires=-1)), {"expired"}),
    "finished hand-off": (
        lambda t: t.add(
            t.run("r"), "handoff.json", {"version": 1, "groups": [{"cleanup": {"state": "complete"}}]}
        ),
        {"expired"},
    ),
    "lost session": (lambda t: t.run("r", sessionFile=str(t.root / "gone.jsonl")), {"expired"}),
    "no status": (lambda t: t.drop(t.run("r"), "status.json"), {"blocked", "invalid-status"}),
    "broken status": (lambda t: t.add(t.run("r"), "status.json", "{"), {"blocked", "invalid-status"}),
    "status is an array": (lambda t: t.add(t.run("r"), "status.json", "[]"), {"blocked", "invalid-status"}),
    "deep status": (lambda t: t.add(t.run("r"), "status.json", "[" * 100_000), {"blocked", "invalid-status"}),
    "unknown mode": (lambda t: t.run("r", mode="swarm"), {"blocked", "invalid-status"}),
    "no mode": (lambda t: t.run("r", mode=None), {"blocked", "invalid-status"}),
    "no start": (lambda t: t.run("r", startedAt=None), {"blocked", "invalid-status"}),
    "endless start": (
        lambda t: t.add(
            t.run("r"), "status.json", '{"runId":"r","state":"complete","mode":"single","startedAt":1e999}'
        ),
        {"blocked", "invalid-status"},
    ),
    "another id": (lambda t: t.run("r", runId="other"), {"blocked", "identity-mismatch"}),
    "unknown state": (lambda t: t.run("r", state="dreaming"), {"blocked", "unknown-status"}),
    "malformed end": (lambda t: t.run("r", endedAt="soon"), {"blocked", "unreadable-end-time"}),
    "malformed update": (
        lambda t: t.run("r", endedAt=None, lastUpdate="soon"),
        {"blocked", "unreadable-end-time"},
    ),
    "end in seconds": (lambda t: t.run("r", endedAt=1_700_000_000), {"blocked", "unreadable-end-time"}),
    "future end": (
        lambda t: t.run("r", endedAt=int((time.time() + DAY) * 1_000)),
        {"blocked", "future-end-time"},
    ),
    "running": (lambda t: t.run("r", state="running"), {"protected", "live-member"}),
    "paused": (lambda t: t.run("r", state="paused"), {"protected", "live-member"}),
    "waited for": (
        lambda t: (t.run("r"), t.wait("w.json", "r", expires=60)),
        {"protected", "wait-reference"},
    ),
    "unreadable wait": (_unreadable_wait, {"protected", "unreadable-reference"}),
    "old unreadable wait": (_old_unreadable_wait, {"blocked", "wait-reference"}),
    "active": (_active, {"protected", "active-index"}),
    "mission": (lambda t: t.add(t.run("r"), "mission.json", {}), {"protected", "mission-reference"}),
    "mission index": (_mission_index, {"protected", "mission-reference"}),
    "hand-off": (lambda t: t.add(t.run("r"), "handoff.json", HANDOFF), {"protected", "handoff-reference"}),
    "unreadable hand-off": (
        lambda t: t.add(t.run("r"), "handoff.json", "{"),
        {"blocked", "handoff-reference"},
    ),
    "lost hand-off": (
        lambda t: t.run("r", parallelHandoff={"path": str(t.root / "gone.json")}),
        {"blocked", "handoff-reference"},
    ),
    "nameless hand-off": (
        lambda t: t.run("r", parallelHandoff={}),
        {"blocked", "handoff-reference"},
    ),
    "session": (lambda t: t.run("r", sessionFile=_session(t)), {"protected", "resumable"}),
    "session of a step": (
        lambda t: t.run("r", steps=[{"agent": "a", "sessionFile": _session(t)}]),
        {"protected", "resumable"},
    ),
    "unexaminable session": (
        lambda t: t.run("r", sessionFile="bad\0name"),
        {"blocked", "resumable"},
    ),
    "session that is a number": (lambda t: t.run("r", sessionFile=7), {"blocked", "resumable"}),
    "recovery": (
        lambda t: t.add(
            t.run("r"), "recovery-descriptor.json", {"sourceRunId": "r", "sessionFile": _session(t)}
        ),
        {"protected", "resumable"},
    ),
    "unreadable recovery": (
        lambda t: t.add(t.run("r"), "recovery-descriptor.json", "{"),
        {"blocked", "resumable"},
    ),
    "recovery of another": (
        lambda t: t.add(t.run("r"), "recovery-descriptor.json", {"sourceRunId": "x"}),
        {"blocked", "resumable"},
    ),
    "recent end": (
        lambda t: t.run("r", endedAt=int((time.time() - DAY) * 1_000)),
        {"recent", "keep-for"},
    ),
    "recent file": (_fresh_file, {"recent", "keep-for"}),
    "recent file below": (_deep_file, {"recent", "keep-for"}),
    "nested of nobody": (lambda t: t.run("r", isNested=True), {"blocked", "nested-reference"}),
    "part of a workflow that is gone": (
        lambda t: t.run("r", parentWorkflowRunId="gone", workflowKey="k"),
        {"blocked", "missing-parent"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_has_exactly_the_intended_verdict_and_reason(case: str, tree: PiTree) -> None:
    """Each run differs from one that may go in one thing, and that thing alone decides."""
    make, expected = CASES[case]
    make(tree)
    assert verdicts(tree.root) == {"r": expected}


def test_a_plan_counts_what_a_pass_then_removes(tree: PiTree) -> None:
    """The counts of the plan are what goes, and what stays has the same reasons (promise 7)."""
    tree.run("old-1")
    tree.run("old-2", files=3)
    tree.run("lives", state="running")
    tree.run("young", endedAt=int(time.time() * 1_000))
    tree.run("wanted")
    tree.wait("w.json", "wanted", expires=60)
    with opened(tree.root) as store:
        plan = planned(store.runs)
    assert (plan.units.expired, plan.units.recent) == (2, 1)
    assert dict(plan.units.protected) == {"live-member": 1, "wait-reference": 1}
    assert plan.rows == {"folders": 2, "files": 6}
    runs = Pass(tree.root).run()[0]
    assert (runs.ended, runs.units.removed, runs.rows) == ("completed", 2, plan.rows)
    assert tree.names() == {"lives", "young", "wanted"}
    assert tree.tombstones() == []
    again = Pass(tree.root).run()[0]
    assert again.units.removed == 0


def test_a_process_that_has_a_run_keeps_it_and_a_later_one_of_its_id_does_not(tree: PiTree) -> None:
    """A live owner protects; a process that was started after the run ended only has the same id."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as owner:
        ended = int((time.time() + 1) * 1_000)
        tree.run("owned", pid=owner.pid, endedAt=ended)
        tree.run("later", pid=owner.pid)
        found = verdicts(tree.root)
        assert owner.stdin is not None
        owner.stdin.close()
    assert "live-owner" in found["owned"]
    assert found["later"] == {"expired"}


def test_a_run_that_lives_is_told_with_all_that_names_it(tree: PiTree) -> None:
    """Explained, a live run carries what the indexes and the waits say of it, too."""
    _active(tree)
    tree.run("lives", state="running")
    (tree.runs / ".active-runs" / "lives").touch()
    tree.wait("w.json", "lives", expires=60)
    found = verdicts(tree.root)["lives"]
    assert found == {"protected", "live-member", "active-index", "wait-reference"}
