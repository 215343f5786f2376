"""The sweep lock of an open store, and what is remembered of it while the lock is held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from afterrun.core.errors import Refused, StoreLocked
from afterrun.state import StateDirectory, StoreState, SweepLock
from afterrun.state.attempts import note_attempt
from afterrun.state.files import StateError
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.recognise import marks_of, other_file, subject_of
from afterrun.stores.sql.store import SqlStore


def sweep_lock(store: SqlStore | DirectoryStore) -> AbstractContextManager[object]:
    """Return what keeps one sweep a store: the database's own lock, or a file beside it."""
    path = store.lock_path
    return store.sweep_lock() or (nullcontext() if path is None else SweepLock(path))


@contextmanager
def locked(store: SqlStore | DirectoryStore, directory: StateDirectory) -> Iterator[StoreState]:
    """Hold the store's sweep lock, and give what is remembered of the store.

    Raises `StoreLocked`, and `Refused` for a schema that may not be written to.
    """
    _refuse_unread_schema(store)
    with sweep_lock(store), store.before_sweep():
        state = directory.load(store.identity)
        _recognise(store, state)
        yield state


@contextmanager
def attempt(store: SqlStore, directory: StateDirectory) -> Iterator[StoreState]:
    """Hold the lock for an automatic sweep, and put on record what keeps it from beginning.

    Raises what `locked` raises.
    """
    with sweep_lock(store), store.before_sweep():
        state = directory.load(store.identity)
        try:
            _refuse_unread_schema(store)
            _recognise(store, state)
            yield state
        except StoreLocked:  # another one came first, and is on record
            raise
        except Exception as error:
            if not state.begun:
                with suppress(StateError):  # it may be what the sweep failed at
                    note_attempt(state, error, at=time.time_ns() // 1_000)
            raise


def _refuse_unread_schema(store: SqlStore | DirectoryStore) -> None:
    problems = store.schema().problems
    if problems:
        raise Refused("schema", "; ".join(problems))


def _recognise(store: SqlStore | DirectoryStore, state: StoreState) -> None:
    """Forget what is remembered of another file that lay in the store's place."""
    subject, here = subject_of(store), marks_of(store)
    why = other_file(store, known=state.marks(subject), here=here)
    if why:
        state.forget(why, now=store.now())
    state.keep_marks(subject, here)
