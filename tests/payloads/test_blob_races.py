"""A writer stores a blob and its reference in one transaction, onto a candidate at that very moment."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun import Report, Retention, SweepOptions
from afterrun.stores.sql.blob_table import BlobTable
from payloads.blob_kit import (
    HEAD,
    MONTH,
    NOW_MS,
    PostgresShop,
    Session,
    Shop,
    SqliteShop,
    add_blobs,
    add_runs,
    between,
    dangling,
    execute,
    left,
    opened,
    refer,
)
from pg_server import Database

CHECK = "^DELETE FROM .*blobs"
"""The statement that checks and removes."""

LOCK = "blobs.*FOR UPDATE"
LAST_ROWS = "^DELETE FROM .*runs"

Write = Callable[[Session], None]


def by_update(session: Session) -> None:
    """Store the blob again in a way that locks its row where it is there already."""
    session.run(
        "INSERT INTO blobs VALUES ('x', ?, 10, ?)"
        " ON CONFLICT (digest) DO UPDATE SET stored = excluded.stored",
        b"0123456789",
        NOW_MS,
    )
    session.run("INSERT INTO steps (run, output) VALUES ('live', 'x')")


def by_share(session: Session) -> None:
    """Store the blob unless it is there, and keep it there; if it went in between, again."""
    while True:
        session.run(
            "INSERT INTO blobs VALUES ('x', ?, 10, ?) ON CONFLICT (digest) DO NOTHING", b"0123456789", NOW_MS
        )
        if session.run("SELECT digest FROM blobs WHERE digest = 'x' FOR KEY SHARE"):
            break
    session.run("INSERT INTO steps (run, output) VALUES ('live', 'x')")


WRITES = [by_update, by_share]


def stocked(shop: Shop) -> Shop:
    """Let an expired run be the last to refer to a blob, beside a live one."""
    add_runs(shop, "old")
    add_runs(shop, "live", live=True)
    add_blobs(shop, "x", "y")
    refer(shop, ("old", "x"), ("old", "y"))
    return shop


@pytest.fixture
def postgres_shop(database: Database, tmp_path: Path) -> Shop:
    """Give a stocked PostgreSQL store."""
    return stocked(PostgresShop(database, tmp_path))


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    """Give a stocked SQLite store."""
    return stocked(SqliteShop(tmp_path))


def committed(shop: Shop, write: Write) -> None:
    """Write in a transaction of its own."""
    with closing(shop.connect()) as session:
        session.run("BEGIN")
        write(session)
        session.run("COMMIT")


def remove(retention: Retention, **options: Any) -> Report:  # noqa: ANN401 - as `SweepOptions` has them
    """Run a manual apply to its end."""
    report = retention.prune(MONTH, options=SweepOptions(**options))
    assert report.ended == "completed", report.message
    assert report.units.removed == 1
    return report


class Waiter:
    """A writer in a thread of its own, which must wait for the lock of a row."""

    def __init__(self, shop: Shop, write: Write) -> None:
        """Connect; nothing is written yet."""
        self._shop = shop
        self._write = write
        self._session = shop.connect()
        self._pid = self._session.run("SELECT pg_backend_pid()")[0][0]
        self._thread = threading.Thread(target=self._run)
        self.failed: list[BaseException] = []

    def _run(self) -> None:
        try:
            self._session.run("BEGIN")
            self._write(self._session)
            self._session.run("COMMIT")
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failed.append(error)

    def start(self) -> None:
        """Begin to write, and return once the server says that it waits for another transaction."""
        self._thread.start()
        with closing(self._shop.connect()) as other:
            while not other.run("SELECT pg_blocking_pids(?) <> '{}'", self._pid)[0][0]:
                assert self._thread.is_alive(), self.failed or "it did not wait"

    def end(self) -> None:
        """Wait until it is done."""
        self._thread.join(30)
        self._session.close()
        assert not self.failed


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_blob_that_is_stored_again_before_its_lock_stays(
    postgres_shop: Shop, write: Write, moment: str
) -> None:
    """Committed as the last rows go, or between their commit and the lock: the check sees the reference."""
    pattern = LAST_ROWS if moment == "after" else LOCK
    with (
        opened(postgres_shop) as retention,
        between(retention.store, moment, pattern, lambda: committed(postgres_shop, write)) as acted,
    ):
        report = remove(retention)
    assert acted
    assert report.blobs.count == 1
    assert (left(postgres_shop), dangling(postgres_shop)) == (["x"], [])


@pytest.mark.parametrize("write", WRITES)
def test_a_blob_that_a_writer_holds_is_passed_by_without_waiting(postgres_shop: Shop, write: Write) -> None:
    """Its transaction is open when the candidates are locked, and commits later."""
    with closing(postgres_shop.connect()) as session, opened(postgres_shop) as retention:
        session.run("BEGIN")
        write(session)
        with between(retention.store, "after", CHECK, lambda: session.run("COMMIT")) as acted:
            report = remove(retention)
        assert acted
    assert report.blobs.count == 1
    assert (left(postgres_shop), dangling(postgres_shop)) == (["x"], [])


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_writer_that_comes_after_the_lock_waits_and_stores_the_blob_anew(
    postgres_shop: Shop, write: Write, moment: str
) -> None:
    """Before or after the check, it finds the blob gone once the removal is committed."""
    waiter = Waiter(postgres_shop, write)
    with opened(postgres_shop) as retention:
        with between(retention.store, moment, CHECK, waiter.start) as acted:
            report = remove(retention)
        waiter.end()
    assert acted
    assert report.blobs.count == 2
    assert (left(postgres_shop), dangling(postgres_shop)) == (["x"], [])


def test_without_the_lock_in_a_statement_before_the_check_a_reference_would_dangle(
    postgres_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check waits for the writer and then does not look again: so the lock comes first."""
    _forget_the_lock(monkeypatch)
    session = postgres_shop.connect()
    pid: list[int] = []
    committing = threading.Thread(target=lambda: _commit_once_waited_for(postgres_shop, session, pid))
    with opened(postgres_shop) as retention:
        driver = retention.store.dialect.driver  # type: ignore[attr-defined]
        driver.execute("SET lock_timeout = '60s'")  # on a busy machine the writer may be slow to commit
        pid.append(driver.info.backend_pid)
        session.run("BEGIN")
        by_update(session)
        with between(retention.store, "before", CHECK, committing.start) as acted:
            remove(retention)
        committing.join(30)
        session.close()
    assert acted
    assert dangling(postgres_shop) == ["x"]


