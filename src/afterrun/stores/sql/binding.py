"""Tie a profile to the tables of a real database, and say what it does not know of them.

Everything that a statement names comes out of here, and exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from afterrun.core.errors import ProfileError, did_you_mean
from afterrun.core.facts import Key, Scalar, Status
from afterrun.core.tree import TreeModel
from afterrun.profiles import Profile
from afterrun.profiles.detect import needed_tables, unmentioned_references, version_table
from afterrun.profiles.generation import GenerationRows
from afterrun.profiles.model import EndSource, Owned, Protection, Tree, Unlinked, Via
from afterrun.stores.sql.dialect import Column, Dialect

MAX_DIGITS: Final = 19
"""Characters from which a number may be too large for any database's integers."""

RUN: Final = "u"
"""Alias of the run table in every statement."""


@dataclass(frozen=True, slots=True)
class UnknownReference:
    """Rows of a table the profile does not know that point at rows that would go.

    ``columns`` of ``table`` equal ``targets`` of ``owner``: the run table, or a table owned by it.
    """

    table: str
    columns: tuple[str, ...]
    owner: str
    targets: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Return the name of the reason that blocks a unit."""
        return f"unknown-reference:{self.table}"


@dataclass(frozen=True, slots=True)
class InnerLink:
    """A foreign key between rows that go with runs: ``columns`` of ``table`` hold ``targets``."""

    table: str
    columns: tuple[str, ...]
    referred: str
    targets: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Return the name of the reason that blocks a unit to which another run's row refers."""
        return f"linked-row:{self.table}"


