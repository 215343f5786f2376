"""A directory as a store: one site, and a view of it for each kind of units."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from afterrun.core.errors import StoreFailure
from afterrun.core.store import Schema
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.directory.journal import looking
from afterrun.stores.directory.kind import Work
from afterrun.stores.directory.leftovers import outstanding, settle
from afterrun.stores.directory.maintenance import note_pass
from afterrun.stores.directory.result_units import ResultUnits
from afterrun.stores.directory.run_units import RunUnits
from afterrun.stores.directory.site import Root, Site, failure
from afterrun.stores.directory.sweeping import sweeping
from afterrun.stores.directory.trash import Returned, restore


class DirectoryStore:
    """An engine's directory. ``kinds`` are its kinds of units, in the order in which they are swept.

    ``trash``: what goes is kept for this long, and can be put back. ``break_token`` names the lock of a
    machine that is gone for good.
    """

    def __init__(
        self,
        root: Root,
        profile: DirectoryProfile,
        *,
        trash: timedelta | None = None,
        break_token: str | None = None,
    ) -> None:
        """Tie a profile to an open directory."""
        self.profile = profile
        self.site = Site(root, profile)
        self.work = Work(trash)
        self._break_token = break_token
        self.runs = RunUnits(self.site, self.work)
        results = profile.units.result
        self.results = None if results is None else ResultUnits(self.site, self.work, results)

    @property
    def kinds(self) -> tuple[RunUnits | ResultUnits, ...]:
        """Return the kinds of units: a result goes only when its run has gone, so runs come first."""
        return (self.runs,) if self.results is None else (self.runs, self.results)

    @property
    def url(self) -> str:
        """Return the real path."""
        return self.site.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return self.runs.identity

    @property
    def profile_name(self) -> str:
        """Return the profile's name."""
        return self.profile.name

    def schema(self) -> Schema:
        """Return the layout, and what forbids removal."""
        return self.runs.schema()

    def heed(self, halt: Callable[[], bool]) -> None:
        """Stop whatever runs as soon as this says yes, until another one is given."""
        self.site.halt = halt

    @contextmanager
    def sweep_lock(self) -> Iterator[None]:
        """Hold the store, and settle what earlier sweeps left. Raises `StoreLocked`, `Refused`."""
        began = time.monotonic()
        with sweeping(self.site, break_token=self._break_token) as held:
            self.work.held = held
            try:
                held.notices.extend(settle(held).faults)
                yield
            finally:
                self.work.held = None
                note_pass(held, seconds=time.monotonic() - began)

    def restore(self, run: str | None = None) -> Returned:
        """Put the unit of one run, or all, back from the trash.

        Raises `StoreLocked`, `UnitNotFound`, and `Refused` for a run that cannot come back.
        """
        with self.sweep_lock():
            if self.work.held is None:
                raise StoreFailure("lock-lost", "the store is not held")
            return restore(self.work.held, run)

    def problems(self) -> Iterator[str]:
        """Yield a line for each leftover of interrupted work and each folder that cannot be read."""
        try:
            with looking(self.site.root.descriptor) as journal:
                if journal is not None:
                    yield from outstanding(journal.batches(), root=self.site.root.descriptor)
        except OSError as error:
            raise failure(error, f"the journal of {self.url}") from None
        for kind in self.kinds:
            kind.forget()
            yield from (f"{fault.name}: {fault.detail}" for fault in kind.faults)

    def close(self) -> None:
        """Let go of the directory."""
        self.site.root.close()
