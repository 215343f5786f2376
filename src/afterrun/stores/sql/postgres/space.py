"""Space of a PostgreSQL schema: what its tables take, what removed rows still take, and what keeps those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from afterrun.core.errors import UnitFailure
from afterrun.core.schema_space import Holder, SchemaSpace, StoredTable
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.postgres.schema import Reflected
from afterrun.stores.sql.postgres.tables import Catalogued, Sample, catalogued, read_sample

ROW_HEAD: Final = 32
"""Bytes of a row beside its values: header, its place in the page, and about half an alignment."""

TOAST_SHARE: Final = 4 / 3
"""Large values lie in pieces of 2,000 bytes, four to a page; the place of one is often left."""

INDEX_PAGES: Final = 2
"""Of an index that holds anything: one about itself, and one of entries."""

WINDOW: Final = 16
"""Pages that one look for the last row reads."""

CUT_PAGES: Final = 1_000
CUT_SHARE: Final = 16
"""VACUUM cuts a table only by so many pages, or by this part of them (vacuumlazy.c)."""

FINENESS: Final = 1_000
"""Part of a table to which its empty end is found."""

MAINTAINS: Final = 170_000
"""Server version since which VACUUM is a right that can be granted, and transactions have a timeout."""

RIGHTS: Final = """
SELECT c.oid, pg_catalog.pg_has_role(c.relowner, 'USAGE') OR pg_catalog.pg_has_role(d.datdba, 'USAGE')
    {granted}, pg_catalog.pg_get_userbyid(c.relowner)::text
FROM pg_catalog.pg_class c, pg_catalog.pg_database d
WHERE c.oid = ANY (%s) AND d.datname = pg_catalog.current_database()
"""

HOLDERS: Final = """
SELECT CASE WHEN r.pid IS NULL THEN 'session' ELSE 'standby' END, coalesce(a.usename::text, ''),
    greatest(pg_catalog.age(a.backend_xmin), pg_catalog.age(a.backend_xid)),
    extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8, coalesce(a.state, ''), a.pid,
    (CASE WHEN coalesce(pg_catalog.age(a.backend_xid), -1) > coalesce(pg_catalog.age(a.backend_xmin), -1)
        THEN a.backend_xid ELSE a.backend_xmin END)::text
