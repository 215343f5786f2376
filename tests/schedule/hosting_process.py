"""A host as a process of its own: it sweeps one store, and does what it is told, a word a line.

Words: ``begin`` and ``end`` a piece of work, a whole ``piece``, ``manual`` and ``exit`` as requests,
``standing``. Whatever happens is told in JSON, one object a line. The end of input and SIGTERM shut it down.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType

from afterrun import Budget, Policy, SweepOptions
from afterrun.core.events import BatchDone, Event
from afterrun.core.times import SECOND, Instant
from afterrun.hosting import Opening, scheduled
from afterrun.schedule import IdleGate, Outcome, Reason, Scheduler, SystemTime, Timing

SHIFT = "AFTERRUN_TEST_SHIFT"
"""Seconds by which the time of day of this host is ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a test says of a host. ``busy``: it starts in the middle of a piece of work."""

    store: str
    state: str
    busy: bool = False
    always: bool = True
    retry: float = 300.0
    batch_units: int | None = 1
    seconds: float | None = None


class ShiftedTime(SystemTime):
    """The clocks of this machine, the time of day shifted."""

    def wall(self) -> Instant:
        return super().wall() + round(float(os.environ.get(SHIFT, "0")) * SECOND)


def tell(**what: object) -> None:
    """Tell the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def note_event(event: Event) -> None:
    """Tell of a batch."""
    if isinstance(event, BatchDone):
        tell(batch=event.units)


def note_outcome(outcome: Outcome) -> None:
    """Tell how a sweep ended."""
    tell(ended=outcome.ended, kind=outcome.kind, removed=outcome.removed)


def obey(word: str, gate: IdleGate, scheduler: Scheduler, work: ExitStack) -> None:
    """Do what a word says."""
    match word:
        case "begin":
            work.enter_context(gate.busy("run"))
        case "end":
            work.close()
        case "piece":
            with gate.busy("run"):
                pass
        case "manual" | "runner-exit":
            scheduler.request(Reason(word))
        case "standing":
            tell(standing=asdict(scheduler.standing()))


def main() -> None:
    """Run the host until its input ends or a signal comes."""
    settings = Settings(**json.loads(sys.argv[1]))
    gate, work, ending = IdleGate(), ExitStack(), threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, stop)
    scheduler = scheduled(
        settings.store,
        Policy(keep_for=timedelta(days=30)),
        gate=gate,
        timing=Timing(retry=timedelta(seconds=settings.retry)),
        options=SweepOptions(
            observer=note_event, batch_units=settings.batch_units, budget=Budget(seconds=settings.seconds)
        ),
        opening=Opening(state=Path(settings.state), always=settings.always),
        observer=note_outcome,
        clock=ShiftedTime(),
    )

    def listen() -> None:
        for line in sys.stdin:
            obey(line.strip(), gate, scheduler, work)
        ending.set()

    if settings.busy:
        obey("begin", gate, scheduler, work)
    with scheduler:
        threading.Thread(target=listen, daemon=True).start()
        ending.wait()
        began = time.monotonic()
        scheduler.close()
    tell(settled=time.monotonic() - began)


if __name__ == "__main__":
    main()
