"""Drive real LangGraph checkpointers, in SQLite or PostgreSQL: make threads, read them, go on with them.

Run it with the python of an environment that has LangGraph and both savers. Each command prints one JSON
object as its last line; everything else goes to standard error. The name of a thread begins with the name of
its graph in `langgraph_graphs.py`, up to a dash.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

import langgraph_graphs as app

PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
TURNS = 3
KILLED = 9

FINISHED = (
    *("chat-0", "chat-1", "chat-2", "chat-forked", "flagged-0", "joined-0", "sending-0"),
    *("nested-0", "remembering-0", "heavy-0"),
)
"""Threads that end, after several turns."""
GATHERING = ("gathering-0", "gathering_always-0")
STOPPED = ("waiting-0", "paused-0", "joining-0", "sent-0", "nested_waiting-0", "waiting-forked")
FAILED = ("failing-0", "fanning-0")
ENTRYPOINT = "functional-0"
DEAD = "dying-0"
SCHEDULED, EARLY, ODD, ODD_HEAD = "chat-scheduled", "chat-early", "chat-odd", "chat-odd-head"
ANSWERED = ("waiting-0", "nested_waiting-0")
CONTINUED = ("paused-0", "joining-0", "sent-0", *FAILED, DEAD)

OLD_ID, NEW_ID = "00000000-0000-4000-8000-000000000001", "ffffffff-0000-4000-8000-000000000001"
"""Ids of another make than the engine's: one before all of these, one after."""

Saver = Any
Value = Any
Config = dict[str, Any]


def populate(saver: Saver, options: argparse.Namespace) -> dict[str, Any]:
    """Make a thread in every situation."""
    for thread in (*FINISHED, SCHEDULED, EARLY, ODD):
        _take_turns(saver, thread)
    for thread in GATHERING:
        _graph(saver, thread).invoke({"numbers": [100], "step": 0}, _config(thread))
    for turn in range(TURNS):
        _graph(saver, ENTRYPOINT).invoke(turn, _config(ENTRYPOINT))
    for thread in (*STOPPED, *FAILED):
        with suppress(RuntimeError):
            _graph(saver, thread).invoke({"said": ["begin"]}, _config(thread))
    _kill(options)
    _fork(saver)
    _plant(saver)
    return {package: version(package) for package in PACKAGES}


def turn(saver: Saver, options: argparse.Namespace) -> dict[str, Any]:
    """Take a turn with each of the threads that are named."""
    return {thread: _run(saver, thread, {"said": ["a turn"]}) for thread in options.threads}


def delete(saver: Saver, _options: argparse.Namespace) -> dict[str, Any]:
    """Delete every thread by the engine's own call, one after another, and return the seconds that took."""
    threads = _threads(saver)
    began = time.perf_counter()
    for thread in threads:
        saver.delete_thread(thread)
    return {"seconds": time.perf_counter() - began, "threads": len(threads)}


def prune(saver: Saver, _options: argparse.Namespace) -> dict[str, Any]:
    """Keep the newest checkpoints of every thread by the engine's own call; return the seconds that took."""
    threads = _threads(saver)
    began = time.perf_counter()
    saver.prune(threads, strategy="keep_latest")
    return {"seconds": time.perf_counter() - began, "threads": len(threads)}


def die(saver: Saver, _options: argparse.Namespace) -> dict[str, Any]:
    """Start a thread whose first node ends this process."""
    _graph(saver, DEAD).invoke({"said": ["begin"]}, _config(DEAD), durability="sync")
    raise AssertionError("the node should have ended the process")


def read(saver: Saver, _options: argparse.Namespace) -> dict[str, Any]:
    """Return what the engine reads of every thread: its state, and its history from the newest on."""
    return {thread: _read(saver, thread) for thread in _threads(saver)}


def proceed(saver: Saver, _options: argparse.Namespace) -> dict[str, Any]:
    """Answer what waits, go on with what failed or stopped, and take another turn with what ended."""
    app.HEALED["yes"] = True
    told = {}
    for thread in ANSWERED:
        told[thread] = _run(saver, thread, Command(resume="yes"))
    for thread in CONTINUED:
        told[thread] = _run(saver, thread, None)
    for leaf in _leaves(saver, "waiting-forked"):
        told[f"waiting-forked {leaf}"] = _run(saver, "waiting-forked", Command(resume="fork"), leaf)
    for thread in (*FINISHED, ODD, ODD_HEAD):
        told[thread] = _run(saver, thread, {"said": ["again"]})
    for thread in GATHERING:
        told[thread] = _run(saver, thread, {"numbers": [200], "step": app.STEPS - 1})
    told[ENTRYPOINT] = _run(saver, ENTRYPOINT, TURNS)
    return told


def _graph(saver: Saver, thread: str) -> Value:
    return app.GRAPHS[thread.partition("-")[0]](saver)


def _config(thread: str, checkpoint: str | None = None) -> Config:
    place = {} if checkpoint is None else {"checkpoint_id": checkpoint, "checkpoint_ns": ""}
    return {"configurable": {"thread_id": thread, **place}, "metadata": {"tenant": "acme"}}


