"""Which kinds of units the backups of a store can hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from afterrun.stores.sql.backed import Backed, BackedGenerations, BackedTrees
from afterrun.stores.sql.backed_rows import BackedRows
from afterrun.stores.sql.langgraph.backed import BackedCheckpoints
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.store import SqlStore


def kinds_of(store: SqlStore, rows: Collection[str] = ()) -> Mapping[str, Backed]:
    """Return the kinds of units that backups of a store can hold, in the order in which they are put back.

    Trees come first, and their tables are those of generations, too. The row tables named in ``rows`` come
    last, of these the ones whose rows others take along after those. Raises `Refused` for one that does not
    fit; one that the profile does not know is left out.
    """
    units = store.profile.units
    kinds: list[Backed] = [BackedTrees(store)]
    if units.generation is not None:
        kinds.append(BackedGenerations(store, units.generation))
    # Where checkpoints share their values, no row of these goes with a single one of them.
    if units.keep_set is not None and isinstance(store, ThreadStore) and store.saver.blobs is None:
        kinds.append(BackedCheckpoints(store))
    backed = [BackedRows(store, name) for name in units.rows if name in rows]
    taken = {part.table for rows_of in backed for part in rows_of.binding.owned}
    backed.sort(key=lambda rows_of: rows_of.rows.table in taken)
    kinds += backed
    return {kind.kind: kind for kind in kinds}
