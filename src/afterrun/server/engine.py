"""The engine: holds a run store, and lets runners execute what is queued there.

``Engine.open`` opens the store, `run_until_stopped` serves it until `stop`. The event loop belongs to the
engine; what it asks of the store happens in the committer's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

from afterrun.core.errors import AfterrunError, UsageError
from afterrun.runs import RunError, RunNotFound, RunStore, StaleEpoch, WorkBlocked
from afterrun.runs.claims import Claim
from afterrun.runs.errors import StoreServed
from afterrun.runs.serving import ServerLease
from afterrun.schedule import IdleGate, Reason
from afterrun.server import answering
from afterrun.server.answering import ENDINGS, READING, Ask
from afterrun.server.committer import Committer
from afterrun.server.frames import Message
from afterrun.server.pool import Pool
from afterrun.server.sessions import Session, beginning, told
from afterrun.server.settings import EngineSettings
from afterrun.server.supervisor import Runner

log = logging.getLogger("afterrun.server")

T = TypeVar("T")

OWNER: Final = "workflow server "
"""How the owners of a server's leases begin; the epoch of its own lease follows."""

POLL: Final = 1.0
"""Seconds between two looks for work that nobody told of."""

PATIENCE: Final = timedelta(seconds=1)
"""Waits up to this long keep the lease of their run."""

GONE: Final = (StaleEpoch, RunNotFound, WorkBlocked)
"""What an owner meets whose run is not its own any more."""

CRASHES: Final = 10
"""Runners that may end while they execute a run that gets no further, before it fails."""


