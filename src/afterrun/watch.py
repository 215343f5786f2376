"""The watch: several stores in one process, each with a schedule, a policy and a record of its own.

Each store has the thread of its scheduler; `Turns` lets so many of them sweep at a time. Nothing here reads
a signal, writes a file or knows the command line.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from afterrun.config import Settings, StoreSettings
from afterrun.core.errors import AfterrunError, Exit, UsageError, did_you_mean
from afterrun.core.report import Ended
from afterrun.core.sweep import Budget
from afterrun.core.times import Instant
from afterrun.hosting import HostedStore, Opening
from afterrun.schedule import IdleGate, Outcome, Reason, Request, Scheduler, Standing, Timing
from afterrun.service import SweepOptions
from afterrun.state.files import Record
from afterrun.telemetry import LastRun, LogObserver, OpenTelemetry, Totals, compose, say
from afterrun.telemetry.logs import LOGGER
from afterrun.telemetry.names import APPROVAL_WANTED, NOT_SWEPT, NOT_WRITTEN, SWEEP_BEGAN, Name
from afterrun.telemetry.prometheus import SUCCESSFUL

UNSWEPT: Final = ("failed", "refused")
"""Endings after which a store is not looked after, and a person is needed."""

SEVERITY: Final = (Exit.ERROR, Exit.REFUSED, Exit.LOCKED, Exit.INTERRUPTED, Exit.DEFERRED, Exit.DONE)
"""Exit codes, the worst first."""

CODES: Final[Mapping[str, Exit]] = {
    "failed": Exit.ERROR,
    "refused": Exit.REFUSED,
    "guard": Exit.REFUSED,
    "locked": Exit.LOCKED,
    "interrupted": Exit.INTERRUPTED,
}

Publish = Callable[[str, LastRun], None]


@dataclass(slots=True, kw_only=True)
class Telling:
    """What all stores of a watch tell by. ``publish`` takes a store's last run; it may raise `OSError`.

    With ``messages``, log lines repeat what an error says, which may name paths.
    """

    publish: Publish = lambda _name, _run: None
    totals: Totals = field(default_factory=Totals)
    tracing: OpenTelemetry | None = None
    messages: bool = False


class Turns:
    """Lets at most so many sweeps run at a time, in the order in which they ask."""

    def __init__(self, most: int) -> None:
        """Start with all places free."""
        self._free = most
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._closed = False

    def take(self) -> bool:
        """Wait for a place, and take it; say no once there are none any more."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.notify_all()  # who looks at the queue
            self._changed.wait_for(lambda: self._closed or (self._free and self._queue[0] is ticket))
            self._queue.remove(ticket)
            self._changed.notify_all()
            if self._closed:
                return False
            self._free -= 1
            return True

    def give(self) -> None:
        """Give a place back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Send away who waits and who comes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class StoreWatch:
    """One store of a watch: what runs its sweeps, what its scheduler remembers, how the last one ended."""

    def __init__(self, settings: StoreSettings, turns: Turns, telling: Telling, approve: str | None) -> None:
        """Prepare; nothing is opened before the first sweep. Raises `UsageError` for a faulty policy."""
        self.name = settings.name
        self.last: Outcome | None = None
        self.untold = False
        """Whether an observer failed at the last sweep, or its metrics could not be written."""
        self._turns = turns
        self._telling = telling
        labels = {"store": self.name}
        self._observers = compose(
            LogObserver(labels=labels),
            telling.totals.observer(labels=labels),
            None if telling.tracing is None else telling.tracing.observer(labels=labels),
        )
        self._failures = 0
        self._published = False
        self._hosted = HostedStore(
            settings.location,
            settings.rules,
            SweepOptions(
                budget=Budget(seconds=settings.max_seconds), rest=settings.pause, observer=self._observers
            ),
            Opening(
                profile=settings.profile,
                datasources=settings.datasources,
                trash=settings.trash,
                approve=approve,
                always=settings.approve,
            ),
        )
        self.scheduler = Scheduler(
            self._run,
            gate=IdleGate(),
            memory=self,
            timing=Timing(interval=settings.interval),
            observer=self._told,
            name=self.name,
        )
        self._first = Reason.START_UP if approve is None else Reason.MANUAL

    def start(self) -> None:
        """Start the schedule; what a person has just approved waits for no interval."""
        self.scheduler.start()
        self.scheduler.request(self._first)

    def once(self) -> None:
        """Sweep in this thread, if a sweep is due."""
        self.scheduler.once(self._first)

    @property
    def code(self) -> Exit:
        """Return the exit code of the last sweep; without one there was nothing to do."""
        last = self.last
        if last is None:
            return Exit.ERROR if self.untold else Exit.DONE
        code = CODES.get(last.ended) or (Exit.DEFERRED if last.undone else Exit.DONE)
        return worst([code, Exit.ERROR if self.untold else Exit.DONE])

    @property
    def is_failing(self) -> bool:
        """Say whether the last sweep failed or was refused, or what it told is incomplete."""
        return self.untold or (self.last is not None and self.last.ended in UNSWEPT)

    def standing(self) -> Standing:
        """Say where the sweeps of this store stand."""
        return self.scheduler.standing()

    # ------------------------------------------------------------ what the scheduler remembers

    def last_completed(self) -> Instant | None:
        """Return when the last sweep was completed; a file of metrics gets what is on record."""
        completed = self._hosted.last_completed()
        if not self._published:
            self._recall()
        return completed

    def due_since(self) -> Instant | None:
        """Return since when a first sweep is due."""
        return self._hosted.due_since()

    def keep_due_since(self, moment: Instant) -> None:
        """Remember since when a first sweep is due."""
        self._hosted.keep_due_since(moment)

    # -------------------------------------------------------------------------------- sweeping

    def _run(self, request: Request) -> Outcome:
        if not self._turns.take():
            return Outcome(ended="interrupted")
        try:
            reasons = [reason.value for reason in request.reasons]
            say(LOGGER, logging.INFO, SWEEP_BEGAN.name, store=self.name, reason="+".join(reasons))
            return self._hosted.run(request)
        finally:
            self._turns.give()

    def _told(self, outcome: Outcome) -> None:
        """Take in how a sweep ended, in the scheduler's thread."""
        failures = self._observers.failures.total()
        self.untold, self._failures = failures > self._failures, failures
        self.last = outcome
        self._log(outcome)
        if outcome.ended != "locked":  # who holds the store tells of it
            self._publish(outcome)

    def _log(self, outcome: Outcome) -> None:
        report = outcome.report
        if outcome.ended == "guard" and report is not None:
            self._say(
                logging.WARNING,
                APPROVAL_WANTED,
                units=report.would_go,
                fingerprint=report.fingerprint,
            )
        elif outcome.ended in {*UNSWEPT, "locked"}:
            self._say(
                logging.ERROR if outcome.ended in UNSWEPT else logging.WARNING,
                NOT_SWEPT,
                ended=outcome.ended,
                kind=outcome.kind,
                message=outcome.message if self._telling.messages else None,
            )

    def _say(self, level: int, name: Name, **fields: str | int | None) -> None:
        say(LOGGER, level, name.name, store=self.name, **fields)

    # --------------------------------------------------------------------------------- metrics

    def _publish(self, outcome: Outcome) -> None:
        report = outcome.report
        ended: Ended = "failed" if outcome.ended == "refused" else outcome.ended
        at = time.time_ns() // 1_000 if report is None else report.now
        self._show(LastRun(at=at, ended=ended, success=self._success(), labels=self._labels, report=report))

    def _recall(self) -> None:
        """Publish what is on record, so that a process started anew shows no gap until the next sweep."""
        records = [
            record for record in self._records() if record.ended in CODES or record.ended in SUCCESSFUL
        ]
        if records:
            last = records[-1]
            ended: Ended = "failed" if last.ended == "refused" else last.ended  # type: ignore[assignment]
            self._show(LastRun(at=last.at, ended=ended, success=self._success(), labels=self._labels))

    def _show(self, run: LastRun) -> None:
        self._published = True
        try:
            self._telling.publish(self.name, run)
        except OSError as error:
            self.untold = True
            self._say(logging.ERROR, NOT_WRITTEN, error=type(error).__name__)

    @property
    def _labels(self) -> Mapping[str, str]:
        return {"store": self.name, "command": "sweep"}

    def _success(self) -> Instant | None:
        return max((record.at for record in self._records() if record.ended in SUCCESSFUL), default=None)

    def _records(self) -> Sequence[Record]:
        with suppress(AfterrunError):  # a damaged state file fails the sweep, and is said there
            return [record for record in self._hosted.records() if record.command == "sweep"]
        return []


