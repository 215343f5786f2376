"""Faults that a PostgreSQL server can name itself: indexes, foreign keys, and work that nobody finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.stores.sql.postgres.errors import classified

PREPARED_SECONDS: Final = 600
"""From this age on, a prepared transaction has been forgotten: its manager decides within moments."""

INVALID: Final = """
SELECT c.relname::text, i.relname::text FROM pg_catalog.pg_index x
    JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
WHERE x.indrelid = ANY (%(tables)s) AND NOT (x.indisvalid AND x.indisready AND x.indislive)
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index p
        WHERE p.datname = pg_catalog.current_database() AND coalesce(p.index_relid, 0) IN (0, i.oid))
ORDER BY 1, 2
"""
"""Indexes that no query uses, but for one that is being built at this moment."""

UNCHECKED: Final = """
SELECT c.relname::text, k.conname::text FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
WHERE k.contype = 'f' AND NOT k.convalidated
    AND (k.conrelid = ANY (%(tables)s) OR k.confrelid = ANY (%(tables)s))
ORDER BY 1, 2
"""

TURNED_OFF: Final = """
SELECT c.relname::text, count(DISTINCT t.tgconstraint) FROM pg_catalog.pg_trigger t
    JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
WHERE t.tgrelid = ANY (%(tables)s) AND t.tgisinternal AND t.tgconstraint <> 0 AND t.tgenabled IN ('D', 'R')
GROUP BY 1 ORDER BY 1
"""

PREPARED: Final = """
SELECT count(*), coalesce(max(extract(epoch FROM pg_catalog.clock_timestamp() - p.prepared)), 0)::bigint
FROM pg_catalog.pg_prepared_xacts p
WHERE p.database = pg_catalog.current_database()
    AND p.prepared < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %(seconds)s)
    AND EXISTS (SELECT 1 FROM pg_catalog.pg_locks own JOIN pg_catalog.pg_locks held
            ON held.virtualtransaction = own.virtualtransaction AND held.pid IS NULL
        WHERE own.pid IS NULL AND own.transactionid = p.transaction AND held.relation = ANY (%(tables)s))
"""
"""Prepared transactions have no process; the lock on its own number leads from each to its other locks."""

AMCHECK: Final = """
SELECT n.nspname::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_function_privilege(f.oid, 'EXECUTE')
FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
    JOIN pg_catalog.pg_proc f ON f.pronamespace = n.oid AND f.proname = 'bt_index_check' AND f.pronargs = 1
WHERE e.extname = 'amcheck'
"""

BTREES: Final = """
SELECT x.indexrelid, c.relname::text, i.relname::text FROM pg_catalog.pg_index x
    JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
    JOIN pg_catalog.pg_am m ON m.oid = i.relam
WHERE x.indrelid = ANY (%(tables)s) AND x.indisvalid AND x.indisready AND m.amname = 'btree'
    AND i.relkind = 'i' AND i.relpersistence <> 't'
ORDER BY 2, 3
"""


def problems(driver: psycopg.Connection[Any], tables: Sequence[int]) -> Iterator[str]:
    """Yield a sentence for each fault of these tables. Raises `StoreFailure`."""
    known = {"tables": list(tables), "seconds": PREPARED_SECONDS}

    def asked(statement: str) -> list[Any]:
        with classified():
            return driver.execute(statement.encode(), known).fetchall()

    for table, index in asked(INVALID):
        yield (
            f"indexes: {index} of {table} is not valid, as an interrupted CREATE INDEX CONCURRENTLY leaves "
            "it: it serves no query, and writes keep it up; its owner should DROP INDEX it and build it again"
        )
    for table, name in asked(UNCHECKED):
        yield (
            f"foreign keys: {name} of {table} is NOT VALID, so older rows may refer to rows that are gone: "
            "ALTER TABLE VALIDATE CONSTRAINT checks them"
        )
    for table, count in asked(TURNED_OFF):
        yield (
            f"foreign keys: {count} of {table} are not enforced, as their triggers are turned off: "
            "ALTER TABLE ENABLE TRIGGER ALL turns them on"
        )
    for count, age in asked(PREPARED):
        if count:
            yield (
                f"interrupted work: {count} prepared transactions hold locks on tables of this store, the "
                f"oldest for {age:,} s: whoever prepared them should COMMIT PREPARED or ROLLBACK PREPARED"
            )
    yield from _damaged(driver, asked(AMCHECK), asked(BTREES))


def _damaged(
    driver: psycopg.Connection[Any], amcheck: Sequence[Any], indexes: Sequence[Any]
) -> Iterator[str]:
    """Check the order of B-trees where the extension for it is there and this role may use it."""
    if not amcheck or not amcheck[0][1]:
        return
    check = sql.SQL("SELECT {}({{}}::regclass)").format(sql.Identifier(amcheck[0][0], "bt_index_check"))
    for oid, table, index in indexes:
        try:
            with classified():
                driver.execute(sql.SQL(check.as_string(driver)).format(oid))
        except UnitFailure:  # locked or cancelled: nothing is known of it
            continue
        except StoreFailure as error:
            if error.kind != "corrupt":
                raise
            yield f"integrity: the index {index} of {table} is damaged: its owner should REINDEX it"