def _forget_the_lock(patch: pytest.MonkeyPatch) -> None:
    plain = BlobTable.__init__

    def unlocked(self: BlobTable, *arguments: Any) -> None:  # noqa: ANN401 - passed on
        plain(self, *arguments)
        self._lock = sa.select(self.key).where(self._among)

    patch.setattr(BlobTable, "__init__", unlocked)


def _commit_once_waited_for(shop: Shop, session: Session, pid: list[int]) -> None:
    with closing(shop.connect()) as other:
        while not other.run("SELECT pg_blocking_pids(?) <> '{}'", pid[0])[0][0]:
            pass
    session.run("COMMIT")


def test_a_table_that_was_added_during_a_sweep_keeps_its_blobs_by_its_foreign_key(
    postgres_shop: Shop,
) -> None:
    """The server refuses the removal, and all other blobs go."""

    def add() -> None:
        execute(
            postgres_shop,
            "CREATE TABLE later (id integer PRIMARY KEY, body text REFERENCES blobs (digest));"
            "CREATE INDEX later_body ON later (body);"
            "INSERT INTO later VALUES (1, 'x')",
        )

    with opened(postgres_shop) as retention, between(retention.store, "after", LAST_ROWS, add) as acted:
        report = remove(retention)
    assert acted
    assert report.blobs.count == 1
    assert "1 blobs could not be removed (constraint) and stay" in report.notices
    assert left(postgres_shop) == ["x"]


def test_a_lease_that_is_renewed_meanwhile_holds_its_blob(postgres_shop: Shop) -> None:
    """A pin that was over is renewed between two statements; the next one sees it."""
    execute(postgres_shop, "INSERT INTO pins VALUES ('x', ?)", (NOW_MS,))

    def renew() -> None:
        execute(postgres_shop, "UPDATE pins SET lease = ?", (NOW_MS + 1,))

    with opened(postgres_shop) as retention:
        with between(retention.store, "before", "^DELETE FROM .*pins", renew) as acted:
            report = remove(retention)
        assert acted
        assert report.blobs.count == 1
    assert left(postgres_shop) == ["x"]


