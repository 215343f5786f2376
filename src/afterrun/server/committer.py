"""Commits: what many runs ask for at a time goes into one transaction, and is answered once it is durable."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from afterrun.runs import RunStore
from afterrun.server.again import PASSING, again

T = TypeVar("T")

TOGETHER: Final = 64
"""Pieces of work in one transaction."""

OVERLAPPING: Final = 2
"""Transactions under way at a time: one that does its work, and one that waits for the disk."""


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of work, who waits for it, and the tree that it is about."""

    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    tree: str | None


class Committer:
    """Does work on the store in threads of its own.

    A piece of work is any number of calls of the store, in one transaction. Pieces are begun in the order in
    which they were asked for. Those of one tree each share a transaction, which holds all these trees first;
    others have one of their own: so nobody who holds a tree, and waits for content that is stored here, is
    waited for. If one of several fails, all of them are done again, each in a transaction of its own, so that
    only that one fails.

    Where the database lets several write, one thread works on the next transaction while another one waits
    for the disk. Statements of two transactions never mix, so that the rows that these lock, content that
    several runs share among them, cannot be locked in two orders.
    """

    def __init__(self, store: RunStore) -> None:
        """Take a store."""
        self._store = store
        self._count = 1 if store.has_one_writer else OVERLAPPING
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="afterrun-commit")
        self._turn = threading.Lock()
        self._waiting: deque[_Piece] = deque()
        self._flushing = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.commits = 0

    async def do(self, work: Callable[[], T], *, tree: str | None = None) -> T:
        """Do a piece of work, and return once it is committed. Raises what it raises.

        ``tree`` is the root of the one tree that it reads and changes, if it is one.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Piece(work, answer, tree))
        if self._flushing < self._count:
            self._flushing += 1
            flushing = asyncio.create_task(self._flush())
            self._tasks.add(flushing)
            flushing.add_done_callback(self._tasks.discard)
        return await answer

    def close(self) -> None:
        """Take no work any more, and wait for what is at work."""
        self._threads.shutdown(wait=True)

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                for answer, outcome in await loop.run_in_executor(self._threads, self._commit):
                    _tell(answer, outcome)
        finally:
            self._flushing -= 1  # before anything else can be asked for

    def _commit(self) -> list[tuple[asyncio.Future[Any], _Done]]:
        """Do what waits once it is this thread's turn; the turn ends when only the commit is left."""
        turn = _Turn(self._turn)
        with turn:
            batch = self._next()
            if not batch:
                return []
            self.commits += 1
            try:
                with self._store.together(before_commit=turn.end):
                    if len(batch) > 1 and self._count > 1:
                        self._store.hold_trees([piece.tree for piece in batch if piece.tree])
                    done = [_Done(piece.work()) for piece in batch]
                return [(piece.answer, outcome) for piece, outcome in zip(batch, done, strict=True)]
            except Exception:  # noqa: BLE001, S110 - each is done again alone, and raises there
                pass
        with self._turn:
            return [(piece.answer, self._alone(piece.work)) for piece in batch]

    def _next(self) -> list[_Piece]:
        """Take what waits and may share a transaction."""
        batch: list[_Piece] = []
        while self._waiting and len(batch) < TOGETHER:
            if batch and self._count > 1 and None in (batch[0].tree, self._waiting[0].tree):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _alone(self, work: Callable[[], Any]) -> _Done:
        def one() -> Any:  # noqa: ANN401 - whatever the work returns
            with self._store.together():
                return work()

        try:
            return _Done(again(one, after=PASSING))
        except Exception as error:  # noqa: BLE001 - it is the answer
            return _Done(error=error)


class _Turn:
    """A turn that ends when its thread says so, or else with its block."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._mine = False

    def __enter__(self) -> None:
        self._lock.acquire()
        self._mine = True

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let another thread have its turn."""
        if self._mine:
            self._mine = False
            self._lock.release()


def _tell(answer: asyncio.Future[Any], outcome: _Done) -> None:
    if answer.done():
        return
    if outcome.error is not None:
        answer.set_exception(outcome.error)
    else:
        answer.set_result(outcome.value)