class Binding:
    """A profile's tree and the tables it names, for one open database. Raises `ProfileError` on a misfit."""

    def __init__(self, dialect: Dialect, profile: Profile) -> None:
        """Check every name against the reflected schema; all misfits are reported at once."""
        self.dialect = dialect
        self.profile = profile
        self.tree: Tree = profile.units.tree
        self._shapes = dialect.shapes
        self.version_table = version_table(profile, dialect.shapes)
        self._tables: dict[tuple[str, str | None, str | None], sa.FromClause] = {}
        problems = list(self._misfits())
        if problems:
            raise ProfileError(f"the profile {profile.name} does not fit this store", problems=problems)
        self.owned: tuple[Owned, ...] = tuple(
            owned for owned in self.tree.owned if owned.table in self._shapes
        )
        self.protect: tuple[Protection, ...] = tuple(
            protection
            for protection in self.tree.protect
            if protection.table is None or protection.table in self._shapes
        )
        self._spelled_differently = self._other_kinds()
        self.model = TreeModel(_statuses(self.tree), self.tree.max_depth, self.tree.missing)

    def table(self, name: str, alias: str | None = None, *, schema: str | None = None) -> sa.FromClause:
        """Return a table with its real columns.

        ``schema`` names another, attached database that has a table of the same name and columns.
        """
        if (name, alias, schema) not in self._tables:
            table = self.dialect.named(name, schema=schema)
            self._tables[name, alias, schema] = table.alias(alias) if alias else table
        return self._tables[name, alias, schema]

    def runs(self) -> sa.FromClause:
        """Return the run table under its alias."""
        return self.table(self.tree.table, RUN)

    def with_lookups(self, runs: sa.FromClause) -> sa.FromClause:
        """Join the rows that belong to a run one to one."""
        joined = runs
        for alias, lookup in self.tree.lookup.items():
            other = self.table(lookup.table, _lookup_alias(alias))
            on = [other.c[theirs] == runs.c[ours] for theirs, ours in lookup.on.items()]
            joined = joined.outerjoin(other, sa.and_(*on))
        return joined

    def address(self, runs: sa.FromClause, column: str) -> Column:
        """Return the column that the profile calls ``column`` or ``alias.column``."""
        alias, dot, name = column.partition(".")
        if dot and alias in self.tree.lookup:
            return self.table(self.tree.lookup[alias].table, _lookup_alias(alias)).c[name]
        return runs.c[column]

    def bind_keys(self, keys: Sequence[Key]) -> object:
        """Return keys as the parameter of `holds`.

        A number comes as text, too, and text that is a number as one: a column of another type than the
        run's own key spells it so, and to the database both are equal. Not where the key column itself has
        no type, so that 5 and '5' can be two runs.
        """
        if not self._spelled_differently:
            return self.dialect.bind_keys(keys)
        return self.dialect.bind_keys([*keys, *(other for key in keys for other in _other_spelling(key))])

    def holds(self, table: sa.FromClause, name: str, column: str) -> Column:
        """Return the condition that a column of the table ``name`` is one of the keys of runs.

        Where the column compares more loosely than the runs' own key, it must be equal exactly.
        """
        among = self.dialect.keys_in(table.c[column])
        if not self.is_loose(name, column, like=(self.tree.table, self.tree.key)):
            return among
        return sa.and_(among, self.dialect.keys_in(self.dialect.order_key(table.c[column])))

    def is_loose(self, table: str, column: str, *, like: tuple[str, str]) -> bool:
        """Say whether a column compares more loosely than the column ``like`` that it refers to."""
        referred, key = like
        return column in self._shapes[table].loose and key not in self._shapes[referred].loose

    def equals(self, table: sa.FromClause, name: str, column: str, key: Column) -> Column:
        """Return the condition that a column of the table ``name`` is exactly the key of a run."""
        same: Column = table.c[column] == key
        if not self.is_loose(name, column, like=(self.tree.table, self.tree.key)):
            return same
        return sa.and_(same, self.dialect.order_key(table.c[column]) == key)

    def runs_cascade(self) -> bool:
        """Say whether removing a run makes the database remove others by itself."""
        keys = self._shapes[self.tree.table].foreign_keys
        return any(referred == self.tree.table and action == "CASCADE" for _, referred, _, action in keys)

    def index(self, table: str, column: str) -> str | None:
        """Return the name of an index that starts with a column."""
        fitting = [index for index in self.dialect.indexes(table) if index.columns[:1] == (column,)]
        fitting.sort(key=lambda index: (len(index.columns), index.name))
        return fitting[0].name if fitting else None

    def unknown_references(self) -> Iterator[UnknownReference]:
        """Yield foreign keys and key columns that point at rows of a unit and that the profile lacks."""
        known = self._known_links()
        targets = {self.tree.table, *(owned.table for owned in self.owned)}
        seen: set[tuple[str, str]] = set()
        for name, shape in sorted(self._shapes.items()):
            for columns, referred, referred_columns, _ in shape.foreign_keys:
                if referred in targets and (name, columns) not in known:
                    seen.update((name, column) for column in columns)
                    yield UnknownReference(name, columns, referred, referred_columns)
        keys = {column.casefold() for column in self.profile.detect.key_columns}
        for name in sorted(unmentioned_references(self.profile, self._shapes)):
            for column in self._shapes[name].columns:
                if column.casefold() in keys and (name, column) not in seen:
                    yield UnknownReference(name, (column,), self.tree.table, (self.tree.key,))

    def _known_links(self) -> set[tuple[str, tuple[str, ...]]]:
        links: set[tuple[str, tuple[str, ...]]] = {(owned.table, (owned.column,)) for owned in self.owned}
        links.update((self.tree.table, (edge.column,)) for edge in self.tree.edges if edge.via is None)
        # through a link table only the first: where another one counts, it leads to a run beside its tree
        links.update((self.tree.table, (edge.column,)) for edge in self.tree.edges[:1])
        links.update((link.table, (link.column,)) for link in self.tree.links)
        links.update((owned.via.table, (owned.via.owner,)) for owned in self.owned if owned.via)
        links.update((part.table, (part.column,)) for part in self.tree.unlinked)
        links.update(
            (str(protection.table), (str(protection.column),))
            for protection in self.protect
            if protection.column and not protection.where and not protection.by_live  # every row protects
        )
        links.update(self._links_within_runs())
        return links

    def emptied(self) -> Iterator[tuple[str, str]]:
        """Yield the tables of rows that stay and lose their link to a run, each with that column."""
        yield from ((part.table, part.column) for part in self.tree.unlinked if part.table in self._shapes)

    def inner_links(self) -> Iterator[InnerLink]:
        """Yield the foreign keys that the profile says lead from rows of a run to others of the same one."""
        targets = {self.tree.table, *(owned.table for owned in self.owned)}
        for link in self.tree.links:
            shape = self._shapes.get(link.table)
            for columns, referred, referred_columns, _ in shape.foreign_keys if shape else ():
                if columns == (link.column,) and referred in targets:
                    yield InnerLink(link.table, columns, referred, referred_columns)

    def held_rows(self, name: str, alias: str) -> tuple[sa.FromClause, sa.FromClause, Column]:
        """Return a table whose rows go with runs, its join with what leads to them, and their run's key."""
        table = self.table(name, alias)
        if name == self.tree.table:
            return table, table, table.c[self.tree.key]
        owned = next(owned for owned in self.owned if owned.table == name)
        if owned.via is None:
            return table, table, table.c[owned.column]
        link = self.table(owned.via.table, f"{alias}l")
        joined = table.join(link, link.c[owned.via.key] == table.c[owned.column])
        return table, joined, link.c[owned.via.owner]

    def _links_within_runs(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield foreign keys over several columns that lead from a run's rows to others of the same run.

        One of their columns holds the key of the run on both sides, so both rows go with the same run.
        """
        owners = {owned.table: owned.column for owned in self.owned if owned.via is None}
        for table, column in owners.items():
            for columns, referred, targets, _ in self._shapes[table].foreign_keys:
                pairs = zip(columns, targets, strict=False)
                if referred in owners and (column, owners[referred]) in pairs:
                    yield table, columns

    def unknown_triggers(self) -> Iterator[str]:
        """Yield triggers on tables we delete from that the profile does not list."""
        for table in (self.tree.table, *(owned.table for owned in self.owned), *self.blob_tables()):
            for trigger in self._shapes[table].triggers:
                if trigger not in self.profile.detect.triggers:
                    yield (
                        f"the table {table} has a trigger {trigger!r} that the profile does not know: if it "
                        "may run when rows go, list it under detect.triggers in a copy of the profile, and "
                        "give that with --profile FILE"
                    )

    def blob_tables(self) -> Sequence[str]:
        """Return the tables of blobs, and those of their pins, which go with them."""
        pins = [part.pins.table for part in self.profile.blobs if part.pins]
        return list(dict.fromkeys([*pins, *(part.table for part in self.profile.blobs)]))

    def _other_kinds(self) -> bool:
        """Say whether a column that may hold the key of a run is of another kind than the key."""
        key = self._shapes[self.tree.table].kinds.get(self.tree.key)
        links = self._links() | {
            (reference.table, column)
            for reference in self.unknown_references()
            for column in reference.columns
        }
        return key != "any" and any(self._shapes[table].kinds.get(column) != key for table, column in links)

    def uneven_keys(self) -> Iterator[str]:
        """Yield why the key of a run might not find exactly the rows that belong to it.

        A key that ignores letter case reaches rows that a stricter column of another table keeps apart, and a
        column that turns text into numbers takes two keys for one.
        """
        key = self._shapes[self.tree.table]
        for table, column in sorted({(self.tree.table, self.tree.key), *self._links()}):
            shape = self._shapes[table]
            if shape.kinds.get(column) == "own":
                yield (
                    f"{table} ({column}) is of an extension's type, which takes keys for equal by rules of "
                    "its own: nothing can be removed by such keys"
                )
            if self.tree.key in key.loose and column not in shape.loose:
                yield (
                    f"{self.tree.table} ({self.tree.key}) takes keys for equal that {table} ({column}) keeps "
                    "apart, by their collations"
                )
            removes = any(owned.table == table and owned.column == column for owned in self.owned)
            if removes and key.kinds.get(self.tree.key) == "text" and shape.kinds.get(column) == "number":
                yield f"{table} ({column}) turns the keys of {self.tree.table}, which are text, into numbers"

    def _links(self) -> set[tuple[str, str]]:
        """Return every column that holds the key of a run."""
        tree = self.tree
        links = {(owned.table, owned.column) for owned in self.owned if owned.via is None}
        links.update((owned.via.table, owned.via.owner) for owned in self.owned if owned.via)
        links.update((tree.table, edge.column) for edge in tree.edges if edge.via is None)
        links.update((edge.via.table, edge.via.owner) for edge in tree.edges if edge.via)
        for protection in self.protect:
            if protection.table:
                columns = [protection.column, protection.by_live]
                links.update((protection.table, column) for column in columns if column)
        return links

    def unindexed_references(self) -> Iterator[str]:
        """Yield foreign keys into tables we delete from that make the database scan at each deletion."""
        targets = {self.tree.table, *(owned.table for owned in self.owned)}
        for name, shape in sorted(self._shapes.items()):
            for columns, referred, _, _ in shape.foreign_keys:
                if referred in targets and not self.has_index(name, columns):
                    yield (
                        f"the foreign key of {name} ({', '.join(columns)}) has no index, so every row "
                        f"removed from {referred} reads all of {name}: its owner should index these columns"
                    )
        for owned in self.owned:
            if not self.has_index(owned.table, (owned.column,)):
                yield (
                    f"no index serves {owned.table} ({owned.column}), so every batch reads all of "
                    f"{owned.table}: its owner should index this column"
                )

    def has_index(self, table: str, columns: tuple[str, ...]) -> bool:
        """Say whether an index starts with these columns, in whatever order."""
        width = len(columns)
        shape = self._shapes[table]
        starts = [index.columns[:width] for index in self.dialect.indexes(table)]
        starts.append(shape.primary_key[:width])
        return any(set(start) == set(columns) for start in starts)

    def _misfits(self) -> Iterator[str]:
        optional = self._optional()
        for table, columns in sorted(self._required().items()):
            shape = self._shapes.get(table)
            if shape is None:
                if table not in optional:
                    yield f"there is no table {table}{did_you_mean(table, self._shapes)}"
                continue
            for column in sorted(columns):
                if column not in shape.columns:
                    yield f"the table {table} has no column {column}{did_you_mean(column, shape.columns)}"
        yield from self._ambiguous_keys()
        yield from self._slow_times()

    def _times(self) -> Sequence[EndSource]:
        return (*self.tree.end, *self.tree.seen)

    def _slow_times(self) -> Iterator[str]:
        """Yield tables in which no index finds the rows that tell a run's time: each run would read all."""
        wanted = {(source.rows.table, tuple(source.rows.on)) for source in self._times() if source.rows}
        for table, columns in sorted(wanted):
            shape = self._shapes.get(table)
            if shape is None or not set(columns) <= set(shape.columns):
                continue
            firsts = {index.columns[:1] for index in self.dialect.indexes(table)} | {shape.primary_key[:1]}
            if not any((column,) in firsts for column in columns):
                yield (
                    f"no index serves {table} ({', '.join(columns)}), so the time of each run would take a "
                    f"look at all of {table}: its owner should index this column"
                )

    def _optional(self) -> set[str]:
        """Return the tables that need not exist: they are optional wherever the profile names them."""
        generation = self.profile.units.generation
        tree = self.tree
        parts: list[Owned | Protection | Unlinked | GenerationRows] = [*tree.owned, *tree.protect]
        parts += tree.unlinked
        parts += [] if generation is None else generation.rows
        firm = {*self.profile.detect.tables, *(part.table for part in parts if not part.optional)}
        return {part.table for part in parts if part.optional and part.table is not None} - firm

    def _ambiguous_keys(self) -> Iterator[str]:
        """Yield keys that may stand for several rows: removing one run must never take another."""
        edges = [edge.via for edge in self.tree.edges if edge.via]
        links = [*edges, *(owned.via for owned in self.tree.owned if owned.via)]
        named: set[tuple[str, tuple[str, ...]]] = set()
        if self.tree.records is None:  # else a run is all rows with its key
            named.add((self.tree.table, (self.tree.key,)))
        named.update((link.table, (link.key,)) for link in links)
        named.update((lookup.table, tuple(lookup.on)) for lookup in self.tree.lookup.values())
        generation = self.profile.units.generation
        if generation is not None:
            named.add((generation.table, generation.key))
        named.update((part.table, (part.key,)) for part in self.profile.blobs)
        for table, columns in sorted(named):
            shape = self._shapes.get(table)
            if shape is None or not set(columns) <= set(shape.columns):
                continue
            unique = [index.columns for index in self.dialect.indexes(table) if index.unique]
            if not any(set(found) <= set(columns) for found in (shape.primary_key or ("",), *unique)):
                yield f"nothing keeps {table} ({', '.join(columns)}) unique, so it cannot tell rows apart"

    def _required(self) -> Mapping[str, set[str]]:
        """Return every table and column that the profile names, but for tables that are merely known."""
        tree, detect = self.tree, self.profile.detect
        needed: dict[str, set[str]] = {table: set() for table in detect.tables}

        def need(table: str, *columns: str) -> None:
            needed.setdefault(table, set()).update(columns)

        def need_via(via: Via | None) -> None:
            if via is not None:
                need(via.table, via.key, via.owner)

        need(tree.table, tree.key)
        own = (protection.where for protection in tree.protect if protection.table is None)
        addressed = [*tree.told, *(source.column for source in self._times() if source.rows is None)]
        addressed += [column for where in own for column in where]
        addressed += [edge.column for edge in tree.edges]
        addressed += [tree.idempotency_key] if tree.idempotency_key else []
        for alias, lookup in tree.lookup.items():
            need(lookup.table, *lookup.on)
            need(tree.table, *lookup.on.values())
            need(lookup.table, *(c.partition(".")[2] for c in addressed if c.startswith(f"{alias}.")))
        need(tree.table, *(c for c in addressed if c.partition(".")[0] not in tree.lookup))
        for table, column in tree.tied:
            need(table, column)
        for via in (*(edge.via for edge in tree.edges), *(owned.via for owned in tree.owned)):
            need_via(via)
        for protection in tree.protect:
            if protection.table:
                columns = [protection.column, protection.by_live]
                columns += [protection.overdue.column] if protection.overdue else []
                need(protection.table, *protection.where, *(column for column in columns if column))
        more = (*self._version_columns(), *self._generation_columns(), *self._blob_columns())
        for table, names in (*self._time_columns(), *more):
            need(table, *names)
        return needed

    def _time_columns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the tables that tell a run's time by their rows, or lose a link to it, with columns."""
        for rows, column in ((source.rows, source.column) for source in self._times()):
            if rows is not None:
                yield rows.table, (column, *rows.on, *rows.where)
                yield self.tree.table, tuple(rows.on.values())
        yield from ((part.table, (part.column,)) for part in self.tree.unlinked)

    def _version_columns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield where the version stands, unless a store may be without."""
        version, table = self.profile.detect.version, self.version_table
        if version is not None and table is not None and (table in self._shapes or not version.optional):
            yield table, (version.column,)

    def _generation_columns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the tables that the profile names for generations, each with columns of it."""
        if self.profile.units.generation is not None:
            yield from self.profile.units.generation.addressed(self.tree.table)

    def _blob_columns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the tables that the profile names for blobs, each with columns of it."""
        for part in self.profile.blobs:
            own = [part.key, part.size, part.created.column if part.created else None]
            if part.repeats is not None:
                own += [part.repeats.pointer, *part.repeats.columns]
                yield part.repeats.table, (part.repeats.key, part.repeats.newest, *part.repeats.columns)
            yield part.table, tuple(column for column in own if column)
            yield from ((reference.table, (reference.column,)) for reference in part.references)
            if part.pins is not None:
                yield part.pins.table, (part.pins.column, part.pins.until)

    def mentioned(self) -> frozenset[str]:
        """Return the tables of this database that the profile names, but for row tables."""
        return needed_tables(self.profile) & self._shapes.keys()


def _other_spelling(key: Key) -> Iterator[Key]:
    if isinstance(key, int):
        yield str(key)
    elif isinstance(key, str) and key[-1:].isdecimal() and key.isascii() and len(key) < MAX_DIGITS:
        with suppress(ValueError):
            if str(int(key)) == key:
                yield int(key)


def _lookup_alias(alias: str) -> str:
    """Keep a profile's aliases apart from ours."""
    return f"lookup-{alias}"


def _statuses(tree: Tree) -> Mapping[Scalar, Status]:
    statuses: dict[Scalar, Status] = dict.fromkeys(tree.terminal, Status.TERMINAL)
    statuses.update(dict.fromkeys(tree.successful, Status.SUCCESSFUL))
    statuses.update({word: Status.LIVE for group in tree.live for word in group})
    return statuses
