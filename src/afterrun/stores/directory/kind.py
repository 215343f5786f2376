"""What every kind of units of a directory shares: the site, the sweep that is under way, and the clock."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from afterrun.core.errors import StoreFailure
from afterrun.core.facts import Key, Newest, Scalar, Status, Unit
from afterrun.core.judge import rank
from afterrun.core.store import Schema
from afterrun.core.times import Instant, Micros
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.directory.contents import combined, sign
from afterrun.stores.directory.entries import tree_model
from afterrun.stores.directory.references import References
from afterrun.stores.directory.removal import DirectoryTransaction, Places, Target
from afterrun.stores.directory.site import Site
from afterrun.stores.directory.sweeping import Sweeping

HOLD: Final = 0.05
"""Seconds for which runs of one batch may be out of their place while they are read again."""

BY_AGE: Final = (
    "nothing in a folder says whether its run has ended, so only age does: what goes may be results that "
    "somebody wants, not history"
)
NO_STATUS: Final = (
    "the profile names no status file, so nothing says whether a run has ended: plan works, removal needs "
    'ended = "by-age" in the profile'
)


SAMPLE: Final = 400
"""Units that are measured to estimate what all of them take."""


def newest_of(found: Iterable[Newest], *, slot: Micros) -> Iterable[Newest]:
    """Return the newest of these units in each group and slot of time."""
    newest: dict[tuple[object, int], Newest] = {}
    for unit in found:
        place = (unit.group, unit.end // slot)
        known = newest.get(place)
        if known is None or rank(unit.end, unit.key) > rank(known.end, known.key):
            newest[place] = unit
    return newest.values()


def problems_of(profile: DirectoryProfile) -> tuple[str, ...]:
    """Say why nothing may be removed by a profile; nothing if something may."""
    units = profile.units.directory
    return () if units.status is not None or units.ended == "by-age" else (NO_STATUS,)


@dataclass(slots=True)
class Work:
    """What a store is doing: the sweep that holds it, if one does, and how long its trash is kept.

    ``signing``: what is about to go is compared with a backup.
    """

    trash: timedelta | None = None
    held: Sweeping | None = None
    signing: bool = False


class DirectoryKind(ABC):
    """One kind of units, behind the store protocol. Its subclasses say what the units are."""

    kind: str

    def __init__(self, site: Site, work: Work) -> None:
        """Take a site; nothing is read yet."""
        self.site = site
        self.work = work
        self.signed: dict[Key, bytes] = {}

    @property
    def url(self) -> str:
        """Return the real path."""
        return self.site.url

    @property
    def identity(self) -> str:
        """Return what names this very store."""
        return f"directory:{self.site.url}"

    @property
    def profile_name(self) -> str:
        """Return the profile's name."""
        return self.site.profile.name

    @property
    def statuses(self) -> Mapping[Scalar, Status]:
        """Return what the engine's words mean. Results have no state: the words are those of their runs."""
        states = tree_model(self.site.profile.units.directory).statuses
        return {state: meaning for state, meaning in states.items() if not str(state).startswith("\0")}

    @property
    def knows_keys(self) -> bool:
        """Say no: folders hold no idempotency keys."""
        return False

    @property
    def hold(self) -> float:
        """Return the seconds for which runs may be out of their place."""
        return HOLD

    @property
    def aside(self) -> None:
        """Return nothing: a directory remembers nothing of what it holds."""
        return

    @property
    def blobs(self) -> None:
        """Return nothing: what several runs share lies in no run's folder."""
        return

    def schema(self) -> Schema:
        """Return the layout, and what forbids removal."""
        profile = self.site.profile
        return Schema(
            profile.layout or "custom", read=True, problems=problems_of(profile), notices=self._notices()
        )

    def _notices(self) -> tuple[str, ...]:
        return tuple(self._say())

    def _say(self) -> Iterator[str]:
        profile = self.site.profile
        yield from profile.notes
        if profile.own_retention:
            yield f"retention of {profile.engine} itself: {profile.own_retention}"
        if profile.units.directory.ended == "by-age":
            yield BY_AGE
        with closing(References(self.site)) as references:
            yield from references.notices()
        if self.work.held is not None:
            yield from self.work.held.notices

    def now(self) -> Instant:
        """Read this machine's clock, and begin a new look at the store: what was scanned is forgotten."""
        self.forget()
        return time.time_ns() // 1_000

    @abstractmethod
    def forget(self) -> None:
        """Forget what was scanned."""

    @abstractmethod
    def targets(self, unit: Unit) -> Sequence[Target]:
        """Return the members of a unit and where they are."""

    @abstractmethod
    def again(self, units: Sequence[Unit], places: Places) -> Sequence[Unit]:
        """Read units again, at the places where their members are now."""

    @abstractmethod
    def taken(self, unit: Unit) -> Mapping[str, int]:
        """Return what a unit took when it was read again."""

    def sign(self, units: Sequence[Unit], places: Places) -> None:
        """Keep in ``signed`` what these units are, where they are now, if a backup will be asked about it."""
        self.signed = {unit.key: self._sign(unit, places) for unit in units} if self.work.signing else {}

    def _sign(self, unit: Unit, places: Places) -> bytes:
        root = self.site.root.descriptor
        try:
            return combined({part.path: sign(root, places[part.key]) for part in self.targets(unit)})
        except OSError:  # it is as no backup has it
            return b""

    def forgets(self, units: Sequence[Unit]) -> int:  # noqa: ARG002 - a folder holds no idempotency key
        """Return none: folders hold no idempotency keys."""
        return 0

    def transaction(self, *, seconds: float) -> DirectoryTransaction:  # noqa: ARG002 - no lock waits for it
        """Start a batch. Raises `StoreFailure` unless the store is held."""
        if self.work.held is None:
            raise StoreFailure(
                "lock-lost", "nothing is removed from a directory that this sweep does not hold"
            )
        return DirectoryTransaction(self.work.held, self, trash=self.work.trash)

    def statements(self) -> Mapping[str, str]:
        """Return none: folders are read by no statements."""
        return {}

    def remarks(self) -> Sequence[str]:
        """Say nothing more: what people should know of a directory stands in its notices."""
        return ()

    def settle(self) -> None:  # noqa: B027 - no kind needs it
        """Do nothing: a batch leaves nothing for afterwards."""
