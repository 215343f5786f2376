"""The engine: holds a run store, lets runners execute what is queued there, and sweeps it when it is idle.

``Engine.open`` opens the store, `run_until_stopped` serves it until `stop`. The event loop belongs to the
engine; what it asks of the store happens in the committer's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from afterrun.core.errors import AfterrunError
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim
from afterrun.core.sweep import Budget
from afterrun.runs import Run, RunStore, StaleEpoch
from afterrun.runs.claims import Claim
from afterrun.runs.errors import StoreServed
from afterrun.runs.serving import ServerLease
from afterrun.schedule import IdleGate, Reason
from afterrun.server.committer import Committer
from afterrun.server.dispatch import Dispatch
from afterrun.server.frames import Message
from afterrun.server.host import Status
from afterrun.server.pool import Pool
from afterrun.server.settings import EngineSettings
from afterrun.server.supervisor import Runner
from afterrun.server.upkeep import Upkeep
from afterrun.stores.sql.backups import BackupOrder

log = logging.getLogger("afterrun.server")

OWNER: Final = "workflow server "
"""How the owners of a server's leases begin; the epoch of its own lease follows."""

LOOK_AGAIN: Final = 0.5
"""Seconds after which a run that is waited for is looked at, since others end runs, too."""

POLL: Final = 1.0
"""Seconds between two looks for work that nobody told of."""

TIMERS: Final = 0.1
"""Seconds between two looks for runs whose time has come."""


