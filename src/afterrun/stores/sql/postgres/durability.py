"""When what was committed is on the disk: batch by batch, or once at the end of a sweep.

A batch that is lost in a crash of the server comes back whole, and the next sweep removes it again. So none
need wait for the disk, as long as nobody is told before all of them are there; and whoever writes beside the
sweep does not wait behind its flushes.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from afterrun.stores.sql.postgres.errors import classified

LATER: Final = b"SET LOCAL synchronous_commit = off"

MAY_MARK: Final = """
    SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) FROM pg_catalog.pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.proname = 'pg_logical_emit_message'
"""
"""Whether this role may write to the log alone; its parameters are not the same in all versions.

A transaction that writes nothing waits for nothing."""


def can_wait_later(driver: psycopg.Connection[Any]) -> bool:
    """Say whether this role may use what `wait` needs."""
    with classified():
        row = driver.execute(MAY_MARK).fetchone()
    return bool(row and row[0])


def wait(driver: psycopg.Connection[Any]) -> None:
    """Return once all that this session committed is on the disk, as far as the server waits for that.

    A role or database whose commits never wait for the disk is its administrator's choice. Raises
    `StoreFailure`.
    """
    with classified():
        driver.execute("SELECT pg_catalog.pg_logical_emit_message(true, 'afterrun', '')")
