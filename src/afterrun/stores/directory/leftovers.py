"""What earlier sweeps left: moved runs go back, half deleted ones go, the trash goes in its time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from afterrun.core.errors import StoreFailure
from afterrun.core.times import Instant
from afterrun.stores.directory.folders import Folders, lstat_at
from afterrun.stores.directory.journal import Batch, Entry
from afterrun.stores.directory.mounts import is_mounted, mounts_below
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.removal import delete, is_same, put_back
from afterrun.stores.directory.sweeping import Sweeping

SECONDS: Final = 60.0
"""Longest that one sweep spends on what others left; the rest waits for the next one."""

WHAT: Final = {
    "moved": "was moved and not put back",
    "deleting": "is half deleted",
    "laying": "was coming from a backup and is not whole",
}
DONE: Final = ("gone", "back", "deleted")
"""Outcomes after which the journal need not name an entry any more."""


class Settled(NamedTuple):
    """What became of leftovers, and what stays for people to see."""

    back: int = 0
    deleted: int = 0
    faults: tuple[str, ...] = ()


def settle(sweeping: Sweeping) -> Settled:
    """Put back, delete and reap what earlier sweeps left, as the journal says. Raises `StoreFailure`."""
    until = time.monotonic() + SECONDS
    total = Settled()
    for batch in sweeping.journal.batches():
        if isinstance(batch, str):
            total = total._replace(
                faults=(*total.faults, f"the journal's file {shown(batch)} cannot be read")
            )
            continue
        if sweeping.site.halt() or time.monotonic() > until:
            break
        found = _settle_batch(sweeping, batch)
        total = Settled(
            total.back + found.back, total.deleted + found.deleted, (*total.faults, *found.faults)
        )
    return total


def _settle_batch(sweeping: Sweeping, batch: Batch) -> Settled:
    done: list[Entry] = []
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    for entry in batch.entries:
        sweeping.check()
        try:
            outcome = _settle_entry(sweeping, entry)
        except InterruptedError:
            break
        except OSError as error:
            outcome = f"{entry.tombstone} cannot be settled: {error.strerror}"
        if outcome in DONE:
            done.append(entry)
            outcomes[outcome] += 1
        elif outcome:
            faults.append(outcome)
    if done:
        try:
            sweeping.journal.settle(batch.without(done))
        except OSError as error:
            raise StoreFailure("io", f"the journal cannot be written: {error.strerror}") from None
    return Settled(outcomes["back"], outcomes["deleted"], tuple(faults))


def _settle_entry(sweeping: Sweeping, entry: Entry) -> str:
    """Settle one entry; return one of `DONE`, a fault, or nothing if it waits for its time."""
    root = sweeping.site.root
    facts = lstat_at(root.descriptor, entry.place)
    if facts is None:
        return "gone"  # not renamed yet, or wholly deleted
    if entry.state != "laying" and not is_same(entry, facts, root.device):
        return f"{entry.tombstone} is not what the journal says; it is left alone"
    if entry.state == "moved":
        if put_back(root.descriptor, entry):
            return "back"
        return f"{shown('/'.join(entry.path))} is there twice: the older one is {entry.tombstone}"
    if not _is_due(sweeping, entry) or is_mounted(entry.place, mounts_below(root.path)):
        return ""
    with Folders(root.descriptor) as folders:
        delete(sweeping, entry, folders)
    return "deleted"


def _is_due(sweeping: Sweeping, entry: Entry) -> bool:
    """Say whether a tombstone is to be deleted now."""
    if entry.state in ("deleting", "laying"):
        return True
    if _now() < entry.until:
        return False
    return lstat_at(sweeping.site.root.descriptor, entry.path) is None


def outstanding(batches: Iterator[Batch | str], *, root: int) -> Iterator[str]:
    """Yield a line for each leftover that no sweep has settled: those of interrupted work, not the trash."""
    for batch in batches:
        if isinstance(batch, str):
            yield f"the journal's file {shown(batch)} cannot be read"
            continue
        for entry in batch.entries:
            facts = lstat_at(root, entry.place)
            if facts is not None and entry.state != "trash":
                what = WHAT[entry.state]
                path = shown("/".join(entry.path))
                yield f"{path} {what} (as {entry.tombstone}): the next sweep settles it"


def _now() -> Instant:
    return time.time_ns() // 1_000
