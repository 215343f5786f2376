"""Plain VACUUM of the tables that removals touch, one after the other, between which it can be stopped.

Never VACUUM FULL: it would lock an engine's table for as long as it takes to write all of it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.errors import Diagnostic

from afterrun.core.errors import MESSAGE_LIMIT, Refused, UnitFailure
from afterrun.core.schema_space import SchemaSpace, StoredTable
from afterrun.core.space import GivenBack
from afterrun.stores.sql.postgres.errors import classified
from afterrun.stores.sql.postgres.schema import Reflected
from afterrun.stores.sql.postgres.space import (
    MAINTAINS,
    barred,
    holders,
    is_standby,
    measure,
    rights_to_vacuum,
)
from afterrun.stores.sql.postgres.tables import Catalogued, catalogued

LOCK_MS: Final = 500
"""Wait for a table's lock: less than the second after which the server ends an autovacuum for our sake."""

GENTLE_MS: Final = 2
"""Pause of a VACUUM beside an engine, after each 200 points of cost, as autovacuum makes it."""

PINNED_SHARE: Final = 0.10
"""Part of the dead rows from which a VACUUM that had to leave them was in vain."""

WHY_LEFT: Final = {
    "lock": "another session holds a lock on it (an autovacuum, another VACUUM or a change of its schema)",
    "timeout": "somebody cancelled it on the server",
}


def give_back(
    driver: psycopg.Connection[Any],
    reflected: Reflected,
    tables: Sequence[str],
    *,
    gate: Callable[[], bool],
    rest: float,
) -> GivenBack:
    """Run a plain VACUUM (ANALYZE) of each table that may need one, and stop between two if the gate closes.

    Without a ``rest`` it runs at full speed, else as gently as autovacuum. Raises `Refused` where nothing may
    be vacuumed at all, and `StoreFailure`.
    """
    before = measure(driver, reflected, tables)
    wanted = [table for table in before.tables if table.stale]
    notices = _kept_out(driver, reflected, wanted)
    with _settings(driver, gentle=rest > 0):
        for table in wanted:
            if not gate():
                return GivenBack(ended="interrupted", notices=tuple(notices))
            if table.may_vacuum:
                notices += _vacuum(driver, reflected, table.name)
    return _outcome(driver, reflected, before, notices=notices)


def _kept_out(
    driver: psycopg.Connection[Any], reflected: Reflected, wanted: Sequence[StoredTable]
) -> list[str]:
    """Return a sentence on tables that this role may not vacuum. Raises `Refused` if none is left."""
    sentences = list(barred(rights_to_vacuum(driver, reflected, [table.name for table in wanted])))
    if wanted and is_standby(driver):
        raise Refused("standby", "this server is a standby, which cannot vacuum: run it on the primary")
    if wanted and not any(table.may_vacuum for table in wanted):
        raise Refused("rights", "; ".join(sentences))
    return sentences


def _outcome(
    driver: psycopg.Connection[Any], reflected: Reflected, before: SchemaSpace, *, notices: Sequence[str]
) -> GivenBack:
    """Say how it ended, by the server's own record of what was vacuumed and how many dead rows are left.

    It was in vain where a snapshot from before is still held and most dead rows had to stay.
    """
    wanted = [table for table in before.tables if table.stale]
    after = catalogued(driver, reflected, [table.name for table in wanted])
    left = [table.name for table in wanted if table.name in after and not _passed(table, after[table.name])]
    if left:
        return GivenBack(
            ended="partial", message=f"left as they are: {', '.join(left)}", notices=tuple(notices)
        )
    remain = sum(table.dead for table in after.values())
    then = {holder.identity for holder in before.holders}
    held = [holder for holder in holders(driver) if holder.identity in then]
    if held and remain > PINNED_SHARE * before.dead:
        message = (
            f"it was done, but {remain:,} dead rows had to stay for {held[0].words()}: they can go when that "
            "has ended and the reclaim is run again"
        )
        return GivenBack(ended="pinned", message=message, notices=tuple(notices))
    return GivenBack(ended="completed", notices=tuple(notices))


def _passed(before: StoredTable, after: Catalogued) -> bool:
    return after.last_vacuum is not None and after.last_vacuum != before.last_vacuum


def _vacuum(driver: psycopg.Connection[Any], reflected: Reflected, name: str) -> list[str]:
    """Vacuum one table; return what the server warned of, or why the table was left as it is."""
    said: list[str] = []

    def note(diagnosis: Diagnostic) -> None:
        if diagnosis.severity_nonlocalized == "WARNING":
            said.append(f"PostgreSQL warned: {diagnosis.message_primary}"[:MESSAGE_LIMIT])

    statement = sql.SQL("VACUUM (ANALYZE, PARALLEL 0) {}").format(sql.Identifier(*reflected.places[name]))
    driver.add_notice_handler(note)
    try:
        with classified():
            driver.execute(statement)
    except UnitFailure as error:
        said.append(f"{name}: {WHY_LEFT.get(error.kind, str(error))}; run it again later")
    finally:
        driver.remove_notice_handler(note)
    return said


@contextmanager
def _settings(driver: psycopg.Connection[Any], *, gentle: bool) -> Iterator[None]:
    """Let a VACUUM take its time but wait for no lock, and put the session's settings back afterwards."""
    wanted = {
        "statement_timeout": "0",
        "lock_timeout": f"{LOCK_MS}ms",
        "client_min_messages": "warning",
        "vacuum_cost_delay": f"{GENTLE_MS if gentle else 0}ms",
    }
    if driver.info.server_version >= MAINTAINS:
        wanted["transaction_timeout"] = "0"
    before = {name: _setting(driver, name) for name in wanted}
    _set(driver, wanted)
    try:
        yield
    finally:
        with suppress(psycopg.Error):  # of a connection that is gone
            _set(driver, before)


def _setting(driver: psycopg.Connection[Any], name: str) -> str:
    with classified():
        row = driver.execute("SELECT pg_catalog.current_setting(%s)", (name,)).fetchone()
    return str(row[0]) if row else ""


def _set(driver: psycopg.Connection[Any], values: Mapping[str, str]) -> None:
    for name, value in values.items():
        driver.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
