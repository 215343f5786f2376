"""Units of one thread's checkpoints: each superseded one, with what goes with it, and those that stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from afterrun.core.facts import Key, Reason, Scalar, Unit
from afterrun.core.times import Instant
from afterrun.profiles.langgraph import Checkpoint, Cut, Place, Stay, cut, uuid6_instant

MOST_ROWS: Final = 200_000
"""Checkpoints of one thread that are looked at together. A longer thread stays as it is."""

OVERSIZED: Final = Stay("oversized-thread", f"its thread has more than {MOST_ROWS} checkpoints", blocks=True)
UNREADABLE_KEY: Final = Stay("unreadable-key", "the id of its thread is no plain text", blocks=True)
NO_AGE: Final = Reason("unknown-age", "the id of a checkpoint that goes with it tells no time")

Held = Mapping[str, Sequence[Reason]]
"""Why checkpoints are held from outside, by id."""


def units_of(
    thread: Scalar, found: Sequence[Checkpoint], held: Held, *, keep_forks: bool = True
) -> Iterator[Unit]:
    """Yield a unit for each checkpoint of a thread, but for those that go with another one."""
    if len(found) > MOST_ROWS:
        return _all_stay(thread, found, OVERSIZED)
    return _parted(thread, cut(found, keep_leaves=keep_forks), held, newer=_newer(found))


def unreadable(thread: Scalar, found: Sequence[Checkpoint]) -> Iterator[Unit]:
    """Yield a unit for each checkpoint of a thread whose id can be no parameter."""
    return _all_stay(thread, found, UNREADABLE_KEY)


def _all_stay(thread: Scalar, found: Sequence[Checkpoint], why: Stay) -> Iterator[Unit]:
    newer = _newer(found)
    return (kept_unit((thread, *row.place), why, newer[row.place]) for row in found)


def _parted(thread: Scalar, parted: Cut, held: Held, *, newer: Mapping[Place, int]) -> Iterator[Unit]:
    for place, stay in parted.kept.items():
        yield kept_unit((thread, *place), stay, newer[place])
    # the oldest first: what follows one that cannot be removed is led on, and that costs a row each
    for place, members in sorted(parted.going.items(), key=lambda unit: max(unit[1], key=_name).id):
        reasons = tuple(reason for member in members for reason in held.get(member.id, ()))
        end = _latest(members)
        reasons = reasons if end is not None else (*reasons, NO_AGE)
        keys = tuple((thread, *member) for member in members)
        yield _going((thread, *place), keys, end, reasons, newer[place])


def _going(
    key: tuple[Scalar, ...],
    members: tuple[Key, ...],
    end: Instant | None,
    blocked: Sequence[Reason],
    newer: int,
) -> Unit:
    known = end is not None
    return Unit(key, members, end, end, True, (), tuple(blocked), (), True, known, key[0], newer)  # noqa: FBT003 - by place, as it is the hot path


def kept_unit(key: tuple[Scalar, ...], why: Stay, newer: int) -> Unit:
    """Return the unit of a checkpoint that stays; ``newer`` of its namespace are newer."""
    reasons = _reasons(why)
    blocked, protected = (reasons, ()) if why.blocks else ((), reasons)
    end = uuid6_instant(key[-1])
    return Unit(key, (key,), end, end, True, (), blocked, protected, True, end is not None, key[0], newer)  # noqa: FBT003 - by place, as it is the hot path


@cache
def _reasons(why: Stay) -> tuple[Reason, ...]:
    return (Reason(why.name, why.detail),)


def _newer(found: Sequence[Checkpoint]) -> Mapping[Place, int]:
    """Return how many checkpoints of its namespace are newer than each."""
    counts: dict[Place, int] = {}
    count, namespace = 0, None
    for row in reversed(found):
        count = count + 1 if row.namespace == namespace else 0
        namespace = row.namespace
        counts[row.place] = count
    return counts


def _name(place: Place) -> str:
    return place.id


def _latest(members: Sequence[Place]) -> Instant | None:
    """Return the time of the newest, or nothing if one of them tells none."""
    times = [uuid6_instant(member.id) for member in members]
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None
