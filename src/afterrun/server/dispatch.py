"""Runs in runners: given to one, answered, laid aside, ended, and handed off when something goes wrong.

All of it happens in the engine's event loop; what it asks of the store, in the committer's thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any, Final, Protocol

from afterrun.core.errors import AfterrunError, UsageError
from afterrun.runs import RunError, RunNotFound, RunStore, StaleEpoch, WorkBlocked
from afterrun.runs.claims import Claim
from afterrun.runs.waits import Waited
from afterrun.schedule import IdleGate
from afterrun.server import answering
from afterrun.server.answering import ENDINGS, READING, Ask
from afterrun.server.committer import Committer
from afterrun.server.frames import Message
from afterrun.server.sessions import Part, Session, beginning, told
from afterrun.server.supervisor import Runner

log = logging.getLogger("afterrun.server")

PATIENCE: Final = timedelta(seconds=1)
"""Waits up to this long keep the lease of their run."""

GONE: Final = (StaleEpoch, RunNotFound, WorkBlocked)
"""What an owner meets whose run is not its own any more."""

CRASHES: Final = 10
"""Runners that may end while they execute a run that gets no further, before it fails."""


RECENT: Final = 1_000
"""Runs whose ends are remembered for who asks a moment later."""


class Places(Protocol):
    """Who knows the runners."""

    def place(self, run: str, epoch: int) -> Runner | None:
        """Return a runner for a run that was claimed under an epoch."""

    def remember(self, runner: Runner, run: str, epoch: int) -> None:
        """Let a runner keep a waiting run in memory."""


class Endings:
    """Tells threads that wait for the ends of runs."""

    def __init__(self) -> None:
        """Begin with nobody who waits."""
        self._lock = threading.Lock()
        self._waiting: dict[str, set[threading.Event]] = {}
        self._recent: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def watched(self, run: str) -> Iterator[threading.Event]:
        """Give an event that is set when a runner has ended the run."""
        told = threading.Event()
        with self._lock:
            self._waiting.setdefault(run, set()).add(told)
            if run in self._recent:
                told.set()
        try:
            yield told
        finally:
            with self._lock:
                self._waiting[run].discard(told)
                if not self._waiting[run]:
                    del self._waiting[run]

    def tell(self, run: str) -> None:
        """Say that a run has ended."""
        with self._lock:
            for told in self._waiting.get(run, ()):
                told.set()
            self._recent[run] = None
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)


class Dispatch:
    """Knows the runs that runners execute. ``look`` is called when there may be work to take."""

    def __init__(
        self, store: RunStore, committer: Committer, gate: IdleGate, *, look: Callable[[], None]
    ) -> None:
        """Begin with no run."""
        self.sessions: dict[str, Session] = {}
        self.finished = self.failures = self.handed_off = 0
        self.endings = Endings()
        self.places: Places
        """The runners; they are given after they were given this."""
        self._store = store
        self._committer = committer
        self._gate = gate
        self._look = look
        self._crashes: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()

    def admit(self, claim: Claim) -> None:
        """Give a run to the runner that remembers it, or to the one with most room."""
        run = claim.run
        runner = self.places.place(run.id, claim.epoch)
        if runner is None:
            self.spawn(self.let_go(run.id, claim.epoch))
            return
        activity = ExitStack()
        activity.enter_context(self._gate.busy("run"))
        session = Session(run, claim.epoch, run.generation, runner, activity)
        self.sessions[run.id] = session
        runner.busy.add(run.id)
        if runner.resting.pop(run.id, None) is not None:
            self.spawn(self._wait(session))
        else:
            self.spawn(self._begin(session, claim))

    async def _begin(self, session: Session, claim: Claim) -> None:
        run = claim.run
        try:
            begun = await self._committer.do(lambda: beginning(self._store, claim), tree=run.root)
        except AfterrunError as error:
            self.give_up(session, error)
            return
        if session.over:
            return
        session.runner.send(
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
        session = self.sessions.get(message["run"])
        if session is None or session.runner is not runner or session.epoch != message["epoch"]:
            if message["type"] == "ask":
                refusal = {"gone": True, "message": "the run was handed off"}
                runner.send({"type": "answer", "id": message["id"], "ok": False, "with": refusal})
            return
        if message["type"] == "blocked":
            self.spawn(self._wait(session))
            return
        part = message["with"].get("content")
        content = None if part is None else _content(runner, part)
        run = session.run
        ask = answering.of_generation(Ask(run, session.epoch, message["with"], content), session.generation)
        session.asked += 1
        self.spawn(self._answer(session, message, ask))

    async def _answer(self, session: Session, message: Message, ask: Ask) -> None:
        do = message["do"]
        try:
            parts = await self._committer.do(
                lambda: answering.answer(self._store, do, ask), tree=session.run.root
            )
        except (AfterrunError, ValueError, TypeError, KeyError) as error:
            gone = isinstance(error, GONE) or not isinstance(error, RunError | UsageError | ValueError)
            refusal = {"gone": gone, "message": str(error)}
            self._reply(session, message, ok=False, parts=refusal)
            if gone:
                self.give_up(session, error)
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
            await self.hand_off(session)
        else:
            if do == "child":
                self._look()
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
            waited, entries = await self._committer.do(lambda: self._waited(session), tree=session.run.root)
        except AfterrunError as error:
            self.give_up(session, error)
            return
        finally:
            session.asked -= 1
        if session.over:
            return
        if waited.resting:
            self._leave(session)
            if not session.runner.lost:
                self.places.remember(session.runner, run, epoch)
            self._look()
        elif session.draining:
            await self.hand_off(session)
        elif waited.settled:
            session.runner.send({"type": "resume", "run": run, "epoch": epoch, "entries": entries})
        elif waited.due_in is not None:
            seconds = waited.due_in.total_seconds()
            session.held = asyncio.get_running_loop().call_later(seconds, self._again, session)

    def _waited(self, session: Session) -> tuple[Waited, list[Part]]:
        waited = self._store.waits.wait(session.run.id, epoch=session.epoch, patience=PATIENCE)
        run = answering.of_generation(Ask(session.run, 0, {}, None), session.generation).run
        return waited, told(self._store, run, waited.settled)

    def _again(self, session: Session) -> None:
        if not session.over:
            self.spawn(self._wait(session))

    # ----------------------------------------------------------------------------------- its endings

    def _ended(self, session: Session, *, completed: bool) -> None:
        self.finished += 1
        self.failures += 0 if completed else 1
        self._leave(session)
        self.endings.tell(session.run.id)
        self._look()
        parent = session.run.parent
        above = None if parent is None else self.sessions.get(parent.run)
        if above is not None and above.held is not None:
            self._again(above)

    def _leave(self, session: Session) -> None:
        """Let go of a session, whatever became of its run."""
        if session.over:
            return
        session.over = True
        if session.held is not None:
            session.held.cancel()
        if self.sessions.get(session.run.id) is session:
            del self.sessions[session.run.id]
        session.runner.busy.discard(session.run.id)
        session.activity.close()
        if not self.sessions:
            self._empty.set()

    def give_up(self, session: Session, error: BaseException) -> None:
        """Stop a run that is not ours any more, or that the store did not take; nothing more is written."""
        if session.over:
            return
        log.info("a run is left alone: %s", type(error).__name__)
        session.runner.send({"type": "drop", "run": session.run.id})
        self._leave(session)
        self._look()

    async def hand_off(self, session: Session) -> None:
        """Queue a run again, from its last commit."""
        if session.over:
            return
        session.runner.send({"type": "drop", "run": session.run.id})
        self._leave(session)
        self.handed_off += 1
        await self.let_go(session.run.id, session.epoch)

    async def let_go(self, run: str, epoch: int) -> None:
        """Queue a run that no runner executes. If that fails, the next look at the leases tries it again."""
        with suppress(AfterrunError):
            await self._committer.do(lambda: self._store.claims.hand_off(run, epoch=epoch))
        self._look()

    async def lost(self, runner: Runner) -> None:
        """Hand off the runs of a runner that has ended."""
        for session in [known for known in self.sessions.values() if known.runner is runner]:
            await self._crashed(session)

    async def _crashed(self, session: Session) -> None:
        run = session.run.id
        self._crashes[run] = self._crashes.get(run, 0) + 1
        if self._crashes[run] < CRASHES:
            await self.hand_off(session)
            return
        self._crashes.pop(run)
        reason = f"its runner ended {CRASHES} times while it executed the run, which got no further"
        ask = Ask(session.run, session.epoch, {"reason": reason}, None)
        self._leave(session)
        with suppress(AfterrunError):
            await self._committer.do(lambda: answering.failed(self._store, ask), tree=session.run.root)

    async def drain(self, seconds: float) -> None:
        """Let steps that run end, for the grace at most."""
        for session in list(self.sessions.values()):
            session.draining = True
            if session.held is not None:
                await self.hand_off(session)
        self._empty.clear()
        if self.sessions:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()
        for session in list(self.sessions.values()):
            await self.hand_off(session)

    # ------------------------------------------------------------------------------------------ tools

    def nudge(self) -> None:
        """Look at the runs that hold on for what comes soon: it may have come."""
        for session in list(self.sessions.values()):
            if session.held is not None:
                self._again(session)

    def cancel(self) -> None:
        """Give up all that is under way."""
        for task in list(self._tasks):
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a piece of work go on by itself; that it failed is logged."""
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