class Engine:
    """Serves one store. `stop`, `nudge` and `status` may be called from any thread."""

    def __init__(self, settings: EngineSettings, store: RunStore) -> None:
        """Take an open store; `open` opens one."""
        self.settings = settings
        self.store = store
        self.gate = IdleGate()
        self.ready = False
        self.finished = self.failures = self.handed_off = self.runner_exits = 0
        self.started_at: datetime | None = None
        self._committer = Committer(store)
        self._sessions: dict[str, Session] = {}
        self._crashes: dict[str, int] = {}
        self._lease: ServerLease | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._lost = False
        self._looked = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ready = asyncio.Event()
        self._look = asyncio.Event()
        self._beat = asyncio.Event()
        self._pool = Pool(settings, self)

    @classmethod
    def open(cls, settings: EngineSettings) -> Self:
        """Open the store, and make or upgrade its tables. Raises what `RunStore.open` raises."""
        return cls(settings, RunStore.open(settings.store))

    # ------------------------------------------------------------------------------- from any thread

    def stop(self) -> None:
        """Take no more work, hand off what runs, and return from `run_until_stopped`."""
        self._stopping = True
        self.nudge()

    def nudge(self) -> None:
        """Look now for work, for what has come, and for runs that were cancelled."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: there is nothing to look for
                loop.call_soon_threadsafe(self._nudged)

    def _nudged(self) -> None:
        self._look.set()
        self._beat.set()
        for session in list(self._sessions.values()):
            if session.held is not None:
                self._again(session)

    # --------------------------------------------------------------------------------------- its life

    async def run_until_stopped(self) -> None:
        """Serve the store. Raises `StoreServed` while another server does, and `UsageError` for a bad app."""
        self._loop = asyncio.get_running_loop()
        try:
            if not await self._acquire():
                return
            with self.gate.busy("recovery"):
                await self._recover()
                await self._pool.start()
            self.started_at, self.ready = datetime.now(UTC), True
            self._is_ready.set()
            await self._serve()
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
                self._lease = await self._commit(
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
    def owner(self) -> str:
        """Return the owner of the engine's leases."""
        assert self._lease is not None  # noqa: S101 - asked while it serves
        return f"{OWNER}{self._lease.epoch}"

    async def _recover(self) -> None:
        """Queue what servers before this one had: they hold the store no more."""
        while await self._commit(lambda: self.store.claims.abandoned(prefix=OWNER)):
            pass

    async def _serve(self) -> None:
        beating = self._spawn(self._keep_alive())
        try:
            while not (self._stopping or self._lost):
                self._look.clear()
                await self._take()
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL if self._pool.free else None):
                        await self._look.wait()
        finally:
            beating.cancel()

    async def _take(self) -> None:
        """Claim what is queued, as far as runners have room."""
        free = self._pool.free
        if not free:
            return
        with self.gate.busy("claim"):
            try:
                claims = await self._commit(lambda: self._claims(free))
            except AfterrunError as error:
                log.warning("no work was taken: %s", type(error).__name__)
                return
            for claim in claims:
                self._spawn(self._begin(claim))

    def _claims(self, limit: int) -> list[Claim]:
        """Take queued runs, those that are due now among them, and now and then those of late owners."""
        store, names, keep_for = self.store, self._pool.workflows, self.settings.lease
        store.claims.wake_due()
        if time.monotonic() - self._looked >= POLL:
            self._looked = time.monotonic()
            store.claims.late(names=names)
        return store.claims.take(owner=self.owner, names=names, keep_for=keep_for, limit=limit)

    async def _begin(self, claim: Claim) -> None:
        """Give a run to the runner that remembers it, or to the one with most room."""
        runner = self._pool.place(claim.run.id, claim.run.generation)
        if runner is None:
            with suppress(AfterrunError):
                await self._commit(lambda: self.store.claims.hand_off(claim.run.id, epoch=claim.epoch))
            return
        activity = ExitStack()
        activity.enter_context(self.gate.busy("run"))
        run = claim.run
        session = Session(run, claim.epoch, run.generation, runner, activity)
        self._sessions[run.id] = session
        runner.busy.add(run.id)
        if runner.resting.pop(run.id, None) is not None:
            await self._wait(session)
            return
        try:
            begun = await self._commit(lambda: beginning(self.store, claim))
        except AfterrunError as error:
            self._give_up(session, error)
            return
        if session.over:
            return
        runner.send(
            {
                "type": "run",
                "run": run.id,
                "epoch": claim.epoch,
                "workflow": run.name,
                "generation": begun.generation,
                "input": begun.input,
                "entries": begun.entries,
                "more": begun.more,
            }
        )

    # ------------------------------------------------------------------------------ what runners say

    def heard(self, runner: Runner, message: Message) -> None:
        """Take what a runner says, in the event loop."""
        session = self._sessions.get(message["run"])
        if session is None or session.runner is not runner or session.epoch != message["epoch"]:
            if message["type"] == "ask":
                refusal = {"gone": True, "message": "the run was handed off"}
                runner.send({"type": "answer", "id": message["id"], "ok": False, "with": refusal})
            return
        if message["type"] == "blocked":
            self._spawn(self._wait(session))
            return
        part = message["with"].get("content")
        content = None if part is None else _content(runner, part)
        run = session.run
        ask = answering.of_generation(Ask(run, session.epoch, message["with"], content), session.generation)
        session.asked += 1
        self._spawn(self._answer(session, message, ask))

    async def _answer(self, session: Session, message: Message, ask: Ask) -> None:
        do = message["do"]
        try:
            parts = await self._commit(lambda: answering.answer(self.store, do, ask))
        except (AfterrunError, ValueError, TypeError, KeyError) as error:
            gone = isinstance(error, GONE) or not isinstance(error, RunError | UsageError | ValueError)
            refusal = {"gone": gone, "message": str(error)}
            self._reply(session, message, ok=False, parts=refusal)
            if gone:
                self._give_up(session, error)
            return
        finally:
            session.asked -= 1
        if session.over:
            return
        self._crashes.pop(session.run.id, None)
        if do == "continue" and parts:
            session.generation = parts["generation"]
        if do in ENDINGS or (do == "continue" and not parts):
            self._reply(session, message, ok=True, parts=parts)
            self._ended(session, completed=do == "finish")
        elif session.draining and do not in READING:
            await self._hand_off(session)
        else:
            if do == "child":
                self._look.set()
            self._reply(session, message, ok=True, parts=parts)

    def _reply(self, session: Session, message: Message, *, ok: bool, parts: dict[str, Any]) -> None:
        session.runner.send({"type": "answer", "id": message["id"], "ok": ok, "with": parts})

    async def _wait(self, session: Session) -> None:
        """Lay a run aside that only waits, or tell it what has come."""
        if session.held is not None:
            session.held.cancel()
            session.held = None
        session.asked += 1
        run, epoch = session.run.id, session.epoch
        try:
            waited, entries = await self._commit(lambda: self._waited(session))
        except AfterrunError as error:
            self._give_up(session, error)
            return
        finally:
            session.asked -= 1
        if session.over:
            return
        if waited.resting:
            self._leave(session)
            if not session.runner.lost:
                self._pool.remember(session.runner, run, session.generation)
            self._look.set()
        elif session.draining:
            await self._hand_off(session)
        elif waited.settled:
            session.runner.send({"type": "resume", "run": run, "epoch": epoch, "entries": entries})
        elif waited.due_in is not None and self._loop is not None:
            seconds = waited.due_in.total_seconds()
            session.held = self._loop.call_later(seconds, self._again, session)

    def _waited(self, session: Session) -> tuple[Any, list[dict[str, Any]]]:
        waited = self.store.waits.wait(session.run.id, epoch=session.epoch, patience=PATIENCE)
        run = answering.of_generation(Ask(session.run, 0, {}, None), session.generation).run
        return waited, told(self.store, run, waited.settled)

    def _again(self, session: Session) -> None:
        if not session.over:
            self._spawn(self._wait(session))

    # ----------------------------------------------------------------------------------- its endings

    def _ended(self, session: Session, *, completed: bool) -> None:
        self.finished += 1
        self.failures += 0 if completed else 1
        self._leave(session)
        self._look.set()
        parent = session.run.parent
        above = None if parent is None else self._sessions.get(parent.run)
        if above is not None and above.held is not None:
            self._again(above)

    def _leave(self, session: Session) -> None:
        """Let go of a session, whatever became of its run."""
        if session.over:
            return
        session.over = True
        if session.held is not None:
            session.held.cancel()
        if self._sessions.get(session.run.id) is session:
            del self._sessions[session.run.id]
        session.runner.busy.discard(session.run.id)
        session.activity.close()

    def _give_up(self, session: Session, error: BaseException) -> None:
        """Stop a run that is not ours any more, or that the store did not take; nothing more is written."""
        if session.over:
            return
        log.info("a run is left alone: %s", type(error).__name__)
        session.runner.send({"type": "drop", "run": session.run.id})
        self._leave(session)
        self._look.set()

    async def _hand_off(self, session: Session) -> None:
        """Queue a run again, from its last commit."""
        if session.over:
            return
        session.runner.send({"type": "drop", "run": session.run.id})
        self._leave(session)
        self.handed_off += 1
        with suppress(AfterrunError):
            await self._commit(lambda: self.store.claims.hand_off(session.run.id, epoch=session.epoch))
        self._look.set()

    async def lost(self, runner: Runner) -> None:
        """Hand off the runs of a runner that has ended."""
        self.runner_exits += 1
        for session in [known for known in self._sessions.values() if known.runner is runner]:
            await self._crashed(session)
        self.request_sweep(Reason.RUNNER_EXIT)

    async def _crashed(self, session: Session) -> None:
        run = session.run.id
        self._crashes[run] = self._crashes.get(run, 0) + 1
        if self._crashes[run] < CRASHES:
            await self._hand_off(session)
            return
        self._crashes.pop(run)
        reason = f"its runner ended {CRASHES} times while it executed the run, which got no further"
        ask = Ask(session.run, session.epoch, {"reason": reason}, None)
        self._leave(session)
        with suppress(AfterrunError):
            await self._commit(lambda: answering.failed(self.store, ask))

    # ------------------------------------------------------------------------------------- its leases

    async def _keep_alive(self) -> None:
        """Renew the lease of the store and those of its runs; stop where the store is another server's."""
        pause = self.settings.lease.total_seconds() / 3
        renewed = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._beat.wait()
            self._beat.clear()
            try:
                await self._renew()
                renewed = time.monotonic()
            except StaleEpoch:
                log.error("another server has taken the store: this one stops")  # noqa: TRY400 - which is all there is to say
                self._give_all_up()
                return
            except AfterrunError as error:
                log.warning("the lease of the store was not renewed: %s", type(error).__name__)
                if time.monotonic() - renewed > self.settings.lease.total_seconds():
                    self._give_all_up()
                    return

    def _give_all_up(self) -> None:
        self._lost = True
        for session in list(self._sessions.values()):
            self._give_up(session, StaleEpoch("the store was lost"))
        self._look.set()

    async def _renew(self) -> None:
        lease, keep_for = self._lease, self.settings.lease
        assert lease is not None  # noqa: S101 - as it serves
        await self._commit(lambda: self.store.serving.renew(lease, keep_for=keep_for))
        before = {run: session.epoch for run, session in self._sessions.items() if not session.asked}
        held = await self._commit(lambda: self.store.claims.renew(owner=self.owner, keep_for=keep_for))
        for run, epoch in before.items():
            session = self._sessions.get(run)
            if session is None or session.epoch != epoch or session.asked:
                continue
            if held.get(run) != epoch:
                self._give_up(session, StaleEpoch("the lease of the run is over"))

    # ----------------------------------------------------------------------------------- its shutdown

    async def _settle(self) -> None:
        """Hand off what runs, end the runners, settle a sweep, and let go of the store."""
        self.ready = False
        with self.gate.busy("shutdown"):
            await self._drain()
            for session in list(self._sessions.values()):
                await self._hand_off(session)
            await self._pool.close()
            await self._stop_sweeps()
            for task in list(self._tasks):
                task.cancel()
            lease = self._lease
            if lease is not None and not self._lost:
                with suppress(AfterrunError):
                    await self._commit(lambda: self.store.serving.release(lease))
            self._committer.close()
            self.store.close()

    async def _drain(self) -> None:
        """Let steps that run end, for the grace at most."""
        for session in list(self._sessions.values()):
            session.draining = True
            if session.held is not None:
                await self._hand_off(session)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.grace.total_seconds()):
                while self._sessions:
                    self._look.clear()
                    await self._look.wait()

    async def _stop_sweeps(self) -> None:
        pass

    def request_sweep(self, reason: Reason) -> None:
        """Ask for a sweep."""

    # ------------------------------------------------------------------------------------------ tools

    async def _commit(self, work: Callable[[], T]) -> T:
        return await self._committer.do(work)

    def _spawn(self, work: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended_task)
        return task

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a piece of the engine's work failed: %s", type(task.exception()).__name__)


def _content(runner: Runner, part: dict[str, Any]) -> bytes:
    return str(part["text"]).encode() if "text" in part else runner.upload(part["upload"])
