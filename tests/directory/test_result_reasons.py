"""Result files: one for each reason to stay, all areas, and what goes with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from afterrun.core.sweep import Budget
from afterrun.stores.directory.fair_cursor import FairCursor, take
from directory.pi_tree import DAY, Pass, PiTree, verdicts

Make = Callable[[PiTree], object]


def _index(tree: PiTree, run: str) -> object:
    folder = tree.results / "result-index" / "observers" / "mission"
    folder.mkdir(parents=True)
    return (folder / f"{run}.json").write_text("{}")


def _marker(tree: PiTree, content: str) -> object:
    folder = tree.root / "async-retention-run-tombstones"
    folder.mkdir()
    return (folder / "r.json").write_text(content)


def _active(tree: PiTree) -> object:
    (tree.runs / ".active-runs").mkdir()
    return (tree.runs / ".active-runs" / "r").write_text("")


def _session(tree: PiTree) -> str:
    path = tree.root / "session.jsonl"
    path.write_text("{}\n")
    return str(path)


def _tombstone(tree: PiTree) -> str:
    folder = tree.runs / ".deleting-run-1"
    folder.mkdir()
    return json.dumps({"version": 1, "runId": "r", "tombstonePath": str(folder), "createdAt": 1})


CASES: dict[str, tuple[Make, set[str]]] = {
    "finished": (lambda t: t.result("r.json", "r"), {"expired"}),
    "failed": (lambda t: t.result("r.json", "r", success=False, state=None), {"expired"}),
    "id by its name": (lambda t: t.result("r.json", "r", runId=None), {"expired"}),
    "workflow that is gone": (
        lambda t: t.result("r.json", "r", mode="workflow", parentWorkflowRunId="gone"),
        {"expired"},
    ),
    "no object": (lambda t: t.raw("r.json", "[]"), {"blocked", "invalid-result"}),
    "unsafe id": (lambda t: t.result("r.json", "../r"), {"blocked", "invalid-result"}),
    "not ended": (
        lambda t: t.result("r.json", "r", success=None, state="running"),
        {"protected", "live-member"},
    ),
    "malformed time": (
        lambda t: t.result("r.json", "r", createdAt="x"),
        {"blocked", "unreadable-end-time"},
    ),
    "recent": (
        lambda t: t.result("r.json", "r", writtenAt=int((time.time() - DAY) * 1_000)),
        {"recent", "keep-for"},
    ),
    "run is there": (
        lambda t: (t.run("r"), t.result("r.json", "r")),
        {"protected", "run-present"},
    ),
    "waited for": (
        lambda t: (t.result("r.json", "r"), t.wait("w.json", "r", expires=60)),
        {"protected", "wait-reference"},
    ),
    "active": (lambda t: (t.result("r.json", "r"), _active(t)), {"protected", "active-index"}),
    "mission": (lambda t: (t.result("r.json", "r"), _index(t, "r")), {"protected", "mission-reference"}),
    "parent is there": (
        lambda t: (t.run("p"), t.result("r.json", "r", parentWorkflowRunId="p")),
        {"protected", "workflow-reference"},
    ),
    "session": (
        lambda t: t.result("r.json", "r", results=[{"sessionFile": _session(t)}]),
        {"protected", "resumable"},
    ),
    "hand-off": (
        lambda t: t.result("r.json", "r", parallelHandoff={"path": str(t.root / "gone")}),
        {"blocked", "handoff-reference"},
    ),
    "tombstone": (
        lambda t: (t.result("r.json", "r"), _marker(t, _tombstone(t))),
        {"protected", "run-tombstone-present"},
    ),
    "unreadable marker": (
        lambda t: (t.result("r.json", "r"), _marker(t, "{")),
        {"blocked", "run-tombstone-present"},
    ),
    "pending": (lambda t: t.result("result-pending/s/r.json", "r"), {"expired"}),
    "replay": (
        lambda t: t.result("completion-replay/r.json", "r", success=None, state=None),
        {"expired"},
    ),
    "archive": (
        lambda t: t.result("output-archives/r.json", "r", success=None, state=None),
        {"expired"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_result_has_exactly_the_intended_verdict_and_reason(case: str, tree: PiTree) -> None:
    """Each result differs from one that may go in one thing, and that thing alone decides."""
    make, expected = CASES[case]
    make(tree)
    found = verdicts(tree.root, result=True)
    assert list(found.values()) == [expected]


def test_an_archive_stays_until_its_replay_record_has_gone(tree: PiTree) -> None:
    """The archive is needed by the replay; both go in two passes, and never in the wrong order."""
    archive = tree.result("output-archives/r.json", "r")
    replay = tree.result("completion-replay/r.json", "r")
    assert verdicts(tree.root, result=True) == {
        "async-subagent-results/output-archives/r.json": {"protected", "replay-reference"},
        "async-subagent-results/completion-replay/r.json": {"expired"},
    }
    Pass(tree.root).run()
    assert not replay.exists()
    assert archive.exists()
    Pass(tree.root).run()
    assert not archive.exists()


def test_a_run_and_its_results_go_in_one_pass(tree: PiTree) -> None:
    """Results go only when their run has gone, and runs are swept first."""
    tree.run("r")
    results = [tree.result("r.json", "r"), tree.result("result-pending/s/r.json", "r")]
    runs, found = Pass(tree.root).run()
    assert (runs.units.removed, found.units.removed) == (1, 2)
    assert found.rows == {"files": 2}
    assert not any(path.exists() for path in results)


def test_a_stray_marker_is_removed_with_its_result(tree: PiTree) -> None:
    """A marker whose tombstone is gone holds nothing, and does not stay for ever."""
    result = tree.result("r.json", "r")
    _marker(tree, json.dumps({"version": 1, "runId": "r", "tombstonePath": str(tree.root / "gone")}))
    assert list(verdicts(tree.root, result=True).values()) == [{"expired"}]
    Pass(tree.root).run()
    assert not result.exists()
    assert not (tree.root / "async-retention-run-tombstones" / "r.json").exists()


def test_no_source_waits_for_a_large_one(tree: PiTree) -> None:
    """With a budget of a few results, every area and every session gets its turn."""
    for number in range(200):
        tree.result(f"result-pending/big/{number:03}.json", f"b{number}")
    for session in ("a", "z"):
        tree.result(f"result-pending/{session}/r.json", f"r-{session}")
    small = [tree.result("p.json", "p"), tree.result("completion-replay/c.json", "c")]
    Pass(tree.root, budget=Budget(units=6)).run()
    assert not any(path.exists() for path in small)
    assert [path.name for path in (tree.results / "result-pending" / "a").iterdir()] == []
    assert [path.name for path in (tree.results / "result-pending" / "z").iterdir()] == []


def test_pages_of_many_sources_yield_everything_once() -> None:
    """The place of a page is one text; read back, it leads to everything that was not yet taken."""
    sources = {f"{i % 3}/{i:03}": [f"{i:03}/{j}" for j in range(i % 5)] for i in range(250)}
    place: FairCursor | None = FairCursor()
    found: list[str] = []
    while place is not None:
        taken, place = take(sources, place, limit=7)
        found += [name for _, name in taken]
        assert len(taken) <= 7
        if place is not None:
            assert len(place.after) <= 100
            place = FairCursor.read(place.text())
    assert sorted(found) == sorted(name for names in sources.values() for name in names)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("text", ["", "{", "[]", "[1, {}]", '["", []]', '["", {"a": 1}]', None])
def test_a_malformed_place_is_the_beginning(text: str | None) -> None:
    """A state file that somebody edited costs a pass, not an error."""
    assert FairCursor.read(text) == FairCursor()


def test_results_of_a_run_in_the_trash_stay(tree: PiTree) -> None:
    """While a run can be put back, what it came to stays with it."""
    tree.run("r")
    result = tree.result("r.json", "r")
    runs, found = Pass(tree.root).run(trash=timedelta(hours=24))
    assert (runs.units.removed, found.units.removed) == (1, 0)
    assert dict(found.units.protected) == {"run-tombstone-present": 1}
    assert result.exists()
