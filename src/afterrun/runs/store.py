"""The run store: one object for an application, whatever the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from afterrun.runs import calls, contents, creation, lifecycle, trees
from afterrun.runs.access import hold, hold_trees, look_at
from afterrun.runs.calls import Calls
from afterrun.runs.checkpoints import Checkpoints
from afterrun.runs.claims import Claims
from afterrun.runs.contents import Display
from afterrun.runs.creation import Created, Order
from afterrun.runs.database import Clock, Database, Make
from afterrun.runs.effects import Effects
from afterrun.runs.endings import RESUMABLE
from afterrun.runs.errors import Block
from afterrun.runs.follow_ups import FollowUps
from afterrun.runs.history import History, of_input, of_output
from afterrun.runs.identity import Choice, chosen, unlock
from afterrun.runs.leases import Leases
from afterrun.runs.lineage import lineage_block, step_block
from afterrun.runs.messages import Messages
from afterrun.runs.opening import dialect_of
from afterrun.runs.overview import Overview, overview_of
from afterrun.runs.pages import Pages
from afterrun.runs.pins import Pins
from afterrun.runs.questions import Approvals, Decisions
from afterrun.runs.resealing import reseal
from afterrun.runs.resources import Resources
from afterrun.runs.results import Results
from afterrun.runs.schema import runs
from afterrun.runs.serving import Serving
from afterrun.runs.steps import Steps
from afterrun.runs.tasks import Tasks
from afterrun.runs.trees import Tree
from afterrun.runs.turns import Turns
from afterrun.runs.upgrade import Upgrade, make_ready, pending
from afterrun.runs.views import COLUMNS, Attempt, Run, runs_of
from afterrun.runs.waits import Waits
from afterrun.runs.words import PAGE, RunStatus


class RunStore:
    """Runs, steps, tasks, questions and leases in one database. Safe for any number of threads.

    Each method is one transaction. What it refuses raises `RunError` and changes nothing; a database that
    fails raises `StoreFailure`. ``epoch`` is that of the caller's lease, and needed while there is one.
    """

    def __init__(self, database: Database, *, upgraded: Upgrade | None) -> None:
        """Take a database that is ready; `open` makes one."""
        self._database = database
        self.upgraded = upgraded
        self.steps = Steps(database)
        self.tasks = Tasks(database)
        self.approvals = Approvals(database)
        self.decisions = Decisions(database)
        self.leases = Leases(database)
        self.pins = Pins(database)
        self.results = Results(database)
        self.pages = Pages(database)
        self.effects = Effects(database)
        self.messages = Messages(database)
        self.turns = Turns(database)
        self.follow_ups = FollowUps(database)
        self.checkpoints = Checkpoints(database)
        self.resources = Resources(database)
        self.serving = Serving(database)
        self.claims = Claims(database)
        self.calls = Calls(database)
        self.waits = Waits(database)
        self.history = History(database)

    @classmethod
    def open(
        cls,
        location: str,
        *,
        sealing: Choice = None,
        migrate: bool = True,
        clock: Clock | None = None,
    ) -> Self:
        """Open the store at a path or URL, and make or upgrade its tables if ``migrate`` allows it.

        ``sealing`` are the keys of its content, by default those of the environment, or ``"off"`` for a store
        that may hold it in the clear. Without either, everything works that needs no exact content.
        ``upgraded`` then says what was done. ``clock`` replaces the database's, for tests. Raises
        `SchemaTooNew`, `UpgradeNeeded`, `UpgradeRefused`, `WrongSealingKey`, `SealedStore`, `UsageError` and
        `StoreFailure`.
        """
        choice = chosen(sealing)
        database = Database(dialect_of(location), clock=clock)
        try:
            upgraded = make_ready(database, migrate=migrate)
            database.sealing = unlock(database, choice, migrate=migrate)
            return cls(database, upgraded=upgraded)
        except BaseException:
            database.close()
            raise

    @staticmethod
    def pending(location: str) -> Upgrade | None:
        """Say what `open` would do to the tables at a path or URL; nothing if they are up to date."""
        database = Database(dialect_of(location))
        try:
            return pending(database)
        finally:
            database.close()

    def __enter__(self) -> Self:
        """Return the open store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    @contextmanager
    def together(self, *, before_commit: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Put all calls of this thread meanwhile into one transaction; an exception undoes them all.

        ``before_commit`` is called when only the commit is left.
        """
        with self._database.together(before_commit=before_commit):
            yield

    def hold_trees(self, roots: Collection[str]) -> None:
        """Within `together`: hold the trees of these roots, in an order that is the same for all who do so.

        Who changes several trees in one transaction holds them all first: two that take them one by one, or
        content that both store, would wait for each other.
        """
        with self._database.writing() as transaction:
            hold_trees(transaction, roots)

    @property
    def has_one_writer(self) -> bool:
        """Say whether a transaction that writes keeps all others from writing until it is committed."""
        return not self._database.dialect.locks_rows

    def create(
        self,
        name: str,
        *,
        parent: Attempt | None = None,
        restart_of: str | None = None,
        continuation_of: str | None = None,
        idempotency_key: str | None = None,
        content: bytes | None = None,
        deliver_to: str | None = None,
        epoch: int | None = None,
    ) -> Created:
        """Create a queued run: a root, or under the attempt that starts it.

        A ``restart_of`` or ``continuation_of`` joins the tree of that run. An ``idempotency_key`` that
        created a run before gives that one, and `KeySpent` once it was removed. ``deliver_to`` is who gets
        its result. ``epoch`` is that of the parent's lease. Raises `WorkBlocked` where nothing may begin.
        """
        order = Order(
            name=name,
            parent=parent,
            restart_of=restart_of,
            continuation_of=continuation_of,
            idempotency_key=idempotency_key,
            content=content,
            deliver_to=deliver_to,
            epoch=epoch,
        )
        with self._database.writing() as transaction:
            return creation.create(transaction, order)

    def start(self, run: str, *, epoch: int | None = None) -> Run:
        """Begin a run that is queued, or go on with one that parked or waits."""
        with self._database.writing() as transaction:
            return lifecycle.start(transaction, run, epoch=epoch)

    def park(self, run: str, *, epoch: int | None = None) -> Run:
        """Lay a running run aside until somebody starts it; its lease ends."""
        with self._database.writing() as transaction:
            return lifecycle.rest(transaction, run, RunStatus.PARKED, epoch=epoch)

    def wait(self, run: str, *, epoch: int | None = None) -> Run:
        """Let a running run wait for a child, an answer, or `wake`; its lease ends.

        It is queued again by the first of them, which may not be what it waits for: look, and wait again.
        """
        with self._database.writing() as transaction:
            return lifecycle.rest(transaction, run, RunStatus.WAITING, epoch=epoch)

    def wake(self, run: str) -> bool:
        """Queue a run that waits; say whether it did."""
        with self._database.writing() as transaction:
            return lifecycle.wake(transaction, hold(transaction, run))

    def finish(
        self,
        run: str,
        status: RunStatus = RunStatus.COMPLETED,
        *,
        output: bytes | None = None,
        reason: str | None = None,
        deliver_to: str | None = None,
        epoch: int | None = None,
    ) -> Run:
        """End a run as completed, failed or timed_out.

        ``deliver_to`` posts the output as a result that keeps the tree until it is acknowledged.
        To complete, the run must have ended its own steps, tasks and questions; otherwise they are
        cancelled. Children go on, and the parent is queued if it waits. ``reason`` is scrubbed.
        """
        with self._database.writing() as transaction:
            return lifecycle.finish(
                transaction,
                run,
                RunStatus(status),
                output=output,
                reason=reason,
                deliver_to=deliver_to,
                epoch=epoch,
            )

    def retry(self, run: str, *, steps: bool = False) -> Run:
        """Queue a run again that failed or ran out of time.

        With ``steps``, those after its last completed one are queued for another try, as a workflow needs it.
        """
        with self._database.writing() as transaction:
            again = lifecycle.retry(transaction, run)
            if steps:
                calls.try_again(transaction, again)
            return again

    def resume(self, run: str) -> Run:
        """Queue a run that parked, waits, failed or ran out of time, at a person's word.

        Of one that failed, steps after its last completed one are tried again.
        """
        with self._database.writing() as transaction:
            if look_at(transaction, run).status not in RESUMABLE:
                return lifecycle.go_on(transaction, run)
            again = lifecycle.retry(transaction, run)
            calls.try_again(transaction, again)
            return again

    def continue_as_new(self, run: str, *, content: bytes | None = None, epoch: int | None = None) -> Run:
        """Go on as a new generation that begins with ``content``."""
        with self._database.writing() as transaction:
            return lifecycle.continue_as_new(transaction, run, content=content, epoch=epoch)

    def cancel_tree(self, run: str, *, reason: str) -> int:
        """Cancel a run and all below it in one transaction; return how many runs that ended."""
        with self._database.writing() as transaction:
            return trees.cancel_tree(transaction, run, reason=reason)

    def tree(self, run: str) -> Tree | None:
        """Return a run and all below it, and whether anything is open: one snapshot. ``None`` if missing."""
        with self._database.reading() as transaction:
            return trees.tree_of(transaction, run)

    def lineage_block(self, run: str) -> Block | None:
        """Say why nothing may begin under a run now, or ``None``."""
        with self._database.reading() as transaction:
            return lineage_block(transaction, run)

    def step_block(self, attempt: Attempt) -> Block | None:
        """Say why an attempt may create nothing now, or ``None``."""
        with self._database.reading() as transaction:
            return step_block(transaction, attempt)

    def get(self, run: str) -> Run:
        """Return a run as it is now, without its content. Raises `RunNotFound`."""
        with self._database.looking() as transaction:
            return look_at(transaction, run)

    def view(self, run: str) -> Overview:
        """Return a run with how much it has and what is open of its own, without content."""
        with self._database.reading() as transaction:
            return overview_of(transaction, run)

    def newest(
        self, *, status: RunStatus | None = None, before: str | None = None, limit: int = PAGE
    ) -> list[Run]:
        """Return the newest runs, at most ``limit``; ``before`` an id, for the next page."""
        wanted = sa.select(*COLUMNS).order_by(runs.c.id.desc()).limit(limit)
        if status is not None:
            wanted = wanted.where(runs.c.status == RunStatus(status))
        if before is not None:
            wanted = wanted.where(runs.c.id < before)
        with self._database.reading() as transaction:
            return runs_of(transaction.rows(wanted))

    def queued(self, *, limit: int = PAGE) -> list[Run]:
        """Return the runs that have waited longest to be started."""
        wanted = sa.select(*COLUMNS).where(runs.c.status == sa.literal_column(f"'{RunStatus.QUEUED}'"))
        with self._database.reading() as transaction:
            return runs_of(transaction.rows(wanted.order_by(runs.c.id).limit(limit)))

    def input_of(self, run: str) -> bytes | None:
        """Return the exact content that a run began with. Raises `RunNotFound` and `PayloadUnreadable`."""
        return self._content(run, of_input, "input of the run")

    def output_of(self, run: str) -> bytes | None:
        """Return the exact content that a run ended with. Raises `RunNotFound` and `PayloadUnreadable`."""
        return self._content(run, of_output, "output of the run")

    def input_display_of(self, run: str) -> Display | None:
        """Return what may be shown of a run's input; it needs no key. Raises `RunNotFound`."""
        return self._display(run, runs.c.input_id, "input of the run")

    def output_display_of(self, run: str) -> Display | None:
        """Return what may be shown of a run's output; it needs no key. Raises `RunNotFound`."""
        return self._display(run, runs.c.output_id, "output of the run")

    def address_of(self, content: bytes) -> str:
        """Return the address that content has in this store, for `pins`. Raises `NoSealingKey`."""
        with self._database.reading() as transaction:
            return transaction.sealing.address(content)

    def reseal(self, *, limit: int = PAGE) -> int:
        """Seal some more content under the current key; return how much is still to be looked at.

        For a host's idle time after a new key was put first: at most ``limit`` contents are looked at in one
        transaction. At 0 nothing is sealed under an older key any more. Raises `NoSealingKey`.
        """
        with self._database.writing() as transaction:
            return reseal(transaction, limit=limit)

    def _content(self, run: str, make: Make, target: str) -> bytes | None:
        with self._database.looking() as transaction:
            rows = transaction.direct(make, {"run": run})
            content = contents.opened(transaction, rows, run=run, target=target)
            if content is None:
                look_at(transaction, run)
            return content

    def _display(self, run: str, column: sa.Column[int], target: str) -> Display | None:
        reference = sa.select(column).where(runs.c.id == run).scalar_subquery()
        with self._database.looking() as transaction:
            shown = contents.show(transaction, reference, run=run, target=target)
            if shown is None:
                look_at(transaction, run)
            return shown
