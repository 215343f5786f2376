"""A directory as a store: one site, and a view of it for each kind of units."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import NamedTuple

from afterrun.core.errors import StoreFailure
from afterrun.core.store import Marks, Schema, Stream
from afterrun.core.times import Instant
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.directory.journal import looking
from afterrun.stores.directory.kind import Work
from afterrun.stores.directory.leftovers import outstanding, settle
from afterrun.stores.directory.maintenance import note_pass
from afterrun.stores.directory.result_units import ResultUnits
from afterrun.stores.directory.run_units import RunUnits
from afterrun.stores.directory.site import Root, Site, failure
from afterrun.stores.directory.strays import clear_strays
from afterrun.stores.directory.sweeping import sweeping
from afterrun.stores.directory.trash import Returned, restore


class Sizes(NamedTuple):
    """Bytes of a store on disk, and of those the part that holds nothing."""

    total: int
    free: int


class NothingElsewhere:
    """What the runs of a directory have in other stores."""

    def unsaved(self) -> tuple[str, ...]:
        """Return nothing that a backup lacks."""
        return ()


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

    @property
    def kind(self) -> str:
        """Return the kind of units that is swept first."""
        return self.runs.kind

    @property
    def hold(self) -> float:
        """Return the seconds for which runs may be out of their place."""
        return self.runs.hold

    @property
    def digest(self) -> str:
        """Return nothing: a directory has no shape that could be compared."""
        return ""

    @property
    def lock_path(self) -> None:
        """Return nothing: the lock lies within."""
        return

    def now(self) -> Instant:
        """Read this machine's clock, and begin a new look at the store."""
        for kind in self.kinds:
            kind.forget()
        return self.runs.now()

    def newest(self, now: Instant) -> Instant | None:
        """Return the newest credible time of any run."""
        return self.runs.newest(now)

    def streams(self) -> tuple[Stream, ...]:
        """Return the order in which runs come."""
        return self.runs.streams()

    def has_rows(self, stream: int) -> bool:
        """Say whether there is any run."""
        return self.runs.has_rows(stream)

    def sizes(self) -> Sizes:
        """Return nothing: measuring a directory means to walk through all of it."""
        return Sizes(total=0, free=0)

    @property
    def subject(self) -> str:
        """Return what of the directory is meant."""
        return f"{self.profile_name}:{self.profile.units.directory.runs[0]}"

    def marks(self) -> Marks:
        """Return what this directory will be known by."""
        return Marks(str(self.site.root.inode))

    def known(self, texts: Collection[str]) -> frozenset[str]:
        """Return those of these ids that a run has."""
        return self.runs.known(texts)

    def before_sweep(self) -> AbstractContextManager[None]:
        """Hold nothing more: the engine's lock is taken with our own."""
        return nullcontext()

    @property
    def reach(self) -> NothingElsewhere:
        """Return what its runs have in other stores."""
        return NothingElsewhere()

    def asynchronous(self) -> AbstractContextManager[Callable[[], None]]:
        """Change nothing: what is renamed is on the disk before it is deleted."""
        return nullcontext(lambda: None)

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
                if held.done.removed[self.runs.kind] and self.work.trash is None:
                    held.done.strays = clear_strays(self.site)
            finally:
                self.work.held = None
                note_pass(held, seconds=time.monotonic() - began)

    def restore(self, run: str | None = None) -> Returned:
        """Put the unit of one run, or all, back from the trash. The sweep lock is held.

        Raises `UnitNotFound`, and `Refused` for a run that cannot come back.
        """
        if self.work.held is None:
            raise StoreFailure("lock-lost", "nothing comes back into a directory that is not held")
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
        for kind in self.kinds:
            kind.forget()
        self.site.root.close()
