"""Tables of a PostgreSQL schema: bytes as the server measures them, and rows by its statistics or a sample.

Nothing here reads a whole table but a count that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.inspection import TableSize
from afterrun.core.times import Instant
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.postgres.schema import Reflected

WINDOWS: Final = 64
WINDOW: Final = 2
"""Windows that are read of each table, evenly spread, and pages in each."""

SAMPLED: Final = WINDOWS * WINDOW
"""Pages of a sample; a table of no more is read whole."""

LARGE: Final = 2_000
"""Bytes from which a value is stored apart (TOAST_TUPLE_TARGET); some smaller ones are, too."""

KEEPS_STATISTICS: Final = 150_000
"""Server version since which a session can be told to hand in its own counts at once."""

CATALOGUE: Final = """
SELECT c.oid, pg_catalog.pg_relation_size(c.oid),
    pg_catalog.pg_relation_size(c.oid, 'fsm') + pg_catalog.pg_relation_size(c.oid, 'vm'),
    coalesce(pg_catalog.pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0),
    pg_catalog.pg_indexes_size(c.oid),
    (SELECT count(*) FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid), c.reltuples::float8, c.relpages,
    pg_catalog.pg_stat_get_live_tuples(c.oid), pg_catalog.pg_stat_get_dead_tuples(c.oid),
    (extract(epoch FROM pg_catalog.pg_stat_get_last_vacuum_time(c.oid)) * 1000000)::bigint,
    (extract(epoch FROM pg_catalog.pg_stat_get_last_autovacuum_time(c.oid)) * 1000000)::bigint,
    (extract(epoch FROM greatest(pg_catalog.pg_stat_get_last_analyze_time(c.oid),
        pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid))) * 1000000)::bigint,
    c.relkind = 'r' AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
        AND NOT pg_catalog.row_security_active(c.oid),
    coalesce((SELECT o.option_value::int FROM pg_catalog.pg_options_to_table(c.reloptions) o
        WHERE o.option_name = 'fillfactor'), 100),
    pg_catalog.current_setting('block_size')::int
