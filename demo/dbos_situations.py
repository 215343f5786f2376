"""The situations a demo store holds, and how the engine is brought into each of them.

Finished ones are made in one process. Waiting ones are made in a process that is then
killed, so that they are left behind as after a crash.
"""

from __future__ import annotations

from collections.abc import Callable

from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

import dbos_workflows as app

DELAY_SECONDS = 365 * 86_400.0

FINISHED: dict[str, list[str]] = {
    "simple": ["simple-1", "simple-2", "simple-3", "simple-4", "simple-5"],
    "failed": ["failed-1", "failed-2"],
    "retried": ["retried-1"],
    "queued": ["queued-1", "queued-2", "queued-3"],
    "cancelled": ["cancelled-1", "cancelled-2"],
    "messaged": ["receiver-1", "sender-1"],
    "mailbox": ["mailbox-1"],
    "finished_tree": ["tree-parent", "tree-child-1", "tree-child-2", "tree-grandchild"],
    "failed_child": ["forgiving-parent", "forgiving-parent-child"],
    "watched": ["watched", "watched-child"],
    "fork": ["fork-base", "fork-copy"],
}
"""Trees in which every member is finished."""

WAITING: dict[str, list[str]] = {
    "waiting_parent": ["waiting-parent", "waiting-parent-child", "waiting-parent-grandchild"],
    "finished_parent": ["ended-parent", "ended-parent-child"],
    "watcher": ["watcher"],
    "crashed": ["crashed"],
    "blocked_queue": ["queue-blocker", "queue-waiting-1", "queue-waiting-2"],
    "delayed": ["delayed-1"],
}
"""Trees with a member that is not finished; the root's id comes first."""

MESSAGED = ["waiting-parent", "ended-parent-child", "watcher", "queue-blocker"]
"""Runs parked on a message."""

FINISHING = [*MESSAGED, "crashed", "queue-waiting-1", "queue-waiting-2"]
"""Live runs that finish after a restart; `delayed-1` is due in a year and does not."""

_LEAF: dict[str, object] = {"children": {}}


def make_finished() -> None:
    """Make every finished situation in the running engine."""
    DBOS.register_queue(app.QUEUE, global_concurrency=1, polling_interval_sec=app.POLL_SECONDS)
    queued = [_enqueue(run_id) for run_id in FINISHED["queued"]]
    handles = [app.start(run_id, app.simple, run_id) for run_id in FINISHED["simple"]]
    handles += [app.start(run_id, app.retried, run_id) for run_id in FINISHED["retried"]]
    handles += [app.start(run_id, app.simple, run_id) for run_id in FINISHED["mailbox"]]
    handles.append(app.start("fork-base", app.interrupted, "fork-base"))
    handles += _start_families()
    handles += _start_messaged()
    _finish_failing()
    for handle in handles:
        handle.get_result(polling_interval_sec=app.POLL_SECONDS)
    DBOS.send("mailbox-1", "nobody reads this", app.GO)
    _fork()
    for handle in queued:
        handle.get_result(polling_interval_sec=app.POLL_SECONDS)
    _cancel_two()


def make_waiting() -> list[str]:
    """Bring every waiting situation to the point where nothing moves; return the live ids."""
    app.gate.close()
    app.start("crashed", app.interrupted, "crashed")
    app.gate.await_arrival()
    tree = {"children": {"waiting-parent-grandchild": _LEAF}}
    app.start("waiting-parent", app.waiting_parent, "waiting-parent-child", tree)
    app.start("ended-parent", app.leaving_parent, "ended-parent-child").get_result(
        polling_interval_sec=app.POLL_SECONDS
    )
    app.start("watcher", app.watcher, "watched")
    _enqueue("queue-blocker", app.parked)
    for run_id in MESSAGED:
        app.await_parking(run_id)
    _enqueue("queue-waiting-1")
    _enqueue("queue-waiting-2")
    with SetEnqueueOptions(delay_seconds=DELAY_SECONDS):
        _enqueue("delayed-1")
    DBOS.retrieve_workflow("waiting-parent-child").get_result(polling_interval_sec=app.POLL_SECONDS)
    return [*FINISHING, "delayed-1"]


def _enqueue(run_id: str, workflow: Callable[..., str] = app.simple) -> app.Handle:
    with SetWorkflowID(run_id):
        return DBOS.enqueue_workflow(app.QUEUE, workflow, run_id)


def _start_families() -> list[app.Handle]:
    tree = {
        "children": {
            "tree-child-1": {"children": {"tree-grandchild": _LEAF}},
            "tree-child-2": _LEAF,
        }
    }
    return [
        app.start("tree-parent", app.family, tree),
        app.start("forgiving-parent", app.forgiving, "forgiving-parent-child"),
        app.start("watched", app.family, {"children": {"watched-child": _LEAF}}),
    ]


def _start_messaged() -> list[app.Handle]:
    waiting = app.start("receiver-1", app.receiver, "receiver-1")
    app.await_parking("receiver-1")
    return [waiting, app.start("sender-1", app.sender, "receiver-1")]


def _finish_failing() -> None:
    for run_id in FINISHED["failed"]:
        try:
            app.start(run_id, app.failing, run_id).get_result()
        except ValueError:
            continue
        raise AssertionError(f"{run_id} did not fail")


def _fork() -> None:
    with SetWorkflowID("fork-copy"):
        forked = DBOS.fork_workflow("fork-base", 3)
    forked.get_result(polling_interval_sec=app.POLL_SECONDS)


def _cancel_two() -> None:
    """Cancel one run before it starts and one in the middle of a step."""
    with SetEnqueueOptions(delay_seconds=DELAY_SECONDS):
        _enqueue("cancelled-1")
    DBOS.cancel_workflow("cancelled-1")
    app.gate.close()
    running = app.start("cancelled-2", app.interrupted, "cancelled-2")
    app.gate.await_arrival()
    DBOS.cancel_workflow("cancelled-2")
    app.gate.open()
    try:
        running.get_result()
    except Exception as error:
        if "cancel" not in str(error).lower():
            raise