def _take_turns(saver: Saver, thread: str) -> None:
    graph = _graph(saver, thread)
    for turn in range(TURNS):
        graph.invoke({"said": [f"turn {turn}"]}, _config(thread))


def _kill(options: argparse.Namespace) -> None:
    command = [sys.executable, "-E", __file__, "die", options.store, "--days", str(options.days)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == KILLED, done.stderr.decode()


def _fork(saver: Saver) -> None:
    """Go on from an old checkpoint: once a finished thread, once one whose both ends wait."""
    for thread in ("chat-forked", "waiting-forked"):
        graph = _graph(saver, thread)
        old = [state for state in graph.get_state_history(_config(thread)) if state.next][-1]
        forked = graph.update_state(old.config, {"said": ["otherwise"]}, as_node="__start__")
        graph.invoke(None, {**_config(thread), **forked})


def _plant(saver: Saver) -> None:
    """Make what the engine leaves behind in rare moments, by its own calls to the saver."""
    head = saver.get_tuple(_config(SCHEDULED)).config
    saver.put_writes(head, [("__scheduled__", ("node", 1))], "11111111-1111-1111-1111-111111111111")
    early = _config(EARLY, str(uuid6(clock_seq=1)))
    saver.put_writes(early, [("said", ["too early"])], "22222222-2222-2222-2222-222222222222")
    first = list(saver.list(_config(ODD)))[-1]
    config = _config(ODD, first.config["configurable"]["checkpoint_id"])
    saver.put(config, {**first.checkpoint, "id": OLD_ID}, {"source": "update"}, {})
    versions = first.checkpoint["channel_versions"]
    odd = _config(ODD_HEAD)
    odd["configurable"]["checkpoint_ns"] = ""
    saver.put(odd, {**first.checkpoint, "id": NEW_ID}, {"source": "input", "step": -1}, versions)


def _threads(saver: Saver) -> list[str]:
    found = saver.conn.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")
    return [row["thread_id"] if isinstance(row, dict) else row[0] for row in found.fetchall()]


def _read(saver: Saver, thread: str) -> dict[str, Any]:
    graph = _graph(saver, thread)
    return {
        "state": _plain(graph.get_state(_config(thread), subgraphs=True)),
        "history": [_plain(state) for state in graph.get_state_history(_config(thread))],
        "namespaces": {
            namespace: [found.config["configurable"]["checkpoint_id"] for found in all_of]
            for namespace, all_of in _by_namespace(saver, thread).items()
        },
    }


def _by_namespace(saver: Saver, thread: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for checkpoint in saver.list({"configurable": {"thread_id": thread}}):
        found.setdefault(checkpoint.config["configurable"]["checkpoint_ns"], []).append(checkpoint)
    return found


def _plain(state: Value) -> dict[str, Any]:
    return {
        "id": state.config["configurable"].get("checkpoint_id"),
        "values": repr(state.values),
        "next": list(state.next),
        "source": (state.metadata or {}).get("source"),
        "tasks": [
            [task.name, repr(task.error), repr(task.interrupts), repr(task.result), _state_of(task.state)]
            for task in state.tasks
        ],
    }


def _state_of(state: Value) -> Value:
    return _plain(state) if hasattr(state, "values") and hasattr(state, "next") else None


def _leaves(saver: Saver, thread: str) -> list[str]:
    found = _by_namespace(saver, thread)[""]
    parents = {one.parent_config["configurable"]["checkpoint_id"] for one in found if one.parent_config}
    ids = [one.config["configurable"]["checkpoint_id"] for one in found]
    return sorted(name for name in ids if name not in parents)


def _run(saver: Saver, thread: str, given: Value, checkpoint: str | None = None) -> dict[str, Any]:
    app.RAN.clear()
    result = _graph(saver, thread).invoke(given, _config(thread, checkpoint))
    return {"result": repr(result), "ran": sorted(app.RAN)}


@contextmanager
def _saver(store: str) -> Iterator[Saver]:
    maker = PostgresSaver if "://" in store else SqliteSaver
    with maker.from_conn_string(store.replace("+psycopg", "").replace(" ", "%20")) as saver:
        saver.setup()
        yield saver


def _go_back(days: int) -> None:
    """Make the engine's ids of times in the past, as if this had run then."""
    now, offset = time.time_ns, days * 86_400_000_000_000
    time.time_ns = lambda: now() - offset


def main() -> None:
    """Run one command."""
    commands = {run.__name__: run for run in (populate, turn, delete, prune, die, read, proceed)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=commands)
    parser.add_argument("store", help="path of a SQLite file, or URL of a PostgreSQL database")
    parser.add_argument("threads", nargs="*", metavar="THREAD")
    parser.add_argument("--days", type=int, default=0, help="how long ago this runs, by the ids it makes")
    options = parser.parse_args()
    _go_back(options.days)
    with _saver(options.store) as saver:
        answer = commands[options.command](saver, options)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
