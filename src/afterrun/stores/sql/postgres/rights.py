"""What a role may do with the tables of a PostgreSQL store, and what its server lets nobody do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import psycopg

from afterrun.core.errors import Refused
from afterrun.stores.sql.postgres.actions import owners_lack, triggers_lack

RIGHTS: Final = """
SELECT c.oid, pg_catalog.format('%%I', n.nspname), pg_catalog.format('%%I.%%I', n.nspname, c.relname),
    pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
    pg_catalog.has_table_privilege(c.oid, 'SELECT'), pg_catalog.has_table_privilege(c.oid, 'DELETE'),
    pg_catalog.has_any_column_privilege(c.oid, 'UPDATE'), pg_catalog.row_security_active(c.oid),
    EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        JOIN pg_catalog.pg_roles o ON o.oid IN (p.proowner, c.relowner)
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND (t.tgtype & 24) <> 0
            AND NOT o.rolsuper)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(tables)s) ORDER BY 2, 3
"""

SESSION: Final = """
SELECT pg_catalog.format('%I', current_user), r.rolsuper, pg_catalog.pg_is_in_recovery(),
    pg_catalog.current_setting('session_replication_role') = 'origin'
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""


class Rights(NamedTuple):
    """What this role may do with one table. Names are quoted as SQL wants them."""

    oid: int
    space: str
    table: str
    may_enter: bool
    may_read: bool
    may_delete: bool
    may_lock: bool
    hides_rows: bool
    foreign_trigger: bool


class Session(NamedTuple):
    """Who and where we are. The role's name is quoted as SQL wants it."""

    role: str
    superuser: bool
    standby: bool
    checks_keys: bool


UNKNOWN: Final = Session("CURRENT_USER", superuser=True, standby=True, checks_keys=False)


def is_read_only(driver: psycopg.Connection[Any]) -> bool:
    """Say whether this session's transactions are read-only, as somebody has set it."""
    row = driver.execute("SELECT pg_catalog.current_setting('transaction_read_only') = 'on'").fetchone()
    return row is None or bool(row[0])


def check_reading(driver: psycopg.Connection[Any], tables: Sequence[int]) -> None:
    """Make sure that all rows of these tables are seen. Raises `Refused` with what to grant."""
    found, role = _rights(driver, tables), _session(driver).role
    spaces = ", ".join(sorted({rights.space for rights in found if not rights.may_enter}))
    if spaces:
        raise Refused(
            "rights", f"this role may not use the schema {spaces}: GRANT USAGE ON SCHEMA {spaces} TO {role}"
        )
    unread = _names(rights for rights in found if not rights.may_read)
    if unread:
        raise Refused("rights", f"this role may not read {unread}: GRANT SELECT ON {unread} TO {role}")
    hidden = _names(rights for rights in found if rights.hides_rows)
    if hidden:
        raise Refused(
            "rights",
            f"row-level security hides rows of {hidden} from this role, so what is there cannot be judged: "
            "connect as the tables' owner, or as a role with BYPASSRLS",
        )


def obstacles(
    driver: psycopg.Connection[Any],
    *,
    removed: Sequence[int],
    locked: int | None,
    emptied: Sequence[tuple[int, str]],
    read_only: bool,
) -> Iterator[str]:
    """Yield why nothing may be removed through this connection.

    ``emptied`` are columns of rows that stay and lose their link to what goes.
    """
    role, superuser, standby, checks_keys = _session(driver)
    if not checks_keys:
        yield (
            "foreign keys and triggers are turned off in this session, by session_replication_role of the "
            "role, the database or the server: connect as a role for which it is origin"
        )
    if standby:
        yield "this server is a standby, which only reads: plan and inspect work here, removal on the primary"
    elif read_only:
        yield (
            "transactions of this session are read-only, by default_transaction_read_only of the role, the "
            "database or the server: plan and inspect work, removal needs a role that may write"
        )
    found = _rights(driver, [*removed, *([] if locked is None else [locked])])
    kept = _names(rights for rights in found if not rights.may_delete)
    if kept:
        yield f"this role may not remove rows: GRANT DELETE ON {kept} TO {role}"
    for rights in found:
        if rights.oid == locked and not rights.may_lock:
            yield (
                f"this role may not lock rows of {rights.table}: GRANT UPDATE (COLUMN) ON {rights.table} TO "
                f"{role}, where any one column will do"
            )
    yield from owners_lack(driver, removed)
    yield from triggers_lack(driver, removed, emptied=emptied, role=role)
    foreign = _names(rights for rights in found if rights.foreign_trigger)
    if superuser and foreign:
        yield (
            f"{foreign} has a trigger that a superuser would run with all rights, and its owner is none: "
            "connect as the owner of the tables, or as a role with SELECT and DELETE on them"
        )


def _rights(driver: psycopg.Connection[Any], tables: Sequence[int]) -> Sequence[Rights]:
    return [Rights(*row) for row in driver.execute(RIGHTS, {"tables": list(tables)}).fetchall()]


def _session(driver: psycopg.Connection[Any]) -> Session:
    row = driver.execute(SESSION).fetchone()
    return Session(*row) if row else UNKNOWN


def _names(found: Iterator[Rights]) -> str:
    return ", ".join(rights.table for rights in found)
