"""Commits: what many runs ask for at a time goes into one transaction, and is answered once it is durable."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from afterrun.core.errors import StoreFailure
from afterrun.runs import RunStore

T = TypeVar("T")

TOGETHER: Final = 64
"""Pieces of work in one transaction."""

PASSING: Final = ("busy", "deadlock", "serialization", "lost-connection")
"""Kinds of failure after which the same work is tried again."""

TRIES: Final = 6
FIRST_PAUSE: Final = 0.05
"""Seconds before the second try; each further pause is twice as long."""


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any = None
    error: BaseException | None = None


class Committer:
    """Does work on the store in a thread of its own, in the order in which it was asked for.

    A piece of work is any number of calls of the store, in one transaction. If one of several fails, all of
    them are done again, each in a transaction of its own, so that only that one fails.
    """

    def __init__(self, store: RunStore) -> None:
        """Take a store."""
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="afterrun-commit")
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._flushing: asyncio.Task[None] | None = None
        self.commits = 0

    async def do(self, work: Callable[[], T]) -> T:
        """Do a piece of work, and return once it is committed. Raises what it raises."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await answer

    def close(self) -> None:
        """Take no work any more, and wait for what is at work."""
        self._thread.shutdown(wait=True)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), TOGETHER)
                batch = [self._waiting.popleft() for _ in range(count)]
                loop = asyncio.get_running_loop()
                done = await loop.run_in_executor(self._thread, self._commit, [work for work, _ in batch])
                for (_, answer), outcome in zip(batch, done, strict=True):
                    _tell(answer, outcome)
        finally:
            self._flushing = None

    def _commit(self, batch: Sequence[Callable[[], Any]]) -> list[_Done]:
        self.commits += 1
        if len(batch) > 1:
            try:
                with self._store.together():
                    return [_Done(work()) for work in batch]
            except Exception:  # noqa: BLE001, S110 - each is done again alone, and raises there
                pass
        return [self._alone(work) for work in batch]

    def _alone(self, work: Callable[[], Any]) -> _Done:
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                with self._store.together():
                    return _Done(work())
            except StoreFailure as error:
                if error.kind not in PASSING or not left:
                    return _Done(error=error)
            except Exception as error:  # noqa: BLE001 - it is the answer
                return _Done(error=error)
            time.sleep(pause)
            pause *= 2
        raise AssertionError  # the last try has returned


def _tell(answer: asyncio.Future[Any], outcome: _Done) -> None:
    if answer.done():
        return
    if outcome.error is not None:
        answer.set_exception(outcome.error)
    else:
        answer.set_result(outcome.value)
