"""What holds units from outside: statements that find it, one for all rules that look at the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from afterrun.core.facts import Reason
from afterrun.profiles.model import Protection
from afterrun.profiles.words import Condition
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.literals import literal

MOST: Final = 30
"""Rules of one statement: each is a bit of a number that any database takes for a plain one."""


class Held(NamedTuple):
    """A statement whose rows begin with the keys of what is held.

    With several reasons, a number follows, whose bits say in their order which of them hold.
    """

    reasons: tuple[Reason, ...]
    blocks: bool
    statement: sa.Select[Any]

    @property
    def name(self) -> str:
        """Return the names of its reasons."""
        return ", ".join(dict.fromkeys(reason.name for reason in self.reasons))

    def told(self, row: Sequence[Any]) -> Sequence[Reason]:
        """Return the reasons that a row gives."""
        if len(self.reasons) == 1:
            return self.reasons
        return [reason for place, reason in enumerate(self.reasons) if row[1] >> place & 1]


def looked_up(protections: Sequence[Protection]) -> Iterator[Sequence[Protection]]:
    """Yield protections in order, together those of which one look at a table by a column tells."""
    groups: dict[object, list[Protection]] = {}
    for place, protection in enumerate(protections):
        plain = protection.column is not None and protection.by_live is None
        groups.setdefault((protection.table, protection.column) if plain else place, []).append(protection)
    for group in groups.values():
        yield from (group[start : start + MOST] for start in range(0, len(group), MOST))


def reason_of(protection: Protection) -> Reason:
    """Return what is said of a unit that a protection holds."""
    if protection.table is None:
        return Reason(protection.reason)
    if protection.all_runs:
        detail = f"a row of {protection.table}, of which nothing tells whose it is, may need it"
        return Reason(protection.reason, detail)
    return Reason(protection.reason, f"a row of {protection.table} refers to it")


def together(
    protections: Sequence[Protection], condition: Callable[[str, Condition], Column]
) -> tuple[list[Column], Column]:
    """Return the tests that rows of any of these protections pass, and the number that says of which.

    What all of them ask stands alone, so that a planner sees that a partial index serves.
    """
    shared = set.intersection(*(set(protection.where.items()) for protection in protections))
    tests = [condition(*test) for test in protections[0].where.items() if test in shared]
    own = [
        [condition(*test) for test in protection.where.items() if test not in shared]
        for protection in protections
    ]
    if all(own):
        tests.append(sa.or_(*(sa.and_(*parts) for parts in own)))
    bits = [
        sa.case((sa.and_(*parts), literal(1 << place)), else_=literal(0)) if parts else literal(1 << place)
        for place, parts in enumerate(own)
    ]
    number: Column = bits[0]
    for bit in bits[1:]:
        number = number + bit
    return tests, number
