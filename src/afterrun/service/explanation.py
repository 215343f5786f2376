"""Why one unit goes or stays, in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from afterrun.core.decided import Ruling, rulings
from afterrun.core.errors import UnitNotFound
from afterrun.core.facts import Reason, Scalar, Unit, key_text
from afterrun.core.judge import Verdict, judge
from afterrun.core.times import Instant
from afterrun.service.passes import Pass, Passes

OTHER_KINDS: Final = ("generations", "tables")
"""Rules of a policy that are for units of another kind."""


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
    rules: Sequence[Ruling]


def explained(passes: Passes, run: str) -> Explanation:
    """Say everything that decides about the unit of one run, or about one generation of it.

    Raises `UnitNotFound`.
    """
    part, unit = _found(passes, run)
    store, rules = part.store, part.plan.rules
    judgement = judge(unit, rules)
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
        now=rules.now,
        # the rules for units of its kind, and for no other
        policy={name: value for name, value in rules.policy.canonical().items() if name not in OTHER_KINDS},
        rules=rulings(unit, judgement, rules),
    )


def _found(passes: Passes, run: str) -> tuple[Pass, Unit]:
    """Find the unit of an id among all kinds, run trees first."""
    missing: UnitNotFound | None = None
    for part in passes.looking:
        try:
            return part, part.store.find(run)
        except UnitNotFound as error:
            missing = missing or error
    raise missing or UnitNotFound(run)
