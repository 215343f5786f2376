"""Two hosts with one store, and whatever may happen to them in any order: what must never be, never is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from afterrun import StoreLocked
from afterrun.core.times import SECOND
from afterrun.schedule import IdleGate, Outcome, Reason, Request, Scheduler, Timing, Why
from schedule.schedule_kit import DAY, HOUR, MINUTE, FakeMemory, FakeTime

INTERVAL = round(DAY * SECOND)
HOSTS = st.integers(0, 1)
ENDINGS = st.sampled_from(["completed", "budget", "failed", "guard", "refused", "raises"])
SPANS = st.sampled_from([0.5, 2.0, MINUTE, 5 * MINUTE, HOUR, 7 * HOUR, DAY, 3 * DAY])
MEANWHILE = st.lists(
    st.sampled_from(["begin", "end", "piece", "request", "manual", "other", "turn", "stop"]), max_size=4
)
"""What happens in the host between two units of a sweep."""


class Store:
    """What both hosts share: the sweep lock, the memory and the clocks."""

    def __init__(self) -> None:
        self.time = FakeTime()
        self.memory = FakeMemory()
        self.holder: Host | None = None


class Host:
    """A process with a scheduler, which checks each sweep as it starts and goes."""

    def __init__(self, store: Store, automatic: bool) -> None:
        self.store = store
        self.idle = True
        self.gate = IdleGate(probe=lambda: self.idle)
        self.work: list[ExitStack] = []
        self.pieces = 0
        self.commands = ExitStack()
        self.manual = 0
        self.other: Host = self
        self.plan: tuple[str, list[str]] = ("completed", [])
        self.asked: Counter[Reason] = Counter()
        self.told: list[Outcome] = []
        self.scheduler = Scheduler(
            self.sweep,
            gate=self.gate,
            memory=store.memory,
            timing=Timing(interval=timedelta(hours=24 if automatic else 0)),
            clock=store.time,
            observer=self.told.append,
        )
        self.automatic = automatic
        self.started = self.sweeping = self.late = False
        self.faults: list[AssertionError] = []
        self.gate.listen(self.scheduler._work_ended)

    @property
    def busy(self) -> bool:
        return bool(self.work) or not self.idle

    @property
    def overdue(self) -> bool:
        memory, now = self.store.memory, self.store.time.wall()
        if memory.completed is not None:
            return now - memory.completed >= 4 * INTERVAL
        return memory.due is not None and now - memory.due >= 3 * INTERVAL

    def request(self, reason: Reason) -> None:
        before = self.scheduler.standing()
        after = self.scheduler.request(reason)
        if reason is Reason.MANUAL or self.automatic:
            closed = before.declined + (self.scheduler._agenda.closed)
            assert after.declined == closed
        else:
            assert after.declined == before.declined + 1
        if after.declined == before.declined:
            assert reason in after.reasons, "a request is neither waiting nor declined"

    def begin(self) -> None:
        stack = ExitStack()
        stack.enter_context(self.gate.busy("run"))
        self.work.append(stack)

    def end(self) -> None:
        if self.work:
            self.pieces += 1
            self.work.pop().close()

    def piece(self) -> None:
        self.begin()
        self.end()

    def command(self) -> None:
        if self.sweeping:
            return  # it would wait for the sweep, which is in this very thread
        if self.manual:
            self.manual = 0
            self.commands.close()
        else:
            self.commands.enter_context(self.scheduler.manual())
            self.manual = 1

    def sweep(self, request: Request) -> Outcome:
        """Sweep as the retention of a store does, and check every rule on the way."""
        try:
            self._may_start(request)
            self.sweeping = True
            return self._locked(request)
        except AssertionError as fault:  # to the scheduler it is one failure of a sweep more
            self.faults.append(fault)
            raise
        finally:
            self.sweeping = False

    def _may_start(self, request: Request) -> None:
        assert not self.sweeping, "two sweeps at once in one host"
        assert not self.manual
        assert request.reasons
        assert self.automatic or Reason.MANUAL in request.reasons
        if request.one_at_a_time:
            assert self.overdue
        else:
            assert not self.busy

    def _locked(self, request: Request) -> Outcome:
        store = self.store
        if self.late:
            self.late = False
            self.other.turn()  # between what was read of the memory and the lock
        if store.holder is not None:
            raise StoreLocked("another sweep holds this store")
        if (store.memory.completed or 0) > request.since:
            raise StoreLocked("another sweep has just been completed")
        store.holder = self
        try:
            return self._units(request)
        finally:
            store.holder = None

    def _units(self, request: Request) -> Outcome:
        word, events = self.plan
        self.plan = ("completed", [])
        pieces = self.pieces - 1  # the one whose end started it
        for event in events:
            if not self._goes_on(request, pieces):
                return Outcome(ended="interrupted")
            pieces = self.pieces
            self.happen(event)
        if not self._goes_on(request, pieces):
            return Outcome(ended="interrupted")
        if word == "raises":
            raise ZeroDivisionError
        if word == "completed":
            self._completed(request)
        return Outcome(ended=word)  # type: ignore[arg-type]

    def _goes_on(self, request: Request, pieces: int) -> bool:
        """Ask the gate; what it may not say yes to is a busy host, but between two pieces of its work."""
        self.store.time.meanwhile = [self.piece] if request.one_at_a_time and self.work else []
        goes_on = request.gate()
        self.store.time.meanwhile = []
        if goes_on and self.busy:
            assert request.one_at_a_time
            assert self.pieces > pieces, "two units between two pieces of work"
        if self.scheduler._agenda.closed:
            assert not goes_on
            assert request.halt()
        return goes_on

    def _completed(self, request: Request) -> None:
        memory, now = self.store.memory, self.store.time.wall()
        if memory.completed is not None and Reason.MANUAL not in request.reasons:
            assert now - memory.completed >= INTERVAL, "two completed sweeps within an interval"
        memory.completed = now

    def happen(self, event: str) -> None:
        """Let something happen, in or beside a sweep."""
        steps: dict[str, Callable[[], object]] = {
            "begin": self.begin,
            "end": self.end,
            "piece": self.piece,
            "request": lambda: self.request(Reason.RUNNER_EXIT),
            "manual": self.command,
            "other": self.other.turn,
            "turn": self.turn,
            "stop": self.scheduler.stop,
        }
        steps[event]()

    def turn(self) -> float | None:
        return self.scheduler._turn() if self.started else None

    def settle(self) -> float | None:
        for _ in range(50):
            seconds = self.turn()
            if seconds != 0.0:
                return seconds
        raise AssertionError("the scheduler turns in circles")


class Hosts(RuleBasedStateMachine):
    """Everything that can happen to two hosts."""

    @initialize(automatic=st.sampled_from([(True, True), (True, True), (True, False)]))
    def begin(self, automatic: tuple[bool, bool]) -> None:
        self.store = Store()
        self.automatic = automatic
        self.hosts = [Host(self.store, automatic[0]), Host(self.store, automatic[1])]
        self._introduce()
        for host in self.hosts:
            self._start(host)

    def _introduce(self) -> None:
        first, second = self.hosts
        first.other, second.other = second, first

    def _start(self, host: Host) -> None:
        host.started = True
        host.request(Reason.START_UP)

    @rule(which=HOSTS)
    def restart(self, which: int) -> None:
        """End a host, and start it again; what it did is over."""
        assert self.hosts[which].scheduler.close()
        self.hosts[which] = Host(self.store, self.automatic[which])
        self._introduce()
        self._start(self.hosts[which])

    @rule(which=HOSTS, event=st.sampled_from(["begin", "begin", "end", "end", "piece", "manual"]))
    def event(self, which: int, event: str) -> None:
        self.hosts[which].happen(event)

    @rule(which=HOSTS, reason=st.sampled_from(list(Reason)))
    def request(self, which: int, reason: Reason) -> None:
        self.hosts[which].request(reason)

    @rule(which=HOSTS, idle=st.booleans())
    def probe(self, which: int, idle: bool) -> None:
        self.hosts[which].idle = idle

    @rule(which=HOSTS, word=ENDINGS, meanwhile=MEANWHILE)
    def next_sweep(self, which: int, word: str, meanwhile: list[str]) -> None:
        self.hosts[which].plan = (word, meanwhile)

    @rule(which=HOSTS)
    def come_late(self, which: int) -> None:
        self.hosts[which].late = True

    @rule(which=HOSTS)
    def turn(self, which: int) -> None:
        self.hosts[which].settle()

    @rule(span=SPANS)
    def pass_time(self, span: float) -> None:
        """Let time pass as the threads would: from one look to the next."""
        time = self.store.time
        end = time.seconds + span
        for _ in range(2_000):
            waits = [wait for wait in (host.settle() for host in self.hosts) if wait is not None]
            ahead = min(waits, default=span)
            if time.seconds + ahead > end:
                break
            time.seconds += ahead
        else:
            raise AssertionError("hosts look all the time")
        time.seconds = max(time.seconds, end)

    @invariant()
    def what_waits_says_why(self) -> None:
        """Every request that no sweep has answered yet stands there with the reason why it has not."""
        for host in getattr(self, "hosts", []):
            if host.faults:
                raise host.faults[0]
            standing = host.scheduler.standing()
            assert standing.state == "due" or standing.why is not None
            if standing.reasons:
                assert standing.state in ("waiting", "due", "closed")
            assert not host.scheduler._occupied
            assert self.store.holder is None

    def teardown(self) -> None:
        """When all is quiet, every request is answered by a completed sweep within days."""
        if not hasattr(self, "hosts"):
            return
        for host in self.hosts:
            host.idle, host.plan = True, ("completed", [])
            while host.work:
                host.end()
            if host.manual:
                host.command()
        self.pass_time(3 * DAY)
        for host in self.hosts:
            assert not host.faults
            standing = host.scheduler.standing()
            if standing.why is not Why.CLOSED:
                assert standing.state in ("waiting", "off")
            if not self.automatic[1]:
                continue
            assert host.scheduler.close()


TestHosts = Hosts.TestCase
TestHosts.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
