"""What each kind of unit of a store offers a backup: its rows, how its keys find them, and what it needs.

Several kinds have rows in the same tables. A backup holds them side by side, as the store did.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import sqlalchemy as sa

from afterrun.core.errors import Refused
from afterrun.core.facts import Key, Reason, Scalar, Unit, key_text, readable
from afterrun.profiles.generation import Generation
from afterrun.profiles.model import Via
from afterrun.stores.sql.blob_backup import blob_parts
from afterrun.stores.sql.generation_facts import GenerationFacts
from afterrun.stores.sql.generations import GenerationRemoval
from afterrun.stores.sql.generations import spelled as spelled_generation
from afterrun.stores.sql.ids import spelled
from afterrun.stores.sql.parts import Part, generation_parts, parts, plain_table
from afterrun.stores.sql.store import SqlStore

Way: TypeAlias = tuple[str, tuple[str, ...]]
"""A table, and the columns by whose values rows of units are found in it."""


class Leads(NamedTuple):
    """What reads to which rows those of a table lead that stay; there is one a table and column."""

    table: str
    statement: sa.Select[Any]


class Backed(Protocol):
    """One kind of unit of a store, as its backups see it. ``width`` is the number of columns of a key."""

    kind: str
    width: int

    is_back: str
    """What is said of a unit that is not put back since something of it is in the store again."""

    led: Collection[str]
    """Columns by which its rows lead to others, and which removals lead on: no comparison asks for them."""

    def parts(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return its rows in order of removal; ``schema`` names an attached database with such tables."""

    def links(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows by which others of its rows are found, and that stay."""

    def leads(self, *, schema: str | None = None) -> Sequence[Leads]:
        """Return what tells where these lead to."""

    def blobs(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the blobs to which its rows refer, whose own keys are the keys of these parts."""

    @property
    def ways(self) -> Sequence[Way]:
        """Return how its rows are found, for indexes."""

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys as the parameter of the conditions of its parts."""

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each of these units."""

    def spelled(self, text: str) -> Sequence[Key]:
        """Return the keys that an id, as a person types it, may stand for."""

    def obstacle(self, units: Sequence[Unit]) -> Reason | None:
        """Say why the store, as it is within this transaction, cannot take one of these units back."""


def check_kinds(found: Collection[str], known: Collection[str]) -> None:
    """Make sure that a backup holds units of known kinds alone. Raises `Refused`."""
    strange = set(found) - set(known)
    if strange:
        raise Refused(
            "other-profile",
            f"the backup holds units of the kind {min(strange)[:40]}, of which this store's profile tells "
            "nothing: restore it with the profile that it was made with",
        )


class BackedTrees:
    """Run trees, as backups see them."""

    kind = "tree"
    width = 1
    is_back = "the store has a run or rows with an id of this tree again, and they differ"
    led: Collection[str] = ()

    def __init__(self, store: SqlStore) -> None:
        """Take a store."""
        self._store = store
        self._binding = store.binding

    def parts(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows that go with runs."""
        return parts(self._binding, schema=schema)

    def links(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows of links that stay.

        A backup has a copy of them, so that what went is found in it by its run; they are not put back.
        """
        found: dict[str, Part] = {}
        for via in self._staying():
            table = plain_table(self._binding, via.table, schema=schema)
            held = self._binding.holds(table, via.table, via.owner)
            if via.table in found:
                held = sa.or_(found[via.table].where, held)
            found[via.table] = Part(via.table, table, held, table, (table.c[via.owner],))
        return list(found.values())

    def leads(self, *, schema: str | None = None) -> Sequence[Leads]:
        """Return what reads where the links of some runs lead to."""
        found = []
        for via in self._staying():
            table = plain_table(self._binding, via.table, schema=schema)
            held = self._binding.holds(table, via.table, via.owner)
            read = sa.select(table.c[via.key], table.c[via.owner]).select_from(table).where(held)
            found.append(Leads(via.table, read))
        return found

    def blobs(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the blobs to which the rows of runs refer."""
        return blob_parts(self._binding, self._store.blobs, self.parts(schema=schema), schema=schema)

    def _staying(self) -> Sequence[Via]:
        """Return the links that rows go by while their own rows stay, each once."""
        owned = self._binding.owned
        gone = {self._binding.tree.table, *(rows.table for rows in owned)}
        vias = [rows.via for rows in owned if rows.via is not None and rows.via.table not in gone]
        return list({(via.table, via.key, via.owner): via for via in vias}.values())

    @property
    def ways(self) -> Sequence[Way]:
        """Return the columns that hold the key of a run, or of a link."""
        owned, tree = self._binding.owned, self._binding.tree
        found = [(rows.table, (rows.column,)) for rows in owned]
        found += [(rows.via.table, (rows.via.owner,)) for rows in owned if rows.via]
        return [*found, (tree.table, (tree.key,))]

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys of runs as a parameter."""
        return self._binding.bind_keys(keys)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each tree."""
        return self._store.weigh(units)

    def spelled(self, text: str) -> Sequence[Key]:
        """Return the keys of runs that an id may stand for."""
        return spelled(text)

    def obstacle(self, units: Sequence[Unit]) -> Reason | None:  # noqa: ARG002 - a tree needs no other
        """Return nothing: a tree brings all that it needs."""
        return None


GONE: Final = Reason("run-is-gone", "its run is not in the store: restore the tree of that run first")
NOT_SUPERSEDED: Final = Reason(
    "not-superseded",
    "its run has begun anew in the store and has not come as far as this generation, or is in it",
)


class BackedGenerations:
    """Superseded generations, as backups see them."""

    kind = "generation"
    width = 2
    is_back = "the store has this generation, or rows of it, again, and they differ"
    led: Collection[str] = ()

    def __init__(self, store: SqlStore, generation: Generation) -> None:
        """Compile what asks for the runs of generations."""
        self._store = store
        self._generation = generation
        facts = GenerationFacts(store.facts, generation, keep_last=1)
        self._removal = GenerationRemoval(facts, returned={})
        self._current = (
            sa.select(store.facts.key, facts.runs.c[generation.current])
            .select_from(facts.runs)
            .where(store.dialect.keys_in(store.facts.key))
        )

    def parts(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the rows that go with generations."""
        return generation_parts(self._store.binding, self._generation, schema=schema)

    def links(self, *, schema: str | None = None) -> Sequence[Part]:  # noqa: ARG002 - there are none
        """Return nothing: all rows of a generation hold its key themselves."""
        return ()

    def leads(self, *, schema: str | None = None) -> Sequence[Leads]:  # noqa: ARG002 - there are none
        """Return nothing."""
        return ()

    def blobs(self, *, schema: str | None = None) -> Sequence[Part]:
        """Return the blobs to which the rows of generations refer."""
        found = self.parts(schema=schema)
        return blob_parts(self._store.binding, self._store.blobs, found, schema=schema)

    @property
    def ways(self) -> Sequence[Way]:
        """Return the columns that hold the key of a generation."""
        return [(part.name, tuple(column.name for column in part.key)) for part in self.parts()]

    def bind(self, keys: Sequence[Key]) -> object:
        """Return keys of generations as a parameter."""
        return self._store.dialect.bind_rows(keys)

    def weigh(self, units: Sequence[Unit]) -> Sequence[int]:
        """Return the rows of each generation."""
        return self._removal.weigh(units)

    def spelled(self, text: str) -> Sequence[Key]:
        """Return the keys of generations that an id may stand for."""
        return spelled_generation(text)

    def obstacle(self, units: Sequence[Unit]) -> Reason | None:
        """Say if the run of one is gone, or is not beyond it.

        A run whose id was used again may be at a lower number, and would come upon what is put back.
        """
        keys = [unit.key for unit in units if isinstance(unit.key, tuple)]
        bound = self._store.binding.bind_keys([run for run, _ in keys])
        rows = self._store.dialect.execute(self._current, {"keys": bound})
        current = {key_text(run): number for run, number in rows}
        for run, number in keys:
            if key_text(run) not in current:
                return GONE
            reached = current[key_text(run)]
            if not (isinstance(reached, int) and isinstance(number, int) and number < reached):
                return NOT_SUPERSEDED
        return None


def stored(key: Key) -> Scalar:
    """Return a key as one value."""
    return json.dumps(key, ensure_ascii=False) if isinstance(key, tuple) else key


def loaded(value: Scalar, *, width: int) -> Key:
    """Return the key that `stored` made such a value of; nothing that `fits` for any other value."""
    if width == 1:
        return value
    try:
        found = json.loads(str(value))
    except ValueError:
        return None
    return tuple(found) if isinstance(found, list) else None


def fits(key: Key, *, width: int) -> bool:
    """Say whether a value can be a key of so many columns, of which each is a number or plain text."""
    columns = key if isinstance(key, tuple) else (key,)
    return len(columns) == width and (width > 1) == isinstance(key, tuple) and all(map(readable, columns))
