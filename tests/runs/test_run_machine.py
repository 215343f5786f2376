"""Two connections that do anything to runs in any order, with retention between."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from afterrun import AfterrunError, Policy, SweepOptions
from afterrun.core.times import DAY
from afterrun.runs import Attempt, Effect, Lease, Pin, Question, RunStatus, RunStore, Task, Turn, sqlite
from afterrun.runs.side_tables import metadata
from afterrun.runs.words import ENDED, LIVE
from pg_server import SUPERUSER, Database, Server
from runs.run_checks import (
    Tables,
    check_cancelled,
    check_effects,
    check_links,
    expected_work,
    open_work,
    referred,
)
from runs.runs_kit import LONG_AGO, Home, ManualClock, machine_for

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
RUN = st.integers(0, 5)
"""Which of the newest runs."""
WHO = st.integers(0, 1)
"""Which connection."""
MONTH: Final = 31 * DAY

pytestmark = pytest.mark.slow


def some(found: list[Any], number: int) -> Any:  # noqa: ANN401 - whatever is in the list
    """Return one of the newest of a list, or nothing."""
    return found[-1 - number % len(found)] if found else None


class RunMachine(RuleBasedStateMachine):
    """Calls, refusals and prunes in any order. What is refused changes nothing."""

    def __init__(self) -> None:
        """Start with an empty store and two connections."""
        super().__init__()
        self.opened = ExitStack()
        self.home = self.fresh()
        self.stores = [self.opened.enter_context(self.home.open()) for _ in range(2)]
        self.look = self.opened.enter_context(self.home.database())
        self.runs: list[str] = []
        self.steps: list[Attempt] = []
        self.queued: list[Attempt] = []
        self.tasks: list[Task] = []
        self.approvals: list[Question] = []
        self.decisions: list[Question] = []
        self.leases: dict[str, Lease] = {}
        self.pins: list[Pin] = []
        self.effects: list[Effect] = []
        self.turns: list[Turn] = []

    def fresh(self) -> Home:
        """Return an empty store."""
        raise NotImplementedError

    def teardown(self) -> None:
        """End everything; then retention leaves nothing but tombstones."""
        with self.opened:
            for run in self.runs:
                self.tries(0, lambda store, run=run: store.cancel_tree(run, reason="over"))
            for pin in self.pins:
                self.tries(0, lambda store, pin=pin: store.pins.release(pin))
            self.hand_over(self.stores[0])
            self.prune(over=True)
            self.prune(over=True)  # a full pass takes content that a retried run let go of
            assert {name for name, rows in self.tables().items() if rows} <= {"idempotency_tombstones"}

    def tables(self) -> Tables:
        """Return all rows of all tables, from one snapshot."""
        with self.look.reading() as transaction:
            return {
                name: [dict(row._mapping) for row in transaction.rows(sa.select(table))]
                for name, table in metadata.tables.items()
            }

    def tries(self, who: int, call: Any) -> Any:  # noqa: ANN401 - any call of the store
        """Do something that may be refused."""
        try:
            return call(self.stores[who])
        except AfterrunError:
            return None

    def epoch(self, run: str) -> int | None:
        """Return the epoch by which somebody holds a run, as far as this test knows."""
        return self.leases[run].epoch if run in self.leases else None

    @initialize()
    def begin(self) -> None:
        """Have a run to begin with."""
        self.runs.append(self.stores[0].create("first").run.id)

    @rule(who=WHO, run=RUN, step=RUN, how=st.sampled_from(["root", "child", "restart", "continue", "key"]))
    def create(self, who: int, run: int, step: int, how: str) -> None:
        """Create a run of any kind."""
        target, attempt = some(self.runs, run), some(self.steps, step)
        words: dict[str, Any] = {"content": f"input {step}".encode()}
        if how == "child" and attempt is not None:
            words |= {"parent": attempt, "epoch": self.epoch(attempt.run)}
        elif how == "restart":
            words["restart_of"] = target
        elif how == "continue":
            words["continuation_of"] = target
        elif how == "key":
            words["idempotency_key"] = f"key {run}"
        made = self.tries(who, lambda store: store.create("run", **words))
        if made is not None and made.new:
            self.runs.append(made.run.id)

    @rule(who=WHO, run=RUN, what=st.sampled_from(["start", "start", "park", "wait"]))
    def move(self, who: int, run: int, what: str) -> None:
        """Start a run, or let it rest."""
        target = some(self.runs, run)
        self.tries(who, lambda store: getattr(store, what)(target, epoch=self.epoch(target)))

    @rule(who=WHO, run=RUN, what=st.sampled_from(["wake", "retry"]))
    def again(self, who: int, run: int, what: str) -> None:
        """Bring a run back into the queue."""
        target = some(self.runs, run)
        self.tries(who, lambda store: getattr(store, what)(target))

    @rule(who=WHO, run=RUN, status=st.sampled_from(ENDED), deliver=st.booleans())
    def finish(self, who: int, run: int, status: RunStatus, deliver: bool) -> None:
        """End a run."""
        target = some(self.runs, run)
        words = {"output": f"output {run}".encode(), "deliver_to": "asker" if deliver else None}
        self.tries(who, lambda store: store.finish(target, status, epoch=self.epoch(target), **words))

    @rule(who=WHO, run=RUN)
    def cancel(self, who: int, run: int) -> None:
        """Cancel a run with all below it."""
        target = some(self.runs, run)
        self.tries(who, lambda store: store.cancel_tree(target, reason="stop"))

    @rule(who=WHO, run=RUN)
    def go_on(self, who: int, run: int) -> None:
        """Continue as new."""
        target = some(self.runs, run)
        words = {"content": f"state {run}".encode(), "epoch": self.epoch(target)}
        self.tries(who, lambda store: store.continue_as_new(target, **words))

    @rule(who=WHO, run=RUN)
    def step(self, who: int, run: int) -> None:
        """Begin a step."""
        target = some(self.runs, run)
        made = self.tries(who, lambda store: store.steps.start(target, "step", epoch=self.epoch(target)))
        self.steps += [made] if made else []

    @rule(who=WHO, step=RUN, how=st.sampled_from(["complete", "fail", "fail and retry"]))
    def end_step(self, who: int, step: int, how: str) -> None:
        """End an attempt."""
        attempt = some(self.steps, step)
        if attempt is None:
            return
        epoch = self.epoch(attempt.run)
        if how == "complete":
            output = f"output {step}".encode()
            self.tries(who, lambda store: store.steps.complete(attempt, output=output, epoch=epoch))
            return
        retry = timedelta(0) if how != "fail" else None
        words: dict[str, Any] = {"reason": "no", "retry_in": retry, "epoch": epoch}
        made = self.tries(who, lambda store: store.steps.fail(attempt, **words))
        self.queued += [made] if made else []

    @rule(who=WHO, step=RUN)
    def retry_step(self, who: int, step: int) -> None:
        """Begin a queued attempt."""
        attempt = some(self.queued, step)
        if attempt is not None:
            words = {"epoch": self.epoch(attempt.run)}
            made = self.tries(who, lambda store: store.steps.retry(attempt, **words))
            self.steps += [made] if made else []

    @rule(who=WHO, run=RUN, task=RUN, what=st.sampled_from(["add", "complete", "fail"]))
    def plan(self, who: int, run: int, task: int, what: str) -> None:
        """Add or end a task."""
        target, known = some(self.runs, run), some(self.tasks, task)
        if what == "add":
            needs = [known] if known and known.run == target else []
            words: dict[str, Any] = {"needs": needs, "epoch": self.epoch(target)}
            made = self.tries(who, lambda store: store.tasks.add(target, "task", **words))
            self.tasks += [made] if made else []
        elif known is not None:
            self.tries(who, lambda store: getattr(store.tasks, what)(known, epoch=self.epoch(known.run)))

    @rule(who=WHO, run=RUN, question=RUN, what=st.sampled_from(["approve?", "decide?", "approve", "decide"]))
    def question(self, who: int, run: int, question: int, what: str) -> None:
        """Ask, or answer."""
        target = some(self.runs, run)
        kind, known = ("approvals", self.approvals) if "approve" in what else ("decisions", self.decisions)
        if what.endswith("?"):
            words = {"epoch": self.epoch(target)}
            made = self.tries(who, lambda store: getattr(store, kind).ask(target, "what?", **words))
            known += [made] if made else []
        elif known:
            asked = some(known, question)
            choice = ["left"] if what == "decide" else []
            self.tries(who, lambda store: getattr(getattr(store, kind), what)(asked, *choice, by="me"))

    @rule(who=WHO, run=RUN, how=st.sampled_from(["acquire", "release", "pass time"]))
    def lease(self, who: int, run: int, how: str) -> None:
        """Take or give back a run, or let leases run out."""
        target = some(self.runs, run)
        if how == "pass time":
            self.home.clock.now += DAY
        elif how == "acquire":
            words = {"owner": f"w{who}", "keep_for": timedelta(hours=1)}
            made = self.tries(who, lambda store: store.leases.acquire(target, **words))
            if made is not None:
                self.leases[target] = made
        elif target in self.leases:
            self.tries(who, lambda store: store.leases.release(self.leases[target]))

    @rule(who=WHO, run=RUN, how=st.sampled_from(["pin", "release", "hand over"]))
    def keep(self, who: int, run: int, how: str) -> None:
        """Pin content, let go of it, or do what others have to do."""
        if how == "pin":
            found = list(self.tables()["blobs"])
            if found:
                words = {"address": some(found, run)["address"], "holder": "me"}
                made = self.tries(who, lambda store: store.pins.add(some(self.runs, run), **words))
                self.pins += [made] if made else []
        elif how == "release" and self.pins:
            self.tries(who, lambda store: store.pins.release(some(self.pins, run)))
        elif how == "hand over":
            self.hand_over(self.stores[who], limit=1)

    @rule(who=WHO, step=RUN, name=st.sampled_from(["pay", "mail"]), key=st.booleans(), begin=st.booleans())
    def propose(self, who: int, step: int, name: str, key: bool, begin: bool) -> None:
        """Propose an effect, as an attempt did before or not."""
        attempt = some(self.steps, step)
        if attempt is not None:
            words: dict[str, Any] = {"key": "once" if key else None, "request": name.encode(), "begin": begin}
            words |= {"epoch": self.epoch(attempt.run)}
            made = self.tries(who, lambda store: store.effects.propose(attempt, name, **words))
            self.effects += [made] if made else []

    @rule(
        who=WHO,
        effect=RUN,
        what=st.sampled_from(["begin", "apply", "fail", "give up", "doubt", "settle", "not applied"]),
    )
    def effect(self, who: int, effect: int, what: str) -> None:
        """Go on with an effect in any way; what was applied stays applied, and happened once."""
        known = some(self.effects, effect)
        if known is None:
            return
        epoch = {"epoch": self.epoch(known.run)}
        calls: dict[str, Any] = {
            "begin": lambda store: store.effects.begin(known, **epoch),
            "apply": lambda store: store.effects.apply(known, receipt=b"receipt", **epoch),
            "fail": lambda store: store.effects.fail(known, reason="no", **epoch),
            "give up": lambda store: store.effects.fail(known, reason="no", again=False, **epoch),
            "doubt": lambda store: store.effects.doubt(known.run, **epoch),
            "settle": lambda store: store.effects.settle(known, applied=True, by="me", receipt=b"seen"),
            "not applied": lambda store: store.effects.settle(known, applied=False, by="me"),
        }
        self.tries(who, calls[what])

    @rule(
        who=WHO, run=RUN, step=RUN, what=st.sampled_from(["send", "send", "once", "read", "record", "step"])
    )
    def message(self, who: int, run: int, step: int, what: str) -> None:
        """Send a message to a run, or let it read one."""
        target, attempt = some(self.runs, run), some(self.steps, step)
        if what in ("send", "once"):
            key = "once" if what == "once" else None
            self.tries(who, lambda store: store.messages.send(target, b"hello", key=key))
            return
        own = attempt if attempt is not None and attempt.run == target else None
        record = {"read": None, "record": "receive", "step": own}[what]
        words = {"record_as": record, "epoch": self.epoch(target)}
        self.tries(who, lambda store: store.messages.consume(target, **words))

    @rule(who=WHO, run=RUN, turn=RUN, what=st.sampled_from(["open", "answer", "deliver", "close"]))
    def turn(self, who: int, run: int, turn: int, what: str) -> None:
        """Take a turn, or go on with one."""
        target, known = some(self.runs, run), some(self.turns, turn)
        if what == "open":
            made = self.tries(who, lambda store: store.turns.open(target, "user", content=b"why?"))
            self.turns += [made] if made else []
        elif known is not None and what == "answer":
            words = {"content": f"answer {turn}".encode(), "epoch": self.epoch(known.run)}
            self.tries(who, lambda store: store.turns.answer(known, **words))
        elif known is not None:
            self.tries(who, lambda store: getattr(store.turns, what)(known))

    @rule(who=WHO, run=RUN, step=RUN, what=st.sampled_from(["save", "note", "step", "forget", "follow up"]))
    def save(self, who: int, run: int, step: int, what: str) -> None:
        """Save a checkpoint, or promise to look again."""
        target, attempt = some(self.runs, run), some(self.steps, step)
        epoch = {"epoch": self.epoch(target)}
        if what == "forget":
            self.tries(who, lambda store: store.checkpoints.forget(target))
        elif what == "follow up":
            self.tries(who, lambda store: store.follow_ups.add(target, "look", **epoch))
        elif what != "step":
            words = epoch | {"resumable": what == "save"}
            self.tries(who, lambda store: store.checkpoints.save(target, f"at {run}".encode(), **words))
        elif attempt is not None:
            words = {"epoch": self.epoch(attempt.run)}
            self.tries(who, lambda store: store.checkpoints.save(attempt, b"at a step", **words))

    @rule(who=WHO, run=RUN, key=WHO, fingerprint=WHO, again=st.booleans())
    def ensure(self, who: int, run: int, key: int, fingerprint: int, again: bool) -> None:
        """Ask for a resource of a run."""
        target = some(self.runs, run)
        words: dict[str, Any] = {"key": f"vm {key}", "fingerprint": f"{fingerprint} cpu", "again": again}
        made = self.tries(who, lambda store: machine_for(store, target, **words))
        if made is not None and made.starter not in self.runs:
            self.runs.append(made.starter)

    def hand_over(self, store: RunStore, *, limit: int = 1_000) -> None:
        """Do what others have to do."""
        for result in store.results.due("asker", limit=limit):
            store.results.acknowledge(result)
        for effect in store.effects.unsettled(limit=limit):
            store.effects.settle(effect, applied=False, by="me")
        for turn in store.turns.due(limit=limit):
            store.turns.close(turn)
        for follow_up in store.follow_ups.due(limit=limit):
            store.follow_ups.done(follow_up)
        for checkpoint in store.checkpoints.unresumed(limit=limit):
            store.checkpoints.forget(checkpoint.run)
        for resource in store.resources.held(limit=limit):
            self.tries(0, lambda _, resource=resource: store.resources.release(resource))

    @rule()
    def prune(self, *, over: bool = False) -> None:
        """Let a month pass, and remove what then may go: whole trees in which nothing is open."""
        before = self.tables()
        alive = {row["root_id"] for row in before["runs"] if row["status"] in LIVE}
        alive |= {row["root_id"] for row in before["obligations"] if row["closed_at"] is None}
        self.home.clock.now += MONTH
        with self.home.retention(now=self.home.clock.now) as retention:
            report = retention.prune(Policy(keep_for=timedelta(days=30)), options=SweepOptions(offline=True))
        assert (report.ended, report.units.deferred) == ("completed", 0)
        left = {row["id"] for row in self.tables()["runs"]}
        assert left == {row["id"] for row in before["runs"] if row["root_id"] in alive}
        self.runs = [run for run in self.runs if run in left]
        if not self.runs and not over:
            self.begin()

    @invariant()
    def all_is_well(self) -> None:
        """Look at all tables at once."""
        tables = self.tables()
        assert open_work(tables) == expected_work(tables)
        check_cancelled(tables)
        check_links(tables)
        check_effects(tables)
        assert referred(tables) <= {row["id"] for row in tables["blobs"]}


class SqliteMachine(RunMachine):
    """In a file."""

    def fresh(self) -> Home:
        """Copy an empty store."""
        folder = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        path = str(folder / "runs.sqlite")
        RunStore.open(path).close()
        return Home("sqlite", path, folder, path, ManualClock(LONG_AGO))


class PostgresMachine(RunMachine):
    """On a server."""

    server: Server

    def fresh(self) -> Home:
        """Copy an empty store."""
        database = self.server.create_database(template=self.server.template("runs", _fill))
        self.opened.callback(self.server.drop_database, database.name)
        folder = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        return Home("postgresql", database.url(), folder, database.url(SUPERUSER), ManualClock(LONG_AGO))


def _fill(database: Database) -> None:
    RunStore.open(database.url()).close()


def _run(machine: type[RunMachine], examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "SETTINGS", (*sqlite.SETTINGS, "synchronous = OFF"))
    patient = settings(max_examples=examples, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(machine, settings=settings(patient, suppress_health_check=list(HealthCheck)))


@pytest.mark.timeout(3_600 if SOAK else 900)
def test_two_connections_to_a_file_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open work, lineage, links and content stay whole, and retention takes what is over, and no more."""
    _run(SqliteMachine, 500 if SOAK else 12, monkeypatch)


@pytest.mark.timeout(3_600 if SOAK else 900)
def test_two_connections_to_a_server_in_any_order(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on PostgreSQL."""
    monkeypatch.setattr(PostgresMachine, "server", postgres, raising=False)
    _run(PostgresMachine, 100 if SOAK else 4, monkeypatch)
