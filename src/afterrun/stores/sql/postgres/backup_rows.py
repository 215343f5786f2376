"""The rows of units as PostgreSQL's COPY writes them, and what they come to: a digest a unit.

Text, and not the binary format: it is exact under this session's settings, people and any version of psql can
read it, one line is one row, and the digest of a line is one of all its values, whose types the columns give.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

import sqlalchemy as sa
from psycopg import sql

from afterrun.core.errors import UnitFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.row_tables import ROW
from afterrun.profiles import TableShape
from afterrun.stores.sql.backed import Backed
from afterrun.stores.sql.backed_kinds import kinds_of
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.parts import Part
from afterrun.stores.sql.postgres.circles import Circle
from afterrun.stores.sql.postgres.column_types import INTEGERS, type_of
from afterrun.stores.sql.postgres.copying import FORMAT, NOTHING, copied_in, copied_out
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.store import SqlStore

PIECE_UNITS: Final = 1_000
PIECE_MEMBERS: Final = 5_000
"""Units and runs whose rows one statement a table reads; a larger tree is a piece of its own."""

GENERATED: Final = """
SELECT attrelid, attname FROM pg_catalog.pg_attribute
WHERE attrelid = ANY (%(tables)s) AND attnum > 0 AND NOT attisdropped AND attgenerated <> ''
"""


@dataclass(frozen=True, slots=True)
class Copied:
    """One table that rows go from.

    Attributes:
        name: as the profile calls it.
        columns: the stored columns with their types; computed ones are left out.
        owners: the types of the columns that hold the key of a member.
        read: the statement that gives the rows of some units, each after the place of its unit among them.
        write: the statement that takes such rows in.
    """

    name: str
    columns: Mapping[str, str]
    owners: tuple[str, ...]
    read: bytes
    write: sql.Composed


@dataclass(slots=True)
class UnitSum:
    """What the rows of one unit come to: number and digest by table, and their bytes as text.

    ``aside`` counts rows by table that belong to it, too, and are in the backup as units of their own.
    """

    rows: dict[str, int] = field(default_factory=dict)
    size: int = 0
    tables: dict[str, bytes] = field(default_factory=dict)
    aside: Counter[str] = field(default_factory=Counter)

    def note(self, table: str, digests: list[bytes], size: int) -> None:
        """Take in the digests of all rows of a table, in any order: equal content has equal sums."""
        self.rows[table] = len(digests)
        self.size += size
        self.tables[table] = hashlib.sha256(b"".join(sorted(digests))).digest()

    @property
    def digest(self) -> str:
        """Return the SHA-256 over all tables, in the order of their names."""
        total = hashlib.sha256()
        for name, found in sorted(self.tables.items()):
            total.update(hashlib.sha256(name.encode()).digest() + self.rows[name].to_bytes(8, "big") + found)
        return total.hexdigest()


class Aside(Protocol):
    """Rows that are in a backup as units of their own, by their content: a run may go without them."""

    def has(self, kind: str, table: str, digest: bytes) -> bool:
        """Say whether a kind other than this one has a row of this content in a table."""

    def note(self, kind: str, table: str, digest: bytes) -> None:
        """Take down a row of a unit of this kind."""


class Asked:
    """Units whose rows are asked for, table by table: their keys, written once for all statements."""

    def __init__(self, backed: Backed, units: Sequence[Unit]) -> None:
        """Take units of one kind; the place of each is its number among them."""
        members = [key for unit in units for key in unit.members]
        columns = zip(*map(_columns, members), strict=True)
        self._members = [[key_text(value) for value in column] for column in columns]
        self._arrays = list(map(_array, self._members))
        self._places = _array([str(place) for place, unit in enumerate(units) for _ in unit.members])
        self._keys = backed.bind(members)

    def parameters(self, owners: Sequence[str]) -> Mapping[str, object]:
        """Return the parameters of a statement that compares keys with text of columns of these types."""
        given = {_member(place): self._array(place, owner) for place, owner in enumerate(owners)}
        return {"keys": self._keys, "places": self._places, **given}

    def _array(self, place: int, owner: str) -> str:
        if owner == "uuid" or owner in INTEGERS:
            return _array([_spelled(text, owner) for text in self._members[place]])
        return self._arrays[place]


class UnitRows:
    """Reads the rows of units of one kind from the store and writes them to it.

    Attributes:
        aside: rows that are units of their own, which are left out of others; nothing if there are none.
        shared: tables in which such rows may be.
        noting: whether rows that are read are taken down there.
    """

    def __init__(self, store: SqlStore, backed: Backed) -> None:
        """Compile the statements, in the order of removal."""
        if not isinstance(store.dialect, Postgres):
            raise TypeError(store.dialect.name)
        self.dialect: Postgres = store.dialect
        self.backed = backed
        self.aside: Aside | None = None
        self.shared: frozenset[str] = frozenset()
        self.noting = False
        found = backed.parts()
        blobs = store.blobs.tables if store.blobs else []
        self._computed = self._generated([*(part.name for part in found), *(table.name for table in blobs)])
        self.tables: Sequence[Copied] = [self._copied(part) for part in found]
        shapes = self.dialect.shapes
        self._circles = {table.name: later for table in self.tables if (later := self._later(table, shapes))}

    def _generated(self, names: Sequence[str]) -> frozenset[tuple[int, str]]:
        oids = self.dialect.reflected.oids
        with classified():
            found = self.dialect.driver.execute(GENERATED, {"tables": [oids[name] for name in names]})
            return frozenset((oid, column) for oid, column in found.fetchall())

    def stored(self, name: str) -> Mapping[str, str]:
        """Return the columns of a table that are stored rather than computed, with their types."""
        reflected = self.dialect.reflected
        return {
            column: spelling
            for column, spelling in reflected.types[name].items()
            if (reflected.oids[name], column) not in self._computed
        }

    def _copied(self, part: Part) -> Copied:
        reflected = self.dialect.reflected
        columns = self.stored(part.name)
        read = self.dialect.sql(reading(part, part.source, [part.table.c[name] for name in columns]))
        write = sql.SQL("COPY {} ({}) FROM STDIN {}").format(
            sql.Identifier(*reflected.places[part.name]),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(FORMAT),
        )
        owners = tuple(map(type_of, part.key))
        return Copied(part.name, columns, owners, f"COPY ({read}) TO STDOUT {FORMAT}".encode(), write)

    def _later(self, table: Copied, shapes: Mapping[str, TableShape]) -> Circle | None:
        """Return the columns of a table that lead to rows which are put back after its own."""
        names = [other.name for other in self.tables]
        later, shape = names[: names.index(table.name)], shapes[table.name]
        links = [key[0] for key, referred, _, _ in shape.foreign_keys if len(key) == 1 and referred in later]
        if not links or len(shape.primary_key) != 1:
            return None
        place, [key] = self.dialect.reflected.places[table.name], shape.primary_key
        return Circle(self.dialect, place, columns=list(table.columns), key=key, links=links)

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the tables."""
        return [table.name for table in self.tables]

    def sums(self, units: Sequence[Unit]) -> Iterator[UnitSum]:
        """Read all rows of these units; yield what they come to, unit by unit."""
        for piece in pieces(units):
            sums = [UnitSum() for _ in piece]
            asked = Asked(self.backed, piece)
            for table in self.tables:
                deque(self.lines(table, asked, sums), maxlen=0)
            yield from sums

    def lines(self, table: Copied, asked: Asked, sums: Sequence[UnitSum]) -> Generator[bytes]:
        """Yield the rows of units in one table, unit by unit, and note in ``sums`` what they come to.

        Raises `UnitFailure` for a row that no unit can be told for.
        """
        current, digests, size = NOTHING, list[bytes](), 0
        aside = self.aside if table.name in self.shared else None
        with closing(copied_out(self.dialect, table.read, asked.parameters(table.owners))) as rows:
            for row in rows:
                place, _, line = row.partition(b"\t")
                if place == NOTHING:  # the unit of a row that belongs to none of those asked for
                    raise UnitFailure("constraint", f"a row of {table.name} belongs to no unit")
                digest = hashlib.sha256(line).digest()
                if aside is not None and aside.has(self.backed.kind, table.name, digest):
                    sums[int(place)].aside[table.name] += 1
                    continue
                if place != current:
                    if digests:
                        sums[int(current)].note(table.name, digests, size)
                    current, digests, size = place, [], 0
                if aside is not None and self.noting:
                    aside.note(self.backed.kind, table.name, digest)
                digests.append(digest)
                size += len(line)
                yield line
        if digests:
            sums[int(current)].note(table.name, digests, size)

    def put(self, table: Copied, lines: Iterable[bytes]) -> int:
        """Take rows in, as they were written out; return their number."""
        circle = self._circles.get(table.name)
        return copied_in(self.dialect, table.write, lines if circle is None else circle.opened(lines))

    def close_circles(self) -> None:
        """Set the columns that were left out since the rows that they lead to came later."""
        for circle in self._circles.values():
            circle.close()


