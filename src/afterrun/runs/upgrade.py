"""Make a store's tables, or bring them to the newest revision: in one transaction, while no run is held."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.times import iso
from afterrun.runs.columns import Number
from afterrun.runs.database import Database, Transaction
from afterrun.runs.errors import SchemaTooNew, UpgradeNeeded, UpgradeRefused
from afterrun.runs.side_tables import metadata

NEWEST: Final = "0005"
REVISIONS: Final = ("0001", "0002", "0003", "0004", NEWEST)
"""All revisions, oldest first. A test holds them against the files."""

VERSION_TABLE: Final = "afterrun_version"
"""A name of our own: the application that shares the file may use Alembic itself."""

MIGRATIONS: Final = "afterrun.runs:migrations"
LOCK: Final = 0x61667465_7272756E
"""Key of the lock that lets one process upgrade at a time on a server: the letters of our name."""

ONE_AT_A_TIME: Final = threading.Lock()
"""Alembic hands its revisions what they work on through the module that they import."""

SIDE: Final = ("messages", "turns", "follow_ups", "managed_resources", "checkpoints", "effects", "receipts")
CHANGED: Final = {"0002": ("generations", "steps", "attempts"), "0003": SIDE, "0004": ("blobs",)}
"""Tables that a revision reads or rewrites as a whole."""

known = sa.MetaData()
"""What is the same in every revision; tables of the newest schema may not be there yet."""

version = sa.Table(VERSION_TABLE, known, sa.Column("version_num", sa.Text()))
leases = sa.Table("leases", known, sa.Column("until", Number), sa.Column("released_at", Number))
for name in {name for names in CHANGED.values() for name in names}:
    sa.Table(name, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What an upgrade did, or would do.

    ``before`` is the revision that the store had, or ``None`` for a new one. ``rows`` are those that are read
    or rewritten. ``notes`` tell what it could not find out.
    """

    before: str | None
    after: str
    rows: int
    notes: tuple[str, ...] = ()


def pending(database: Database) -> Upgrade | None:
    """Return what an upgrade would do, and nothing if the store is up to date. Raises `SchemaTooNew`."""
    if not database.dialect.is_there():
        return Upgrade(before=None, after=NEWEST, rows=0)
    with database.reading() as transaction:
        return _pending(transaction)


def make_ready(database: Database, *, migrate: bool) -> Upgrade | None:
    """Bring a store to the newest revision, or refuse to work with it.

    Returns what was done. Raises `SchemaTooNew`, `UpgradeNeeded` without ``migrate``, and `UpgradeRefused`.
    """
    wanted = pending(database)
    if wanted is None:
        return None
    if not migrate:
        raise UpgradeNeeded(_needed(wanted))
    with database.writing() as transaction:
        transaction.dialect.hold_upgrades(transaction.connection, LOCK)
        wanted = _pending(transaction)  # another process may have been first
        if wanted is None:
            return None
        if wanted.before is None:
            _refuse_strangers(transaction)
        else:
            refuse_while_leased(transaction)
        notes = _migrate(transaction, NEWEST)
        return Upgrade(before=wanted.before, after=wanted.after, rows=wanted.rows, notes=tuple(notes))


def _needed(wanted: Upgrade) -> str:
    if wanted.before is None:
        return "there is no run store yet: open it with migrate=True to make its tables"
    return (
        f"the run store has schema {wanted.before} and this version works with {wanted.after}: open it with "
        f"migrate=True while no run is held, which reads or rewrites {wanted.rows} rows in one transaction"
    )


def _pending(transaction: Transaction) -> Upgrade | None:
    before = _revision(transaction)
    if before == NEWEST:
        return None
    if before is not None and before not in REVISIONS:
        raise SchemaTooNew(
            f"the run store has schema {before[:40]}, and this version knows only up to {NEWEST}: "
            "a newer one upgraded it, so use that one; nothing was changed"
        )
    steps = REVISIONS[0 if before is None else REVISIONS.index(before) + 1 :]
    tables = {name for step in steps for name in CHANGED.get(step, ())} if before else set()
    rows = sum(
        transaction.value(sa.select(sa.func.count()).select_from(known.tables[name])) for name in tables
    )
    return Upgrade(before=before, after=NEWEST, rows=rows)


def _revision(transaction: Transaction) -> str | None:
    inspector = sa.inspect(transaction.connection)
    if not inspector.has_table(VERSION_TABLE, schema=transaction.dialect.schema):
        return None
    found: str | None = transaction.value(sa.select(version.c.version_num))
    return found


def _refuse_strangers(transaction: Transaction) -> None:
    """Refuse to make tables where another application has some of the same name."""
    found = sa.inspect(transaction.connection).get_table_names(schema=transaction.dialect.schema)
    taken = sorted(metadata.tables.keys() & set(found))
    if taken:
        raise UpgradeRefused(
            f"another application keeps tables there that are called as ours ({', '.join(taken)}): give the "
            "run store a file or a schema of its own"
        )


def refuse_while_leased(transaction: Transaction) -> None:
    """Refuse to rewrite a store while runners are at work. Raises `UpgradeRefused`."""
    held = sa.and_(leases.c.released_at.is_(None), leases.c.until > transaction.now)
    count = transaction.value(sa.select(sa.func.count()).select_from(leases).where(held))
    if count:
        until = transaction.value(sa.select(sa.func.max(leases.c.until)).where(held))
        raise UpgradeRefused(
            f"the run store is not upgraded while runs are held: {count} leases are live, the last of them "
            f"until {iso(until)} if it is not renewed; stop the runners, then open the store again"
        )


def _migrate(transaction: Transaction, target: str) -> list[str]:
    """Run the revisions on this transaction's connection; return what they have to tell."""
    from alembic.config import Config  # noqa: PLC0415 - takes longer to import than a store to open
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415 - the same
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - the same

    notes: list[str] = []
    schema = transaction.dialect.schema
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    config.attributes.update(
        schema=schema, now=transaction.now, notes=notes, no_bytes=transaction.dialect.no_bytes
    )
    scripts = ScriptDirectory.from_config(config)

    def revisions(before: Any, _: object) -> Any:  # noqa: ANN401 - Alembic's own
        return scripts._upgrade_revs(target, before)  # noqa: SLF001 - as its own command does

    transaction.dialect.make_schema(transaction.connection)
    with ONE_AT_A_TIME, EnvironmentContext(config, scripts, fn=revisions, destination_rev=target) as context:
        context.configure(
            connection=transaction.connection, version_table=VERSION_TABLE, version_table_schema=schema
        )
        with context.begin_transaction():
            context.run_migrations()
    return notes


def upgrade_to(database: Database, target: str) -> list[str]:
    """Bring a new store to an older revision, as an older version of afterrun left it; for tests."""
    with database.writing() as transaction:
        return _migrate(transaction, target)
