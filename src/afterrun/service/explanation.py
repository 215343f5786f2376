"""Why one unit goes or stays, in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterrun.core.facts import Reason, Scalar, key_text
from afterrun.core.judge import Verdict, judge
from afterrun.core.plan import Plan
from afterrun.core.times import Instant
from afterrun.stores.sql.store import SqlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that decides about one unit. Instants are UTC."""

    unit: str
    kind: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    members: Sequence[Mapping[str, Scalar]]
    ended_at: Instant | None
    eligible_at: Instant | None
    group: Mapping[str, Scalar]
    rows: int
    now: Instant
    policy: Mapping[str, object]


def explained(store: SqlStore, plan: Plan, run: str) -> Explanation:
    """Say everything that decides about the unit of one run. Raises `UnitNotFound`."""
    unit = store.find(run)
    judgement = judge(unit, plan.rules)
    return Explanation(
        unit=key_text(unit.key),
        kind=store.kind,
        verdict=judgement.verdict,
        reasons=judgement.reasons,
        members=store.describe(unit),
        ended_at=unit.end if unit.settled else None,
        eligible_at=judgement.eligible_at,
        group=dict(zip(store.group_columns, unit.group, strict=False)),
        rows=sum(store.count([unit]).values()) if unit.complete else 0,
        now=plan.rules.now,
        policy=plan.rules.policy.canonical(),
    )
