"""Records of restores among those of sweeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from afterrun.core.errors import Refused, StoreFailure, UnitFailure
from afterrun.state.attempts import failure_word
from afterrun.state.files import RESTORE, STARTED, Record, StateError, StoreState
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.sql.backups import Restorer
from afterrun.stores.sql.store import SqlStore

UNCOUNTED: Final = ("guard", STARTED)
"""Endings of sweeps that say nothing of a backlog."""


def last_sweep(state: StoreState) -> Record | None:
    """Return the last sweep or manual apply that says how much it left of the file that is there now."""
    for record in reversed(state.records):
        if record.at < (state.since or 0):
            return None
        if record.command != RESTORE and record.ended not in UNCOUNTED:
            return record
    return None


@contextmanager
def restore_on_record(
    state: StoreState, restorer: Restorer, *, store: SqlStore | DirectoryStore
) -> Iterator[None]:
    """Keep a restore on record from before its first tree: as ``started``, then as what it came to.

    One that is cut off is on record with what had come back. Raises `StateError` before anything does.
    """
    began = time.monotonic()
    started = Record(at=store.now(), command=RESTORE, ended=STARTED, fingerprint="")
    started = started.model_copy(update={"file_before": store.sizes().total})
    state.begin(RESTORE, now=started.at, fingerprint="")
    try:
        yield
    except BaseException as error:
        with suppress(StateError):  # what ended the restore may be what keeps this from being written
            _finish(state, _ended(started, restorer, error), store=store, began=began)
        raise
    _finish(state, _ended(started, restorer, None), store=store, began=began)


def _ended(started: Record, restorer: Restorer, error: BaseException | None) -> Record:
    found = restorer.so_far
    update: dict[str, object] = {"ended": "completed"}
    if isinstance(error, KeyboardInterrupt):
        update["ended"] = "interrupted"
    elif error is not None:
        update |= {"ended": "refused" if isinstance(error, Refused) else "failed", "why": failure_word(error)}
    if found is not None:
        update |= {"restored": found.units, "rows": found.rows.total(), "deferred": found.refused.total()}
    return started.model_copy(update=update)


def _finish(state: StoreState, record: Record, *, store: SqlStore | DirectoryStore, began: float) -> None:
    update: dict[str, object] = {"seconds": round(time.monotonic() - began, 3)}
    with suppress(StoreFailure, UnitFailure):  # what ended the restore may still be in the way
        update["file_after"] = store.sizes().total
    state.finish(record.model_copy(update=update), finished=False, runs=None)
    state.save()
