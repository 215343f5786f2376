"""The trash of a directory: what can still be put back, and putting it back, whole units only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from afterrun.core.errors import Refused, StoreFailure, UnitNotFound
from afterrun.stores.directory.folders import folder_at, lstat_at, rename_new
from afterrun.stores.directory.journal import Batch, Entry
from afterrun.stores.directory.names import shown
from afterrun.stores.directory.removal import is_same, put_back
from afterrun.stores.directory.sweeping import Sweeping


@dataclass(slots=True)
class Returned:
    """What came back from the trash: units, and why others did not."""

    units: int = 0
    members: int = 0
    refused: list[str] = field(default_factory=list)


def restore(sweeping: Sweeping, run: str | None = None) -> Returned:
    """Put the unit of one run, or everything in the trash, back in its place. The store is held.

    Raises `UnitNotFound` for a run that the trash has not, and `Refused` for one that cannot come back.
    """
    returned = Returned()
    found = False
    for batch in list(sweeping.journal.batches()):
        if isinstance(batch, str):
            returned.refused.append(f"the journal's file {shown(batch)} cannot be read")
            continue
        for unit in dict.fromkeys(entry.unit for entry in batch.entries):
            entries = [entry for entry in batch.entries if entry.unit == unit]
            if run is None or run in _names(unit, entries):
                found = True
                batch = _restore_unit(sweeping, batch, entries, returned)  # noqa: PLW2901 - what is left of it
    if run is not None and not found:
        raise UnitNotFound(f"no run {shown(run)!r} is in the trash of {sweeping.site.url}")
    if run is not None and not returned.units:
        raise Refused("restore", "; ".join(returned.refused))
    return returned


def _names(unit: str, entries: Sequence[Entry]) -> set[str]:
    return {unit, *(entry.run for entry in entries), *("/".join(entry.path) for entry in entries)}


def _restore_unit(sweeping: Sweeping, batch: Batch, entries: Sequence[Entry], returned: Returned) -> Batch:
    """Put the members of one unit back; return what is left of its batch."""
    why = _obstacle(sweeping, entries)
    if why:
        returned.refused.append(f"{shown(entries[0].unit)} {why}")
        return batch
    back: list[Entry] = []
    for entry in entries:
        sweeping.check()
        if not put_back(sweeping.site.root.descriptor, entry):
            _undo(sweeping, back)
            returned.refused.append(f"{shown(entries[0].unit)} cannot be renamed; it stays in the trash")
            return batch
        back.append(entry)
    left = batch.without(entries)
    try:
        sweeping.journal.settle(left)
    except OSError as error:
        raise StoreFailure("io", f"the journal cannot be written: {error.strerror}") from None
    returned.units += 1
    returned.members += len(entries)
    return left


def _obstacle(sweeping: Sweeping, entries: Sequence[Entry]) -> str:
    """Say why a unit cannot come back; an empty text if it can."""
    root = sweeping.site.root
    if any(entry.state == "deleting" for entry in entries):
        return "is half deleted: nothing of it comes back"
    for entry in entries:
        try:
            facts, taken = lstat_at(root.descriptor, entry.place), lstat_at(root.descriptor, entry.path)
        except OSError as error:
            return f"cannot be looked at: {error.strerror}"
        if facts is None or not is_same(entry, facts, root.device):
            return "is not in the trash any more"
        if taken is not None:
            return "cannot come back: its name is taken again"
    return ""


def _undo(sweeping: Sweeping, back: Sequence[Entry]) -> None:
    """Move members that came back into the trash again, since another one cannot come."""
    for entry in back:
        try:
            with folder_at(sweeping.site.root.descriptor, entry.path[:-1]) as folder:
                rename_new(entry.path[-1], entry.tombstone, at=folder)
        except OSError as error:
            raise StoreFailure("io", f"half a unit is back: {os.strerror(error.errno or 0)}") from None
