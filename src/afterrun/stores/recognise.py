"""Tell whether the file at a path is the one that was swept there: by its inode, and by its newest runs.

A name says little: another database may be moved or copied to it, and what is remembered of the first one,
above all that its sweeps are trusted, would serve for the second.
"""

from __future__ import annotations

from typing import Final

from afterrun.core.facts import key_text, readable
from afterrun.core.store import Marks
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.sql.store import SqlStore

NEWEST: Final = 16
"""Runs that a file is known by. One of them that is still there is enough."""

SPAN: Final = 10_000
"""Row numbers below the last one within which they are looked for, so that no search reads a whole table."""

FEW: Final = 3
"""Known runs below which it says nothing that all of them are gone: an engine may have removed them."""

MOVED: Final = "another file lies at this path than the one that was swept here"
COPY: Final = f"{MOVED}, with runs that were in that one: a copy, or a backup that was put back"
EMPTIED: Final = (
    "of the runs that were the newest at the last sweep none is in this file: another database was copied "
    "over it, or somebody else has removed them"
)


def subject_of(store: SqlStore | DirectoryStore) -> str:
    """Return what of a file is meant: it may hold the runs of several engines."""
    if isinstance(store, DirectoryStore):
        return store.subject
    return f"{store.profile_name}:{store.binding.tree.table}"


def marks_of(store: SqlStore | DirectoryStore) -> Marks:
    """Return what this file will be known by; nothing for a store that a server has under its own name."""
    if isinstance(store, DirectoryStore):
        return store.marks()
    path = store.lock_path
    if path is None:
        return Marks()
    keys = store.last_added(NEWEST, within=SPAN)
    return Marks(str(path.stat().st_ino), tuple(key_text(key) for key in keys if readable(key)))


def other_file(store: SqlStore | DirectoryStore, *, known: Marks, here: Marks) -> str:
    """Say why the file that is ``here`` is not the one that is ``known``; an empty text if it may be."""
    if not (known.file and here.file):
        return ""
    survivors = set(known.runs).intersection(here.runs) or (store.known(known.runs) if known.runs else ())
    if known.file != here.file:
        return COPY if survivors else MOVED
    return EMPTIED if len(known.runs) >= FEW and not survivors else ""
