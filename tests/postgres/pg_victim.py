"""A process that removes and is killed or stopped at a statement: started by the tests of kills.

It reads requests from standard input, a JSON object a line, and forks a child for each. A child says a line
when it is about to be ended; then its exit code is said (negative: the signal).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Final, Literal, Self

import psycopg

from afterrun import Policy, Retention, SweepOptions
from crash.killing import TESTS, environment
from postgres.statement_tap import driver_of

MONTH: Final = Policy(keep_for=timedelta(days=30))
BEGIN: Final = "BEGIN "

When = Literal["before", "sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One removal of a child. ``number`` counts the statements from the batch's BEGIN, from 0.

    ``when``: killed before the statement, or with it on its way to the server and nobody to hear the answer.
    """

    store: str
    state: str
    number: int | None = None
    when: When = "before"
    profile: str | None = None


class Victims:
    """Runs removals one after another, each in a process of its own."""

    def __init__(self, process: Popen[str]) -> None:
        """Wrap a server that is ready."""
        self._process = process

    def start(self, errand: Errand) -> int:
        """Start a removal; return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(errand)) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Wait for the removal's end; return its exit code, negative for a signal."""
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the process that forks the victims is gone"
        return answer


@contextmanager
def pg_victims() -> Iterator[Victims]:
    """Start the process that forks the victims."""
    command = [sys.executable, str(TESTS / "postgres" / "pg_victim.py")]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment()) as process:
        try:
            yield Victims(process)
        finally:
            process.kill()


def statements_of_a_batch(hear: Callable[[str], object]) -> type[psycopg.Cursor[Any]]:
    """Return a cursor that tells of each statement of the first batch before it is sent."""
    begun = ended = False

    class Heard(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **words: Any) -> Self:  # noqa: ANN401 - as the driver's
            nonlocal begun, ended
            text = query.decode() if isinstance(query, bytes) else str(query)
            begun = begun or text.startswith(BEGIN)
            if begun and not ended:
                ended = text == "COMMIT"
                act = hear(text)
                if act is not None:  # send it, and no more
                    next(self._execute_gen(query, *args))
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(query, *args, **words)

    return Heard


def _remove(errand: Errand) -> int:
    passed = 0

    def hear(_text: str) -> object:
        nonlocal passed
        reached = passed == errand.number
        passed += 1
        if reached and errand.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        return True if reached else None

    with Retention(errand.store, state=Path(errand.state), profile=errand.profile) as retention:
        driver_of(retention.store).cursor_factory = statements_of_a_batch(hear)
        report = retention.prune(MONTH, options=SweepOptions(offline=True))
    return 0 if report.ended == "completed" else 2


def _main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _remove(Errand(**json.loads(line)))
            except BaseException:  # noqa: BLE001 - the exit code is all that comes out of here
                traceback.print_exc()
            os._exit(code)
        _say(child)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _say(answer: int) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
