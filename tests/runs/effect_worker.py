"""A process that works on runs with an effect, and may be killed on the way: started by the tests of kills.

Reads requests from standard input, a JSON object a line, and forks a child for each. Everything is imported
and used once before, so that what a tracer sees is the work and nothing of Python's own start.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs import EffectStatus, RunStatus, RunStore
from afterrun.runs.direct import Direct

PR_SET_PTRACER: Final = 0x59616D61
ANY_TRACER: Final = -1
A_MOMENT: Final = timedelta(microseconds=1)
"""How long a lease holds: the next worker need not wait for its end."""

POINTS: Final = ("began", "proposed", "begun", "asked", "answered", "applied", "completed", "finished")
FAULTS: Final = ("", "begins late", "believes nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run to work on, and where the worker is killed: at a named point, or before its n-th statement.

    ``traced`` has it wait for a tracer. ``fault`` is what a careless worker does.
    """

    store: str
    sink: str
    run: str
    point: str = ""
    statement: int = 0
    traced: bool = False
    fault: str = ""


def do(work: Work) -> None:
    """Do what is left to do of a run: until it ends, or waits for a person."""
    with RunStore.open(work.store) as store:
        if work.statement:
            count = _before(work.statement)
            sa.event.listen(store._database._engine, "before_cursor_execute", count)
            sa.event.listen(store._database._engine, "commit", count)
            Direct.send = _counted(Direct.send, count)  # type: ignore[method-assign]
        lease = store.leases.acquire(work.run, owner="worker", keep_for=A_MOMENT)
        if store.get(work.run).status is not RunStatus.RUNNING:
            store.start(work.run, epoch=lease.epoch)
        _charge(store, work, lease.epoch)


def _charge(store: RunStore, work: Work, epoch: int) -> None:
    steps = store.steps.of(work.run)
    if steps and steps[0].ended_at is not None:
        _finish(store, work, epoch)
        return
    attempt = steps[0].current if steps else store.steps.start(work.run, "charge", epoch=epoch)
    _at(work, "began")
    store.effects.doubt(work.run, epoch=epoch)
    effect = store.effects.propose(attempt, "pay", request=b"10", epoch=epoch)
    _at(work, "proposed")
    if effect.status is EffectStatus.AMBIGUOUS and work.fault == "believes nobody":
        effect = store.effects.settle(effect, applied=False, by="a careless worker")
    if effect.status is EffectStatus.AMBIGUOUS:
        store.wait(work.run, epoch=epoch)
        return
    if effect.status is EffectStatus.PENDING:
        if work.fault == "begins late":
            _ask(work, effect.key)
            _at(work, "answered")
        effect = store.effects.begin(effect, epoch=epoch)
        _at(work, "begun")
        receipt = _ask(work, effect.key) if work.fault != "begins late" else b"late"
        _at(work, "answered")
        effect = store.effects.apply(effect, receipt=receipt, epoch=epoch)
        _at(work, "applied")
    store.steps.complete(attempt, output=store.effects.receipt_of(effect), epoch=epoch)
    _at(work, "completed")
    _finish(store, work, epoch)


def _finish(store: RunStore, work: Work, epoch: int) -> None:
    [step] = store.steps.of(work.run)
    store.finish(work.run, output=store.steps.output_of(step), epoch=epoch)
    _at(work, "finished")


def _ask(work: Work, key: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as sink:
        sink.connect(work.sink)
        sink.sendall(f"{key}\n".encode())
        _at(work, "asked")
        return sink.makefile("rb").readline().strip()


def _at(work: Work, point: str) -> None:
    if work.point == point:
        os.kill(os.getpid(), signal.SIGKILL)


def _before(statement: int) -> Callable[..., None]:
    """Return what kills the process before its n-th statement or commit."""
    seen: list[None] = []

    def count(*_: Any) -> None:  # noqa: ANN401 - whatever SQLAlchemy hands over
        seen.append(None)
        if len(seen) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def _counted(send: Callable[..., Any], count: Callable[..., None]) -> Callable[..., Any]:
    """Return a `Direct.send` that is counted: SQLAlchemy tells nobody of what goes to the driver."""

    def sent(*arguments: Any) -> Any:  # noqa: ANN401 - as it was
        count()
        return send(*arguments)

    return sent


def main() -> None:
    """Fork a child for each request; say its process id if it is traced, then its exit code."""
    do(Work(**json.loads(sys.argv[1])))  # a run of its own, so that everything was used once
    _say("ready")
    for line in sys.stdin:
        wait, go = os.pipe()
        work = Work(**json.loads(line))
        child = os.fork()
        if not child:
            os.close(go)
            os._exit(_child(work, wait))
        os.close(wait)
        if work.traced:
            _say(child)
            sys.stdin.readline()
        os.close(go)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _child(work: Work, wait: int) -> int:
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY_TRACER, 0, 0, 0)  # where a process may trace only its own
    os.read(wait, 1)
    try:
        do(work)
    except BaseException:  # noqa: BLE001 - the exit code is all that comes out of here
        traceback.print_exc()
        return 1
    return 0


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
