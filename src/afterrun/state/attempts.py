"""Records of sweeps that could not open their store, or not even ask for its lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from afterrun.core.errors import Refused
from afterrun.core.times import Instant
from afterrun.state.files import Record, StateDirectory, StoreState
from afterrun.state.lock import SweepLock
from afterrun.stores.place import FILE, place_of


class Attempts:
    """What is remembered of a store by its location alone.

    A SQLite file has one memory, whether it can be opened or not. What a server's database is called inside
    is known only once it answers, so that its failed attempts are kept apart.
    """

    def __init__(self, location: str, *, state: Path | None = None) -> None:
        """Name the store. Raises `UsageError` for what can be no location."""
        self._place = place_of(location)
        self._directory = StateDirectory(state)

    def records(self, *, identity: str | None = None) -> Sequence[Record]:
        """Return the records kept under this location, the newest last. Raises `StateError`.

        ``identity`` is what names the store once it is open: the records kept under that are among them.
        """
        records = self._directory.load(self._place).records
        if identity is None or identity == self._place:
            return records
        return sorted([*records, *self._directory.load(identity).records], key=lambda record: record.at)

    def note(self, error: Exception, *, at: Instant) -> None:
        """Put on record that a sweep failed or was refused at ``at``, as one record with others like it.

        Raises `StateError`, and `StoreLocked` while another sweep of the store writes its own record.
        """
        with self._locked():
            note_attempt(self._directory.load(self._place), error, at=at)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the sweep lock of a file that is there: who writes a store's state has it."""
        path = Path(self._place.removeprefix(FILE)) if self._place.startswith(FILE) else None
        with contextlib.ExitStack() as stack:
            if path is not None and path.is_file():
                with contextlib.suppress(Refused):  # without the right to make it, no sweep runs either
                    stack.enter_context(SweepLock(path))
            yield


def note_attempt(state: StoreState, error: Exception, *, at: Instant) -> None:
    """Put on record, and save, that an automatic sweep ended without a report. Raises `StateError`."""
    record = Record(
        at=at,
        command="sweep",
        ended="refused" if isinstance(error, Refused) else "failed",
        fingerprint="",
        why=failure_word(error),
    )
    state.repeat(record)
    state.save()


def failure_word(error: BaseException) -> str:
    """Return the stable word of a failure or a refusal: it tells nothing of the store."""
    word = getattr(error, "reason", None) or getattr(error, "kind", None)
    return word if isinstance(word, str) else type(error).__name__