FROM pg_catalog.pg_class c WHERE c.oid = ANY (%s)
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that were read, the bytes of their values, those of large ones, and whether these are all rows."""

    rows: int
    content: int
    large: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Catalogued:
    """What the catalogue and the statistics say of one table. Sizes are bytes.

    ``main`` are the pages of rows, ``maps`` those that tell where room is. ``live`` and ``dead`` are the
    server's running counts, which a crash loses.
    """

    oid: int
    main: int
    maps: int
    toast: int
    indexes: int
    index_count: int
    reltuples: float
    relpages: int
    live: int
    dead: int
    last_vacuum: Instant | None
    last_autovacuum: Instant | None
    last_analyze: Instant | None
    readable: bool
    fillfactor: int
    page_size: int

    @property
    def heap(self) -> int:
        """Return the bytes of its rows, but for large values."""
        return self.main + self.maps

    @property
    def pages(self) -> int:
        """Return the pages of its rows."""
        return self.main // self.page_size

    @property
    def counted(self) -> bool:
        """Say whether the running counts have started from a look at the table."""
        return (self.last_vacuum or self.last_autovacuum or self.last_analyze) is not None

    def rows(self, sample: Sample | None) -> int:
        """Return about how many rows there are, exactly if a sample has them all."""
        if sample is not None and sample.whole:
            return sample.rows
        if self.counted:
            return self.live
        if self.reltuples >= 0 and self.relpages:
            return round(self.reltuples / self.relpages * self.pages)
        if sample is not None:
            return round(sample.rows / SAMPLED * self.pages)
        return self.live


@contextmanager
def unlocked(what: str) -> Iterator[None]:
    """Turn what a batch would be deferred for, such as a lock, into a failure of the store."""
    try:
        with classified():
            yield
    except UnitFailure as error:
        if error.kind != "lock":
            raise StoreFailure(error.kind, f"{what}: {error}") from None
        raise StoreFailure(
            "busy",
            f"{what}: another session has locked a table (a VACUUM FULL or a change of the schema?); "
            "try again later",
        ) from None


def catalogued(
    driver: psycopg.Connection[Any], reflected: Reflected, tables: Sequence[str]
) -> Mapping[str, Catalogued]:
    """Return what the catalogue and the statistics say of these tables, those left out that are gone."""
    names = {reflected.oids[name]: name for name in tables}
    with unlocked("tables could not be measured"):
        if driver.info.server_version >= KEEPS_STATISTICS:
            driver.execute("SELECT pg_catalog.pg_stat_force_next_flush()")
        rows = driver.execute(CATALOGUE, (list(names),)).fetchall()
    found = {names[row[0]]: Catalogued(*row) for row in rows if row[1] is not None}
    return {name: found[name] for name in tables if name in found}


def read_sample(
    driver: psycopg.Connection[Any], reflected: Reflected, name: str, table: Catalogued
) -> Sample | None:
    """Read some pages of a table; nothing where this role may not, or a lock is in the way."""
    if not table.readable:
        return None
    statement = _sampling(sql.Identifier(*reflected.places[name]), reflected.types[name], _windows(table))
    try:
        with classified():
            row = driver.execute(statement).fetchone() or (0, 0, 0)
    except UnitFailure:
        return None
    return Sample(int(row[0]), int(row[1]), int(row[2]), whole=table.pages <= SAMPLED)


def _sampling(
    place: sql.Identifier, columns: Iterable[str], windows: Sequence[tuple[str, str]]
) -> sql.Composed:
    """Return the statement that reads rows, the bytes of their values, and those of large ones."""
    none = sql.SQL("0").format()  # a table may have no column
    sizes = [
        sql.SQL("coalesce(pg_catalog.pg_column_size({}), 0)").format(sql.Identifier(column))
        for column in columns
    ]
    large = [sql.SQL("CASE WHEN {0} > {1} THEN {0} ELSE 0 END").format(size, LARGE) for size in sizes]
    read = sql.SQL("SELECT count(*) AS rows, sum({}) AS content, sum({}) AS large FROM {}").format(
        sql.SQL(" + ").join([none, *sizes]), sql.SQL(" + ").join([none, *large]), place
    )
    ends = [sql.SQL(" WHERE ctid >= {}::tid AND ctid < {}::tid").format(*window) for window in windows]
    parts = sql.SQL(" UNION ALL ").join([read + end for end in ends] or [read])
    return sql.SQL(
        "SELECT sum(rows)::bigint, coalesce(sum(content), 0)::bigint, coalesce(sum(large), 0)::bigint"
        " FROM ({}) AS parts"
    ).format(parts)


def _windows(table: Catalogued) -> list[tuple[str, str]]:
    """Return the first and the last row of pages evenly spread over a table; none if it is read whole."""
    if table.pages <= SAMPLED:
        return []
    starts = (table.pages * (2 * place + 1) // (2 * WINDOWS) for place in range(WINDOWS))
    return [(f"({start},0)", f"({start + WINDOW},0)") for start in starts]


def table_sizes(driver: psycopg.Connection[Any], reflected: Reflected, *, exact: bool) -> Sequence[TableSize]:
    """Return the bytes of all tables, which are measured; ``exact`` counts rows, too, where this role may."""
    found = catalogued(driver, reflected, list(reflected.oids))
    return [_size(driver, reflected, name, table, exact=exact) for name, table in found.items()]


def _size(
    driver: psycopg.Connection[Any], reflected: Reflected, name: str, table: Catalogued, *, exact: bool
) -> TableSize:
    sample = read_sample(driver, reflected, name, table)
    known = sample is not None and sample.whole
    rows = table.rows(sample)
    if exact and table.readable and not known:
        rows, known = _count(driver, reflected, name), True
    a_row = sample.content / sample.rows if sample is not None and sample.rows else 0.0
    return TableSize(
        name=name,
        rows=rows,
        table=table.heap + table.toast,
        indexes=table.indexes,
        content=round(a_row * rows),
        rows_estimated=not known,
    )


def _count(driver: psycopg.Connection[Any], reflected: Reflected, name: str) -> int:
    place = sql.Identifier(*reflected.places[name])
    with unlocked(f"the rows of {name} could not be counted"):
        row = driver.execute(sql.SQL("SELECT count(*) FROM {}").format(place)).fetchone()
    return int(row[0]) if row else 0
