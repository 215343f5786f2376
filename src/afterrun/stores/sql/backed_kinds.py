"""Which kinds of units the backups of a store can hold."""

from __future__ import annotations

from collections.abc import Mapping

from afterrun.stores.sql.backed import Backed, BackedGenerations, BackedTrees
from afterrun.stores.sql.langgraph.backed import BackedCheckpoints
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.store import SqlStore


def kinds_of(store: SqlStore) -> Mapping[str, Backed]:
    """Return the kinds of units that backups of a store can hold, in the order in which they are put back.

    Trees come first. Their tables are those of all kinds.
    """
    units = store.profile.units
    kinds: list[Backed] = [BackedTrees(store)]
    if units.generation is not None:
        kinds.append(BackedGenerations(store, units.generation))
    # Where checkpoints share their values, no row of these goes with a single one of them.
    if units.keep_set is not None and isinstance(store, ThreadStore) and store.saver.blobs is None:
        kinds.append(BackedCheckpoints(store))
    return {kind.kind: kind for kind in kinds}