class Watch:
    """All stores of a settings file, swept in this process until it is told to settle."""

    def __init__(
        self, settings: Settings, *, telling: Telling, parallel: int = 1, approvals: Mapping[str, str]
    ) -> None:
        """Prepare. ``approvals`` has a fingerprint by a store's name. Raises `UsageError`."""
        names = [store.name for store in settings.stores]
        for name in approvals:
            if name not in names:
                raise UsageError(f"the settings name no store {name[:40]!r}{did_you_mean(name, names)}")
        self._turns = Turns(parallel)
        self._parallel = parallel
        self._workers: list[threading.Thread] = []
        self.stores = [
            StoreWatch(store, self._turns, telling, approvals.get(store.name)) for store in settings.stores
        ]

    def start(self) -> None:
        """Start all schedules."""
        for store in self.stores:
            store.start()

    def once(self, done: Callable[[], object]) -> None:
        """Sweep each store that is due, once, in threads; call ``done`` in the last one when all are."""
        waiting = deque(self.stores)
        working = [self._parallel]
        changed = threading.Lock()

        def work() -> None:
            with suppress(IndexError):
                while True:
                    waiting.popleft().once()
            with changed:
                working[0] -= 1
                last = not working[0]
            if last:
                done()

        names = [f"afterrun-once-{number}" for number in range(self._parallel)]
        self._workers = [threading.Thread(target=work, name=name, daemon=True) for name in names]
        for worker in self._workers:
            worker.start()

    def settle(self, seconds: float) -> bool:
        """Start no sweep any more, and wait for those that run; say whether all ended in time."""
        until = time.monotonic() + seconds
        for store in self.stores:
            store.scheduler.stop()
        self._turns.close()
        settled = [store.scheduler.close(max(0.0, until - time.monotonic())) for store in self.stores]
        for worker in self._workers:  # they still use what the caller has given them
            worker.join(max(0.0, until - time.monotonic()))
        return all(settled) and not any(worker.is_alive() for worker in self._workers)

    @property
    def is_failing(self) -> bool:
        """Say whether the last sweep of any store failed or was refused."""
        return any(store.is_failing for store in self.stores)

    @property
    def code(self) -> Exit:
        """Return the worst exit code of the last sweeps."""
        return worst([store.code for store in self.stores])


def worst(codes: Sequence[Exit]) -> Exit:
    """Return the code that weighs most."""
    return min(codes, key=SEVERITY.index, default=Exit.DONE)