FROM pg_catalog.pg_stat_activity a LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = a.pid
WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.pid <> pg_catalog.pg_backend_pid()
    AND (a.datid IS NULL OR a.datid = (
        SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_vacuum v WHERE v.pid = a.pid)
UNION ALL
SELECT 'prepared', p.owner::text, pg_catalog.age(p.transaction),
    extract(epoch FROM pg_catalog.clock_timestamp() - p.prepared)::float8, '', NULL,
    p.transaction::text
FROM pg_catalog.pg_prepared_xacts p WHERE p.database = pg_catalog.current_database()
UNION ALL
SELECT 'slot', s.slot_name::text, pg_catalog.age(s.xmin), NULL,
    CASE WHEN s.active THEN 'in use' ELSE 'not in use' END, NULL, s.xmin::text
FROM pg_catalog.pg_replication_slots s WHERE s.xmin IS NOT NULL
ORDER BY 3 DESC, 1, 2
"""
"""What the server counts when it looks for the oldest snapshot that may see a table; VACUUM itself not."""


def measure(driver: psycopg.Connection[Any], reflected: Reflected, tables: Sequence[str]) -> SchemaSpace:
    """Measure these tables, and find out what keeps their dead rows on disk."""
    found = catalogued(driver, reflected, tables)
    rights = rights_to_vacuum(driver, reflected, tables)
    stored = tuple(
        _stored(driver, reflected, name, table, may_vacuum=rights.get(name, ("", False))[1])
        for name, table in found.items()
    )
    held = holders(driver)
    notices = tuple(_notices(driver, found, rights, held))
    return SchemaSpace(tables=stored, holders=held, notices=notices)


def _stored(
    driver: psycopg.Connection[Any], reflected: Reflected, name: str, table: Catalogued, *, may_vacuum: bool
) -> StoredTable:
    sample = read_sample(driver, reflected, name, table)
    return StoredTable(
        name=name,
        heap=table.heap,
        indexes=table.indexes,
        toast=table.toast,
        rows=table.rows(sample),
        dead=table.dead if table.counted or table.dead or not table.main else None,
        tail=_tail(driver, reflected, name, table),
        lean=_lean(table, sample),
        last_vacuum=table.last_vacuum,
        last_autovacuum=table.last_autovacuum,
        may_vacuum=may_vacuum,
    )


def _lean(table: Catalogued, sample: Sample | None) -> int | None:
    """Return about what a table with its indexes would take written anew, indexes in step with the rows."""
    if sample is None:
        return None
    scale = table.rows(sample) / sample.rows if sample.rows else 0.0
    own = (sample.content - sample.large + sample.rows * ROW_HEAD) * scale * 100 / table.fillfactor
    heap = min(own, table.heap)
    toast = min(sample.large * scale * TOAST_SHARE, table.toast)
    least = INDEX_PAGES * table.page_size * table.index_count
    indexes = min(max(table.indexes * heap / table.heap if table.heap else 0, least), table.indexes)
    return round(heap + toast + indexes)


def _tail(driver: psycopg.Connection[Any], reflected: Reflected, name: str, table: Catalogued) -> int | None:
    """Return at most how many bytes at the end hold no row; 0 where VACUUM would not cut them off."""
    if not table.readable or not table.pages:
        return None if table.pages else 0
    place = sql.Identifier(*reflected.places[name])
    try:
        with classified():
            last = _held_page(driver, place, table.pages)
    except UnitFailure:  # a lock
        return None
    empty = table.pages - last - 1
    return empty * table.page_size if empty >= min(CUT_PAGES, table.pages / CUT_SHARE) else 0


def _held_page(driver: psycopg.Connection[Any], place: sql.Identifier, pages: int) -> int:
    """Return a page that holds a row, or a row comes soon after it: the last such one that halving finds.

    Every page returned is proof that nothing before it can be cut off. -1: there is no row.
    """
    window = max(1, min(WINDOW, pages // (2 * CUT_SHARE)))

    def holds(first: int) -> bool:
        statement = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE ctid >= {}::tid AND ctid < {}::tid)")
        row = driver.execute(statement.format(place, f"({first},0)", f"({first + window},0)")).fetchone()
        return bool(row and row[0])

    held, empty, step = pages - window, pages, window
    while held > 0 and not holds(held):
        step *= 2
        held, empty = max(pages - step, 0), held
    if held == 0 and not holds(0):
        return -1
    while empty - held > max(window, pages // FINENESS):
        middle = (held + empty) // 2
        held, empty = (middle, empty) if holds(middle) else (held, middle)
    return held


def rights_to_vacuum(
    driver: psycopg.Connection[Any], reflected: Reflected, tables: Sequence[str]
) -> Mapping[str, tuple[str, bool]]:
    """Return the owner of each table, and whether this role may vacuum it."""
    names = {reflected.oids[name]: name for name in tables}
    newer = driver.info.server_version >= MAINTAINS
    granted = "OR pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')" if newer else ""
    with classified():
        rows = driver.execute(RIGHTS.format(granted=granted).encode(), (list(names),)).fetchall()
    return {names[oid]: (owner, may) for oid, may, owner in rows}


def holders(driver: psycopg.Connection[Any]) -> tuple[Holder, ...]:
    """Return whose snapshots keep dead rows of this database on disk, the oldest first."""
    with classified():
        rows = driver.execute(HOLDERS).fetchall()
    return tuple(
        Holder(
            kind=kind, name=name, transactions=age, seconds=seconds, state=state, process=pid, oldest=oldest
        )
        for kind, name, age, seconds, state, pid, oldest in rows
    )


def _notices(
    driver: psycopg.Connection[Any],
    found: Mapping[str, Catalogued],
    rights: Mapping[str, tuple[str, bool]],
    held: Sequence[Holder],
) -> Iterator[str]:
    """Yield what these numbers do not say, and what would make them do so."""
    standby = is_standby(driver)
    if standby:
        yield "this server is a standby: it counts no dead rows, and only its primary can vacuum"
    unread = sorted(name for name, table in found.items() if not table.readable)
    if unread:
        yield f"this role may not read all rows of {', '.join(unread)}, so nothing is said of their content"
    uncounted = sorted(name for name, table in found.items() if table.main and not table.counted)
    if uncounted and not standby:
        yield (
            f"no VACUUM or ANALYZE of {', '.join(uncounted)} since the server's counts began (a crash ends "
            "them), so there may be more dead rows than were counted"
        )
    yield from barred(rights)
    if any(holder.seconds is None for holder in held if holder.kind in ("session", "standby")):
        yield (
            "this role may not see since when others' transactions run: GRANT pg_read_all_stats (or "
            "pg_monitor) to it"
        )


def barred(rights: Mapping[str, tuple[str, bool]]) -> Iterator[str]:
    """Yield a sentence on tables that this role may not vacuum, for each owner."""
    owners: dict[str, list[str]] = {}
    for name, (owner, may) in sorted(rights.items()):
        if not may:
            owners.setdefault(owner, []).append(name)
    for owner, names in owners.items():
        yield (
            f"this role may not vacuum {', '.join(names)}, owned by {owner}: connect as that role or "
            "the database's owner, or leave it to autovacuum (since PostgreSQL 17 GRANT MAINTAIN is enough)"
        )


def is_standby(driver: psycopg.Connection[Any]) -> bool:
    """Say whether this server only follows another one."""
    with classified():
        row = driver.execute("SELECT pg_catalog.pg_is_in_recovery()").fetchone()
    return bool(row and row[0])
