"""Stand-ins for what a sweep is handed: a clock that stands still, a memory of failures, an opened store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any, TypedDict, Unpack

from afterrun import FOREVER, Budget, MatchRule, Policy, Retention
from afterrun.core.batch import Pace, live_pace
from afterrun.core.events import Observer
from afterrun.core.facts import key_text
from afterrun.core.plan import Survey, make_plan
from afterrun.core.policy import Age
from afterrun.core.report import Report
from afterrun.core.store import Cursor, Store
from afterrun.core.sweep import Clock, Deferrals, Sweep, SweepRequest
from afterrun.core.times import to_datetime
from oracle import OraclePolicy, OracleRule

NOW = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, in microseconds."""


class FakeClock:
    """A monotonic clock that moves only when somebody sleeps, or by ``tick`` at each look."""

    def __init__(self, *, tick: float = 0.0) -> None:
        self.seconds = 0.0
        self.tick = tick
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        self.seconds += self.tick
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += seconds


class Memories:
    """Deferrals that stay for good: what failed once waits until it is told otherwise."""

    def __init__(self, *waiting: str) -> None:
        self.left_alone = set(waiting)
        self.failed: Counter[str] = Counter()
        self.kinds: dict[str, str] = {}
        self.cleared: list[str] = []

    def any(self) -> bool:
        return True

    def waiting(self, unit: str) -> bool:
        return unit in self.left_alone

    def defer(self, unit: str, kind: str) -> None:
        self.failed[unit] += 1
        self.kinds[unit] = kind

    def clear(self, unit: str) -> None:
        self.cleared.append(unit)


def as_policy(policy: OraclePolicy) -> Policy:
    """Say the oracle's policy in the product's words."""
    periods: dict[str, Any] = {f"keep_{name}": count for name, count in policy.periods}
    return Policy(
        keep_for=_age(policy.keep_for_us),
        before=None if policy.before_us is None else to_datetime(policy.before_us),
        keep_last=policy.keep_last,
        keep_last_counts=policy.keep_last_counts,
        group_by=None if policy.keep_last is None and not policy.periods else policy.group_by,
        grace=timedelta(microseconds=policy.grace_us),
        pins=policy.pins,
        timezone=policy.zone,
        cap_units=policy.cap_units,
        keep_keys=_age(policy.keep_keys_us),
        rules=tuple(map(_narrower, policy.rules)),
        **periods,
    )


def _narrower(rule: OracleRule) -> MatchRule:
    match = {"status": rule.statuses, "name": rule.names}
    age = _age(rule.keep_for_us)
    assert age is not None
    return MatchRule(match={key: words for key, words in match.items() if words}, keep_for=age)


def _age(age_us: float | None) -> Age | None:
    return FOREVER if age_us == inf else None if age_us is None else timedelta(microseconds=age_us)


@contextmanager
def retention_at(now: int, path: Path, *, profile: Path | None = None) -> Iterator[Retention]:
    """Open a store whose clock stands at ``now`` and whose pauses take no time; its state lies beside it."""
    name = None if profile is None else str(profile)
    with Retention(str(path), profile=name, state=path.with_suffix(".state")) as retention:
        stand_still(retention, now)
        yield retention


def stand_still(retention: Retention, now: int) -> None:
    """Stop a store's clock and its pauses."""
    retention.store.dialect.now = lambda: now  # type: ignore[method-assign]
    retention._clock = FakeClock()  # type: ignore[assignment]


class Request(TypedDict, total=False):
    """What a test may say of a pass; the rest is chosen so that it takes no time."""

    clock: Clock
    deferrals: Deferrals
    budget: Budget
    gate: Callable[[], bool]
    observer: Observer
    only: Collection[str]
    start: Cursor | None


def sweep(store: Store, policy: Policy, *, pace: Pace | None = None, **request: Unpack[Request]) -> Sweep:
    """Run one pass over any store and return it ended; its clock stands still unless another is given."""
    parts: Request = {"clock": FakeClock(), "deferrals": Memories()}
    parts.update(request)
    plan = make_plan(store, policy, now=store.now())
    done = Sweep(store, SweepRequest(plan=plan, pace=pace or live_pace(store.hold), **parts))
    done.run()
    return done


def survey(store: Store, policy: Policy, *, page: int = 1_000) -> tuple[Report, list[str]]:
    """Plan on any store; return the report and the ids of the units that would go."""
    counting = Survey(store, make_plan(store, policy, now=store.now()))
    going = [key_text(unit.key) for unit in counting.expired(page=page)]
    return counting.report, going