# SQLite: one writer at a time


def test_a_writer_that_was_first_is_waited_for_and_seen(sqlite_shop: Shop) -> None:
    """It holds the write lock when the blobs are to go; once it commits, the check sees its reference."""
    session = sqlite_shop.connect()
    looks: list[str] = []

    def halt() -> bool:
        if session_holds and len(looks) < 2:
            looks.append("waited")
            if len(looks) == 2:
                session.run("COMMIT")
        return False

    session_holds: list[bool] = []
    with opened(sqlite_shop) as retention, _before_blobs(retention) as act:

        def begin() -> None:
            session.run("BEGIN IMMEDIATE")
            by_update(session)
            session_holds.append(True)

        act.append(begin)
        report = remove(retention, halt=halt)
    session.close()
    assert looks == ["waited", "waited"]
    assert report.blobs.count == 1
    assert (left(sqlite_shop), dangling(sqlite_shop)) == (["x"], [])


@contextmanager
def _before_blobs(retention: Retention) -> Iterator[list[Callable[[], None]]]:
    """Act between the commit of the rows and the transaction that removes blobs."""
    blobs = retention.store.blobs
    assert blobs is not None
    plain, acts = blobs.remove, list[Callable[[], None]]()

    def remove_blobs(*arguments: Any, **words: Any) -> Any:  # noqa: ANN401 - passed on
        while acts:
            acts.pop()()
        return plain(*arguments, **words)

    blobs.remove = remove_blobs  # type: ignore[method-assign]
    yield acts
    assert not acts


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_writer_that_comes_later_finds_the_file_locked_and_stores_the_blob_anew(
    sqlite_shop: Shop, moment: str
) -> None:
    """While the blobs go it cannot write, before the check or after; then it stores both."""
    refused: list[str] = []

    def write() -> None:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            committed_immediately(sqlite_shop)
        refused.append("locked")

    with opened(sqlite_shop) as retention, between(retention.store, moment, CHECK, write):
        report = remove(retention)
    assert refused == ["locked"]
    assert report.blobs.count == 2
    committed_immediately(sqlite_shop)
    assert (left(sqlite_shop), dangling(sqlite_shop)) == (["x"], [])


def committed_immediately(shop: Shop) -> None:
    """Write as SQLite's writers should: with the lock from the beginning."""
    with closing(shop.connect()) as session:
        session.run("BEGIN IMMEDIATE")
        by_update(session)
        session.run("COMMIT")


def test_a_writer_between_the_two_commits_keeps_the_blob(sqlite_shop: Shop) -> None:
    """The rows are gone and the blob is a candidate: it finds it stored, refers to it, and it stays."""
    with opened(sqlite_shop) as retention, _before_blobs(retention) as act:
        act.append(lambda: committed_immediately(sqlite_shop))
        report = remove(retention)
    assert report.blobs.count == 1
    assert (left(sqlite_shop), dangling(sqlite_shop)) == (["x"], [])


def test_a_role_that_may_not_lock_blobs_is_told_what_to_grant(
    database: Database, role: str, tmp_path: Path
) -> None:
    """Removal takes locks on blobs, for which PostgreSQL wants the right to update."""
    shop = stocked(PostgresShop(database, tmp_path))
    shop.profile.write_text(
        HEAD
        + '[[blobs]]\ntable = "blobs"\nkey = "digest"\n'
        + 'references = [{ table = "steps", column = "output" }]\n',
        encoding="utf-8",
    )
    with database.connect() as connection:
        connection.execute(f'GRANT USAGE ON SCHEMA own TO "{role}"'.encode())
        connection.execute(f'GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA own TO "{role}"'.encode())
        connection.execute(f'GRANT UPDATE ON own.runs TO "{role}"'.encode())
    url = database.server.url(database.name, user=role, schema="own")
    with Retention(url, profile=str(shop.profile), state=tmp_path / "other") as retention:
        problems = retention.store.schema().problems
    assert len(problems) == 1
    assert "this role may not lock rows of own.blobs" in problems[0]