def rows_of(store: SqlStore, rows: Collection[str] = ()) -> Mapping[str, UnitRows]:
    """Return what reads and writes units by kind; ``rows`` are row tables whose rows are units, too."""
    found = {kind: UnitRows(store, backed) for kind, backed in kinds_of(store, rows).items()}
    for kind, mine in found.items():
        others = [
            other.names
            for name, other in found.items()
            if name != kind and (kind.startswith(ROW) or name.startswith(ROW))
        ]
        mine.shared = frozenset(mine.names) & frozenset(name for names in others for name in names)
    return found


def all_tables(kinds: Mapping[str, UnitRows]) -> Sequence[Copied]:
    """Return the tables of all kinds, each once, those of trees first."""
    return list({table.name: table for rows in kinds.values() for table in rows.tables}.values())


def pieces(units: Iterable[Unit]) -> Iterator[Sequence[Unit]]:
    """Cut units into pieces whose rows are read at once."""
    piece: list[Unit] = []
    members = 0
    for unit in units:
        if piece and (len(piece) == PIECE_UNITS or members + len(unit.members) > PIECE_MEMBERS):
            yield piece
            piece, members = [], 0
        piece.append(unit)
        members += len(unit.members)
    if piece:
        yield piece


def reading(part: Part, source: sa.FromClause, columns: Sequence[Column]) -> sa.Select[Any]:
    """Return the statement that gives the place of a row's unit and these columns, ordered by the place.

    ``source`` is that of the part, or its join with another table.

    The rows are found as the removal finds them, and the join loses none: one that fits no key has no place.
    """
    names = [_member(place) for place in range(len(part.key))]
    arrays = [sa.cast(sa.bindparam(name), sa.ARRAY(sa.Text())) for name in names]
    places = sa.cast(sa.bindparam("places"), sa.ARRAY(sa.Integer()))
    tuples = sa.func.unnest(*arrays, places)
    given = tuples.table_valued(*names, "place", name="afterrun-given").render_derived()
    members = [given.c[name] for name in names]
    place = sa.func.min(given.c.place).label("place")
    known = sa.select(*members, place).group_by(*members).subquery("afterrun-known")
    same = [
        sa.collate(sa.cast(owner, sa.Text()), "C") == known.c[name]
        for owner, name in zip(part.key, names, strict=True)
    ]
    return (
        sa.select(known.c.place, *columns)
        .select_from(source.outerjoin(known, sa.and_(*same)))
        .where(part.where)
        .order_by(known.c.place)
    )


def _member(place: int) -> str:
    """Return the name of the parameter with one column of the keys."""
    return f"members{place}"


def _columns(key: Key) -> Sequence[Key]:
    return key if isinstance(key, tuple) else (key,)


def _array(values: Sequence[str]) -> str:
    """Write an array as PostgreSQL reads it."""
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


def _spelled(member: str, owner: str) -> str:
    """Return a key as a column of this type spells it when it is made text."""
    with suppress(ValueError):
        if owner == "uuid":
            return str(UUID(member))
        if owner in INTEGERS:
            return str(int(member))
    return member