class Engine:
    """Serves one store. All but the coroutines may be called from any thread; it is a `Host`."""

    def __init__(self, settings: EngineSettings, store: RunStore) -> None:
        """Take an open store; `open` opens one."""
        self.settings = settings
        self.store = store
        self.gate = IdleGate()
        self.ready = False
        self.runner_exits = 0
        self._started_at: datetime | None = None
        self._committer = Committer(store)
        self._dispatch = Dispatch(store, self._committer, self.gate, look=self._work)
        self._pool = self._dispatch.places = Pool(settings, self, self.gate)
        self._upkeep = Upkeep(settings, self.gate)
        self._lease: ServerLease | None = None
        self._orphans: set[tuple[str, int]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = self._lost = False
        self._looked = self._woken = 0.0
        self._is_ready = asyncio.Event()
        self._look = asyncio.Event()
        self._beat = asyncio.Event()

    @classmethod
    def open(cls, settings: EngineSettings) -> Self:
        """Open the store, and make or upgrade its tables. Raises what `RunStore.open` raises."""
        return cls(settings, RunStore.open(settings.store, sealing=settings.sealing))

    # ---------------------------------------------------------------------------------- as a host

    @property
    def policy(self) -> Policy:
        """Return what is kept of the store's own runs."""
        return self.settings.policy

    @property
    def backups(self) -> Path | None:
        """Return the folder for backups that are asked for over HTTP."""
        return self.settings.backups

    def stop(self) -> None:
        """Take no more work, hand off what runs, and return from `run_until_stopped`."""
        self._stopping = True
        self._upkeep.stop()
        self.nudge()

    def nudge(self) -> None:
        """Look now for work, for what has come, and for runs that were cancelled."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: there is nothing to look for
                loop.call_soon_threadsafe(self._nudged)

    def look_for_work(self) -> None:
        """Look now for queued work, from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: there is nothing to look for
                loop.call_soon_threadsafe(self._look.set)

    def await_end(self, run: str, seconds: float | None = None) -> Run:
        """Wait until a run has ended, for so many seconds at most; return it as it is then.

        Not in the event loop's thread. Raises `RunNotFound`.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._dispatch.endings.watched(run) as told:
            while True:
                left = LOOK_AGAIN if until is None else min(LOOK_AGAIN, until - time.monotonic())
                told.wait(max(left, 0))
                found = self.store.get(run)
                if found.ended_at is not None or left <= 0:
                    return found

    def status(self) -> Status:
        """Say how the engine is: counts and moments."""
        dispatch, standing = self._dispatch, self._upkeep.standing
        counts = {
            "runners": self._pool.processes,
            "runner_exits": self.runner_exits,
            "executing": len(dispatch.sessions),
            "remembered": self._pool.resting,
            "finished": dispatch.finished,
            "failed": dispatch.failures,
            "handed_off": dispatch.handed_off,
            "commits": self._committer.commits,
            "sweeps": standing.sweeps,
        }
        moments = {"started_at": self._started_at, "swept_at": self._upkeep.last_ended}
        return Status(ready=self.ready, counts=counts, moments=moments)

    def plan(self, policy: Policy) -> Report:
        """Say what would go."""
        return self._upkeep.plan(policy)

    def prune(self, policy: Policy, *, budget: Budget, backup: BackupOrder | None) -> Report:
        """Remove at a person's word."""
        return self._upkeep.prune(policy, budget=budget, backup=backup)

    def sweep(self, policy: Policy, *, budget: Budget, approve: str | None) -> Report:
        """Run one automatic sweep now."""
        return self._upkeep.sweep(policy, budget=budget, approve=approve)

    def reclaim(self, *, apply: bool) -> Reclaim:
        """Give space back, or say what could be given back."""
        return self._upkeep.reclaim(apply=apply)

    # -------------------------------------------------------------------------------- its life

    async def run_until_stopped(self) -> None:
        """Serve the store. Raises `StoreServed` while another server does, and `UsageError` for a bad app."""
        self._loop = asyncio.get_running_loop()
        try:
            if not await self._acquire():
                return
            with self.gate.busy("recovery"):
                beating = self._dispatch.spawn(self._keep_alive())
                await self._recover()
                await self._pool.start()
            self._started_at, self.ready = datetime.now(UTC), True
            self._is_ready.set()
            if self.store.upgraded is not None and self.store.upgraded.before is None:
                await asyncio.to_thread(self._upkeep.begin)
            self._upkeep.start()
            await self._serve()
            beating.cancel()
        finally:
            await self._settle()

    async def wait_ready(self) -> None:
        """Wait until the engine takes work; in the event loop of `run_until_stopped`."""
        await self._is_ready.wait()

    async def _acquire(self) -> bool:
        """Take the store; wait for a server that was killed. Say whether it came to that."""
        settings = self.settings
        patience = settings.lease * 1.5 if settings.patience is None else settings.patience
        until = time.monotonic() + patience.total_seconds()
        while not self._stopping:
            try:
                self._lease = await self._committer.do(
                    lambda: self.store.serving.acquire(owner=OWNER.strip(), keep_for=settings.lease)
                )
            except StoreServed:
                if time.monotonic() >= until:
                    raise
                await asyncio.sleep(min(0.2, settings.lease.total_seconds() / 10))
            else:
                return True
        return False

    @property
    def _owner(self) -> str:
        """Return the owner of the engine's leases."""
        assert self._lease is not None  # noqa: S101 - asked while it serves
        return f"{OWNER}{self._lease.epoch}"

    async def _recover(self) -> None:
        """Queue what servers before this one had: they hold the store no more."""
        while await self._committer.do(lambda: self.store.claims.abandoned(prefix=OWNER)):
            pass

    async def _serve(self) -> None:
        while not (self._stopping or self._lost):
            self._look.clear()
            await self._take()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._look.wait()

    async def _take(self) -> None:
        """Claim what is queued, as far as runners have room."""
        free = self._pool.free
        if not free:
            return
        with self.gate.busy("claim"):
            try:
                claims = await self._committer.do(lambda: self._claims(free))
            except AfterrunError as error:
                log.warning("no work was taken: %s", type(error).__name__)
                return
            for claim in claims:
                self._dispatch.admit(claim)

    def _claims(self, limit: int) -> list[Claim]:
        """Take queued runs, those that are due now among them, and now and then those of late owners."""
        store, names, keep_for = self.store, self._pool.workflows, self.settings.lease
        now = time.monotonic()
        if now - self._woken >= TIMERS:
            self._woken = now
            store.claims.wake_due()
        if now - self._looked >= POLL:
            self._looked = now
            store.claims.late(names=names, owner=self._owner)
        return store.claims.take(owner=self._owner, names=names, keep_for=keep_for, limit=limit)

    async def _settle(self) -> None:
        """Hand off what runs, end the runners, settle a sweep, and let go of the store."""
        self.ready = False
        with self.gate.busy("shutdown"):
            self._upkeep.stop()
            await self._dispatch.drain(self.settings.grace.total_seconds())
            await self._pool.close()
            await asyncio.to_thread(self._upkeep.close)
            self._dispatch.cancel()
            lease = self._lease
            if lease is not None and not self._lost:
                with suppress(AfterrunError):
                    await self._committer.do(lambda: self.store.serving.release(lease))
            await asyncio.to_thread(self._committer.close)
            self.store.close()

    # ------------------------------------------------------------------------------ what it hears

    def heard(self, runner: Runner, message: Message) -> None:
        """Take what a runner says."""
        self._dispatch.heard(runner, message)

    async def lost(self, runner: Runner) -> None:
        """Hand off the runs of a runner that has ended."""
        self.runner_exits += 1
        await self._dispatch.lost(runner)
        self._upkeep.request(Reason.RUNNER_EXIT)

    def _work(self) -> None:
        self._look.set()

    def _nudged(self) -> None:
        self._look.set()
        self._beat.set()
        self._dispatch.nudge()

    # ----------------------------------------------------------------------------------- its leases

    async def _keep_alive(self) -> None:
        """Renew the lease of the store and those of its runs; stop where the store is another server's."""
        lease = self.settings.lease.total_seconds()
        renewed = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(lease / 3):
                    await self._beat.wait()
            self._beat.clear()
            try:
                await self._renew()
                renewed = time.monotonic()
            except StaleEpoch:
                log.error("another server has taken the store: this one stops")  # noqa: TRY400 - all there is to say
                self._give_all_up()
                return
            except AfterrunError as error:
                log.warning("the lease of the store was not renewed: %s", type(error).__name__)
                if time.monotonic() - renewed > lease:
                    self._give_all_up()
                    return

    async def _renew(self) -> None:
        lease, keep_for, sessions = self._lease, self.settings.lease, self._dispatch.sessions
        assert lease is not None  # noqa: S101 - as it serves
        await self._committer.do(lambda: self.store.serving.renew(lease, keep_for=keep_for))
        before = {run: session.epoch for run, session in sessions.items() if not session.asked}
        held = await self._committer.do(lambda: self.store.claims.renew(owner=self._owner, keep_for=keep_for))
        for run, epoch in before.items():
            session = sessions.get(run)
            still = session is not None and session.epoch == epoch and not session.asked
            if session is not None and still and held.get(run) != epoch:
                self._dispatch.give_up(session, StaleEpoch("the lease of the run is over"))
        await self._let_go_of(held)

    async def _let_go_of(self, held: dict[str, int]) -> None:
        """Hand off runs that are held and that no runner has had since the last look: a commit failed."""
        alone = {(run, epoch) for run, epoch in held.items() if run not in self._dispatch.sessions}
        for run, epoch in alone & self._orphans:
            await self._dispatch.let_go(run, epoch)
        self._orphans = alone

    def _give_all_up(self) -> None:
        self._lost = True
        for session in list(self._dispatch.sessions.values()):
            self._dispatch.give_up(session, StaleEpoch("the store was lost"))
        self._look.set()
