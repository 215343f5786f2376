"""What is held while a directory is swept: the locks, our own folder, and the journal."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from afterrun.stores.directory.engine_locks import engine_lock
from afterrun.stores.directory.journal import Journal
from afterrun.stores.directory.lock import DirectoryLock
from afterrun.stores.directory.names import OURS
from afterrun.stores.directory.site import Site

TRASH_WINDOW: Final = timedelta(hours=24)
"""How long what goes to the trash can be put back, unless somebody says otherwise."""

MAX_IDS: Final = 100
"""Ids of removed units that one pass remembers for its log."""


@dataclass(slots=True)
class Done:
    """What one pass did: units removed by kind, those that came back, ids of what went, index entries."""

    removed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    strays: int = 0

    def went(self, kind: str, ids: Sequence[str]) -> None:
        """Note units that went."""
        self.removed[kind] += len(ids)
        self.ids.extend(ids[: max(0, MAX_IDS - len(self.ids))])


@dataclass(slots=True)
class Sweeping:
    """One sweep's hold on a store. ``notices`` are what it has to say of leftovers."""

    site: Site
    folder: int
    lock: DirectoryLock
    journal: Journal
    notices: list[str] = field(default_factory=list)
    done: Done = field(default_factory=Done)

    def check(self) -> None:
        """Make sure that the store is still ours. Raises `StoreFailure`."""
        self.lock.check()


@contextmanager
def sweeping(site: Site, *, break_token: str | None = None) -> Iterator[Sweeping]:
    """Hold a store. Raises `StoreLocked`, and `Refused` or `StoreFailure` where it cannot be written to."""
    with ExitStack() as held:
        folder = held.enter_context(site.ours())
        lock = held.enter_context(DirectoryLock(folder, url=site.url, break_token=break_token))
        held.enter_context(engine_lock(site.profile.lock, site.root.descriptor, ours=folder))
        journal = Journal(folder)
        held.callback(journal.close)
        journal.clear_new()
        yield Sweeping(site, folder, lock, journal)


def new_tombstone() -> str:
    """Return a name that no entry has: hidden, ours, and never used again."""
    return f"{OURS}-{secrets.token_hex(16)}"


def is_tombstone(name: str) -> bool:
    """Say whether a name is one of those."""
    return name.startswith(f"{OURS}-") and len(os.fsencode(name)) == len(OURS) + 33
