"""Make the store that a profile asks for: by its description alone, or with code that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from afterrun.core.policy import Policy
from afterrun.profiles import Profile
from afterrun.profiles.registry import KeepSet, Records
from afterrun.stores.sql.beside import Leaving
from afterrun.stores.sql.dialect import Dialect
from afterrun.stores.sql.elsewhere import Reach
from afterrun.stores.sql.generations import SqlGenerations
from afterrun.stores.sql.langgraph.checkpoints import CheckpointStore
from afterrun.stores.sql.langgraph.store import ThreadStore
from afterrun.stores.sql.store import SqlStore

STORES: Final[Mapping[Records | None, type[SqlStore]]] = {None: SqlStore, "langgraph-threads": ThreadStore}

Generations = SqlGenerations | CheckpointStore
KEEP_SETS: Final[Mapping[KeepSet, Callable[..., Generations]]] = {"langgraph-checkpoints": CheckpointStore}


def sql_store(
    dialect: Dialect, profile: Profile, *, schema_unverified: bool = False, reach: Reach | None = None
) -> SqlStore:
    """Return the store of a profile in an open database. Raises `ProfileError` if it does not fit."""
    kind = STORES[profile.units.tree.records]
    return kind(dialect, profile, schema_unverified=schema_unverified, reach=reach)


def generations_of(store: SqlStore, rules: Policy, *, leaving: Leaving | None) -> Generations | None:
    """Return the generations of a store, if its profile knows any; ``leaving`` tells which runs go whole.

    What ``rules`` ask of a run as a whole is part of what is read: how many are newer, and whether the ends
    of its branches are superseded.
    """
    units = store.profile.units
    if units.keep_set is not None:
        return KEEP_SETS[units.keep_set](store, leaving=leaving, keep_forks=rules.keep_forks)
    if units.generation is not None:
        return SqlGenerations(store, units.generation, keep_last=rules.keep_last, leaving=leaving)
    return None
