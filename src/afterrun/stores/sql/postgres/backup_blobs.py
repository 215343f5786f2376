"""Blobs in a `removed` backup of a PostgreSQL store: copied once a piece, and named by each unit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from psycopg import sql

from afterrun.core.facts import Key, Unit, key_text, readable
from afterrun.stores.sql.backed import Backed
from afterrun.stores.sql.blob_table import BlobTable
from afterrun.stores.sql.postgres.backup_rows import Asked, UnitRows, reading
from afterrun.stores.sql.postgres.column_types import type_of
from afterrun.stores.sql.postgres.copying import FORMAT, blocks, copied_out
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.store import SqlStore

ESCAPES: Final = {8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 92: b"\\\\"}
SPECIAL: Final = re.compile(rb"[\x08-\x0d\\]")

Needed = Sequence[dict[str, list[str | int]]]
"""Keys of blobs by table, for each unit of a piece."""


def blob_rows(store: SqlStore, rows: UnitRows) -> Sequence[BlobRows]:
    """Return the tables of blobs that can go with units; which of them these rows need is asked of each."""
    tables = store.blobs.tables if store.blobs else []
    return [BlobRows(rows, table) for table in tables if table.sources]


class BlobRows:
    """Reads the blobs of one table that units of one kind refer to, and puts them back."""

    def __init__(self, rows: UnitRows, table: BlobTable) -> None:
        """Compile the statements."""
        self.name = table.name
        self.columns: Mapping[str, str] = rows.stored(table.name)
        dialect = self._dialect = rows.dialect
        self._table = table
        self._key_at = list(self.columns).index(table.part.key)
        self._needs = list(self._needing(rows.backed))
        among = dialect.keys_in(table.key)
        read = sa.select(*(table.table.c[name] for name in self.columns)).where(among).order_by(table.key)
        self._read = f"COPY ({dialect.sql(read)}) TO STDOUT {FORMAT}".encode()

    def _needing(self, backed: Backed) -> Iterator[tuple[sa.Select[Any], Sequence[str]]]:
        """Yield statements that give the place of a unit and a blob that it refers to."""
        table = self._table.table.alias("afterrun-blobs")
        key = table.c[self._table.part.key]
        for name, column in self._table.sources:
            for part in backed.parts():
                if part.name == name:
                    joined = part.source.join(table, part.table.c[column] == key)
                    yield reading(part, joined, [key]).distinct(), [type_of(owner) for owner in part.key]

    def needed(self, asked: Asked) -> Iterator[tuple[int, str | int]]:
        """Yield the place of a unit and the key of a blob that it refers to, some of them more than once."""
        for statement, owners in self._needs:
            for place, key in self._dialect.execute(statement, asked.parameters(owners)):
                if place is not None and readable(key):
                    yield int(place), key

    def lines(self, keys: Collection[Key]) -> Generator[bytes]:
        """Yield these blobs."""
        given = {"keys": self._dialect.bind_keys(sorted(keys, key=str))}
        return copied_out(self._dialect, self._read, given)

    def put(self, keys: Collection[Key], lines: Iterable[bytes]) -> int:
        """Take those of these lines in that are blobs with these keys, unless they are there; count them."""
        wanted = {escaped(key) for key in keys}
        found = (line for line in lines if line.rstrip(b"\n").split(b"\t")[self._key_at] in wanted)
        dialect, fresh = self._dialect, sql.Identifier("pg_temp", "afterrun-blobs")
        table = sql.Identifier(*dialect.reflected.places[self.name])
        names = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        key = sql.Identifier(self._table.part.key)
        make = "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0"
        take = "COPY {} ({}) FROM STDIN {}"
        move = (
            "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {fresh} AS f"
            " WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{key} = f.{key}) ON CONFLICT DO NOTHING"
        )
        dialect.hurry()
        with classified(), dialect.driver.cursor() as cursor:
            cursor.execute(sql.SQL(make).format(sql.Identifier("afterrun-blobs"), names, table))
            with cursor.copy(sql.SQL(take).format(fresh, names, sql.SQL(FORMAT))) as copy:
                for block in blocks(found):
                    copy.write(block)
            count = cursor.execute(
                sql.SQL(move).format(table=table, names=names, fresh=fresh, key=key)
            ).rowcount
            cursor.execute(sql.SQL("DROP TABLE {}").format(fresh))
        return count


def needed_by(tables: Sequence[BlobRows], units: Sequence[Unit], asked: Asked) -> Needed:
    """Return the keys of the blobs that each of these units refers to, by table."""
    needed: list[defaultdict[str, set[str | int]]] = [defaultdict(set) for _ in units]
    for table in tables:
        for place, key in table.needed(asked):
            needed[place][table.name].add(key)
    return [{name: sorted(keys, key=str) for name, keys in found.items()} for found in needed]


def escaped(key: Key) -> bytes:
    """Write a key as COPY does."""
    return SPECIAL.sub(lambda found: ESCAPES.get(found[0][0], found[0]), key_text(key).encode())
