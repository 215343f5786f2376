"""Records elsewhere, one a reference: whose they are, until when, and which cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from afterrun.core.facts import UNREADABLE, Flag, Reason
from afterrun.core.times import SECOND, Instant
from afterrun.profiles.directory import Records
from afterrun.stores.directory.discovery import Discovery
from afterrun.stores.directory.folders import changed, lstat_at, read_at
from afterrun.stores.directory.names import Source, shown
from afterrun.stores.directory.records import MAX_FILE_BYTES, instant_of, parse, value
from afterrun.stores.directory.site import Site

PATIENCE: Final[Instant] = 86_400 * SECOND
"""Age from which a record that nobody can read no longer stops everything."""


class Waits:
    """The records of one reference, read once. One that cannot be read holds more than its own run."""

    def __init__(self, site: Site, reference: Records, *, now: Instant) -> None:
        """Read them all."""
        self._site = site
        self._reference = reference
        self._now = now
        self._held: dict[str, str] = {}
        self._stop = ""
        self.unreadable: dict[str, str] = {}
        scan = Discovery(site, [Source.of(reference.files, folders=False)])
        for proposal in scan.proposals():
            self._read(proposal.path)
        if scan.faults:
            self._stop = f"{scan.faults[0].detail} cannot be read"

    def flags(self, run: str) -> Iterator[Flag]:
        """Yield what holds a run."""
        if run in self._held:
            name = self._held[run]
            detail = f"{shown(name)} waits for it" if name else "a record of its name cannot be read"
            yield Flag(Reason(self._reference.reason, detail), blocks=not name)
        if self._stop:
            yield Flag(Reason("unreadable-reference", self._stop))

    def _read(self, path: tuple[str, ...]) -> None:
        why = "it is no JSON object"
        try:
            record = parse(read_at(self._site.root.descriptor, path, limit=MAX_FILE_BYTES))
        except FileNotFoundError:
            return
        except OSError as error:
            record, why = None, str(error.strerror)
        if record is None:
            self._note_unreadable(path, why)
            return
        run, expires = value(record, self._reference.run), self._reference.expires
        until = None if expires is None else instant_of(value(record, expires.field), expires.format)
        if not isinstance(run, str) or until == UNREADABLE:
            self._note_unreadable(path, "a field is missing or malformed")
        elif until is None or until > self._now:
            self._held[run] = path[-1]

    def _note_unreadable(self, path: tuple[str, ...], why: str) -> None:
        facts = None
        with suppress(OSError):
            facts = lstat_at(self._site.root.descriptor, path)
        self.unreadable["/".join(path)] = why
        if facts is None or self._now - changed(facts) < PATIENCE:
            self._stop = f"{shown(path[-1])} cannot be read and is not a day old: {why}"
        else:
            self._held[path[-1].rpartition(".")[0] or path[-1]] = ""
