"""Resolve a policy against a store at one ``now``: groups, counts, periods, caps and narrower rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from afterrun.core.errors import UsageError, did_you_mean
from afterrun.core.facts import Key
from afterrun.core.judge import Cap, Group, Rank, Rules, page_cutoff
from afterrun.core.match import matchers
from afterrun.core.periods import kept_by_period, slot_of
from afterrun.core.policy import Policy
from afterrun.core.sizes import format_size
from afterrun.core.store import Store
from afterrun.core.times import Instant


def resolve(store: Store, policy: Policy, *, now: Instant) -> tuple[Rules, list[str]]:
    """Return the rules, and what a reader of a plan should know of them.

    Raises `UsageError` for a group column or a status that the profile lacks.
    """
    notices: list[str] = []
    columns = store.group_columns
    places = _places(store, policy)
    narrower = matchers(policy, statuses=store.statuses, columns=columns, profile=store.profile_name)
    cap = _cap(store, policy, now=now, notices=notices)
    rules = Rules(
        now=now,
        policy=policy,
        cutoff=page_cutoff(policy, now, cap),
        places=places,
        newest=_newest(store, policy, places, now=now),
        periods=_periods(store, policy, places, now=now),
        matchers=narrower,
        cap=cap,
    )
    notices += _stray(store, policy)
    return rules, notices


def _places(store: Store, policy: Policy) -> tuple[int, ...]:
    columns = store.group_columns
    wanted = columns if policy.group_by is None else policy.group_by
    for name in wanted:
        if name not in columns:
            raise UsageError(
                f"the profile {store.profile_name} cannot group by {name!r}{did_you_mean(name, columns)}; "
                f"its group columns: {', '.join(columns) or 'none'}"
            )
    return tuple(columns.index(name) for name in wanted)


def _newest(store: Store, policy: Policy, places: Sequence[int], *, now: Instant) -> Mapping[Group, Rank]:
    if policy.keep_last is None:
        return {}
    any_status = policy.keep_last_counts == "any"
    return store.newest_kept(places, count=policy.keep_last, any_status=any_status, now=now)


def _periods(
    store: Store, policy: Policy, places: Sequence[int], *, now: Instant
) -> Mapping[str, frozenset[Key]]:
    rules = policy.periods
    if not rules:
        return {}
    slot = slot_of(rules, policy.timezone)
    found = store.newest_in(places, slot=slot, any_status=policy.keep_last_counts == "any", now=now)
    return kept_by_period(found, rules=rules, zone=policy.timezone)


def _cap(store: Store, policy: Policy, *, now: Instant, notices: list[str]) -> Cap | None:
    """Return the lowest cap, if any unit is beyond it."""
    counts = {"cap_units": policy.cap_units, "cap_bytes": _units_in(store, policy.cap_bytes, notices)}
    known = [(count, name) for name, count in counts.items() if count is not None]
    if not known:
        return None
    count, name = min(known)
    boundary = store.newest_kept((), count=count, any_status=True, now=now).get(())
    return None if boundary is None else Cap(name, count, boundary)


def _units_in(store: Store, size: int | None, notices: list[str]) -> int | None:
    """Return how many units take so many bytes, at least one; say so, since it is an estimate."""
    if size is None:
        return None
    held, units = store.content()
    if not held or not units:
        return None
    count = max(1, size * units // held)
    notices.append(
        f"cap_bytes {format_size(size)} comes to ~{count} units, since the content of one takes "
        f"~{max(1, held // units)} bytes"
    )
    return count


def _stray(store: Store, policy: Policy) -> Iterator[str]:
    """Say what of a policy holds nothing, so that a misspelt pin is noticed before its run is gone."""
    stray = sorted(policy.pins - store.known(policy.pins)) if policy.pins else []
    if stray:
        names = ", ".join(repr(pin[:40]) for pin in stray[:3])
        yield f"{len(stray)} pins are the id of no run in this store: {names}"
    if policy.keep_keys is not None and not store.knows_keys:
        yield f"keep_keys decides nothing: the profile {store.profile_name} names no idempotency key"
