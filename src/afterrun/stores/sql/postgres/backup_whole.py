"""The `whole` backup of a PostgreSQL store: pg_dump's copy of the tables that rows go from.

pg_dump reads from the snapshot that this session holds, and so do we: what is in the file is compared, row by
row, with what the tables held at that moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from psycopg import sql

from afterrun.core.errors import BackupFailed, StoreFailure
from afterrun.stores.sql.postgres.copying import FORMAT, copied_out
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.postgres.programs import Programs, login, output

LOCK_WAIT: Final = "10s"
"""How long pg_dump waits for a table that somebody is changing, while others wait behind it."""

WIDTH: Final = 1 << 256
"""Modulus of a sum of digests."""

TABLES: Final = """
WITH RECURSIVE below AS (
    SELECT t AS root, t AS part FROM unnest(%(tables)s::oid[]) AS t
    UNION SELECT b.root, i.inhrelid FROM below b JOIN pg_catalog.pg_inherits i ON i.inhparent = b.part)
SELECT b.root, b.part, n.nspname, c.relname, c.relkind = 'p', pg_catalog.pg_table_size(b.part),
    to_json(ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = b.part
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum))::text
FROM below b JOIN pg_catalog.pg_class c ON c.oid = b.part
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
ORDER BY n.nspname, c.relname
"""
"""The tables with their partitions and heirs, each of which pg_dump wants to be named."""

NAME: Final = rb'("(?:[^"]|"")+"|[^".(\s]+)'
BEGIN: Final = re.compile(rb"COPY " + NAME + rb"\." + NAME + rb" (\(.*\) )?FROM stdin;\n", re.DOTALL)
END: Final = b"\\.\n"
LISTED: Final = re.compile(rb"^[0-9]+; [0-9]+ [0-9]+ TABLE DATA ", re.MULTILINE)

Place = tuple[bytes, bytes]
"""Schema and name of a table, in UTF-8."""

Sums = Mapping[Place, tuple[int, int]]
"""Rows and the sum of their digests, by table: the order of the rows does not matter."""


@dataclass(frozen=True, slots=True)
class Dumped:
    """A table that is dumped on its own: the table of the profile that it belongs to, and what it is."""

    name: str
    place: tuple[str, str]
    columns: tuple[str, ...]
    divided: bool
    size: int


def tables_of(dialect: Postgres, names: Sequence[str]) -> Sequence[Dumped]:
    """Return the tables that are dumped: these, and those that parts of them are in."""
    oids = {dialect.reflected.oids[name]: name for name in names}
    with classified():
        rows = dialect.driver.execute(TABLES, {"tables": list(oids)}).fetchall()
    seen: dict[int, Dumped] = {}
    for root, oid, schema, name, divided, size, columns in rows:
        seen.setdefault(oid, Dumped(oids[root], (schema, name), tuple(json.loads(columns)), divided, size))
    return list(seen.values())


def table_bytes(dialect: Postgres, names: Sequence[str]) -> int:
    """Return the bytes of these tables, without their indexes."""
    return sum(table.size for table in tables_of(dialect, names))


class WholeDump:
    """Dumps tables within the snapshot that the caller holds, and compares the file with it."""

    def __init__(self, dialect: Postgres, programs: Programs, names: Sequence[str]) -> None:
        """Prepare; nothing is written yet."""
        self._dialect = dialect
        self._programs = programs
        self._tables = tables_of(dialect, names)

    def write(self, draft: Path) -> str:
        """Run pg_dump into an empty file; return the SHA-256 of what it wrote. Raises `BackupFailed`."""
        driver = self._dialect.driver
        with classified():
            snapshot = driver.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone() or ("",)
        command = [
            *(self._programs.dump, "--format=custom", "--encoding=UTF8", "--strict-names", "--no-password"),
            *(f"--snapshot={snapshot[0]}", f"--lock-wait-timeout={LOCK_WAIT}"),
            *(f"--table={'.'.join(map(_quoted, table.place))}" for table in self._tables),
        ]
        digest = hashlib.sha256()
        with draft.open("wb") as file, login(driver) as (environment, connected):
            for chunk in output(command, environment, check=self._check):
                connected()
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()

    def _check(self) -> None:
        if self._dialect.halt():
            raise StoreFailure("halted", "the host shuts down")

    def sums(self) -> Sums:
        """Read the tables from the same snapshot, with values written as a new session writes them."""
        driver = self._dialect.driver
        with classified():
            driver.execute("SET LOCAL bytea_output TO DEFAULT")
        found = {}
        for table in self._tables:
            if not table.divided:
                ask = sql.SQL("COPY {} ({}) TO STDOUT {}").format(
                    sql.Identifier(*table.place),
                    sql.SQL(", ").join(map(sql.Identifier, table.columns)),
                    sql.SQL(FORMAT),
                )
                found[_encoded(table.place)] = _sum(copied_out(self._dialect, ask))
        with classified():
            driver.execute("SET LOCAL bytea_output TO hex")
        return found

    def rows(self, sums: Sums) -> Mapping[str, int]:
        """Return the rows by table of the profile."""
        counted = Counter({table.name: 0 for table in self._tables})
        for table in self._tables:
            counted[table.name] += sums.get(_encoded(table.place), (0, 0))[0]
        return dict(counted)

    def verify(self, draft: Path, sums: Sums) -> None:
        """Let pg_restore read the file, and compare every row in it. Raises `BackupFailed`."""
        restore = self._programs.restore
        listed = b"".join(output([restore, "--list", str(draft)], os.environ, check=self._check))
        if len(LISTED.findall(listed)) != len(sums):
            raise BackupFailed("corrupt", "pg_restore does not list the same tables in the backup")
        command = [restore, "--data-only", "--file=-", str(draft)]
        lines = split(output(command, os.environ, check=self._check))
        found = {place: _sum(_until_end(lines)) for place in _begun(lines)}
        if found != dict(sums):
            raise BackupFailed("corrupt", "the rows in the backup are not those that the tables had")


def split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what a program writes into lines."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, newline, rest = chunk.partition(b"\n")
        begun.append(first + newline)
        if newline:
            yield b"".join(begun)
            *whole, last = rest.split(b"\n")
            yield from (line + b"\n" for line in whole)
            begun = [last]
    if any(begun):
        yield b"".join(begun)


def _begun(lines: Iterator[bytes]) -> Iterator[Place]:
    """Yield the tables whose rows come next in a script of pg_restore's; the caller reads these."""
    for line in lines:
        found = BEGIN.fullmatch(line)
        if found:
            yield (_plain(found[1]), _plain(found[2]))


def _until_end(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        if line == END:
            return
        yield line
    raise BackupFailed("corrupt", "the rows in the backup have no end")


def _sum(lines: Iterable[bytes]) -> tuple[int, int]:
    rows = total = 0
    for line in lines:
        rows += 1
        total += int.from_bytes(hashlib.sha256(line).digest(), "big")
    return rows, total % WIDTH


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _plain(name: bytes) -> bytes:
    return name[1:-1].replace(b'""', b'"') if name.startswith(b'"') else name


def _encoded(place: tuple[str, str]) -> Place:
    return place[0].encode(), place[1].encode()
