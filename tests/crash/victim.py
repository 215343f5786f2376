"""A process that removes and is killed on the way: started by the tests of crashes.

``serve`` reads requests from standard input, a JSON object a line. For each it forks a child that waits until
a tracer is attached and ``go`` comes, then removes. Everything is imported and used once before, so that what
a tracer sees is the removal and nothing of Python's own start.

``hold`` starts one manual apply, says ``held`` while it holds the sweep lock, and goes on at a line.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from afterrun import BackupOrder, Report, SweepOptions, open_retention
from afterrun.stores.sql.backups import Restored
from crash.aged import Request

PR_SET_PTRACER: Final = 0x59616D61
ANY_TRACER: Final = -1


def remove(request: Request, *, gate: Callable[[], bool] = lambda: True) -> Report | Restored:
    """Run the manual apply, the automatic sweep or the restore that a request asks for."""
    options = SweepOptions(offline=request.offline, gate=gate)
    with open_retention(request.store, profile=request.profile, state=Path(request.state)) as retention:
        if request.command == "sweep":
            return retention.sweep(request.policy, options=options, approve=request.approve)
        if request.command == "restore":
            return retention.restore(Path(request.backup))
        order = BackupOrder(path=Path(request.backup)) if request.backup else None
        return retention.prune(request.policy, options=options, backup=order)


def serve(warm_up: Path, profile: Path | None) -> None:
    """Fork a child for each request; say its process id, then its exit code (negative: a signal)."""
    with tempfile.TemporaryDirectory() as state:
        remove(Request(store=str(warm_up), state=state, profile=None if profile is None else str(profile)))
    _say("ready")
    for line in sys.stdin:
        wait, go = os.pipe()
        child = os.fork()
        if not child:
            os.close(go)
            os._exit(_child(Request(**json.loads(line)), wait))
        os.close(wait)
        _say(child)
        sys.stdin.readline()
        os.write(go, b"go")
        os.close(go)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _child(request: Request, wait: int) -> int:
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY_TRACER, 0, 0, 0)  # where a process may trace only its own
    os.read(wait, 2)
    try:
        report = remove(request)
    except BaseException:  # noqa: BLE001 - the exit code is all that comes out of here
        traceback.print_exc()
        return 1
    return 0 if isinstance(report, Restored) or report.ended == "completed" else 2


def hold(request: Request) -> None:
    """Hold the sweep lock until a line comes, then go on to the end."""

    def gate() -> bool:
        if not held:
            held.append(True)
            _say("held")
            sys.stdin.readline()
        return True

    held: list[bool] = []
    report = remove(request, gate=gate)
    assert isinstance(report, Report)
    _say({"ended": report.ended, "removed": report.units.removed})


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the mode named on the command line."""
    mode, argument, *profile = sys.argv[1:]
    if mode == "serve":
        serve(Path(argument), Path(*profile) if profile else None)
    else:
        hold(Request(**json.loads(argument)))


if __name__ == "__main__":
    main()
