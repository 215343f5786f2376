"""A throwaway PostgreSQL server, its databases and its roles.

All of a server is in one temporary folder, which goes with it. It listens on a Unix socket in the folder and
on a free port of the loopback address, and lets nobody in without a password.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import psycopg
import sqlalchemy as sa
from psycopg import sql

from pg_binaries import Binaries, choose, server_user
from pg_keeper import start_keeper

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

SUPERUSER = "postgres"
OWNER = "app"
"""An ordinary role that owns the databases, as an engine's does."""

START_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.01
PORT_ATTEMPTS = 5
NO_PORT = "could not create any TCP/IP sockets"
AWKWARD = "p:/@%?#& '\\é"
"""Part of every password, so that whoever forgets to quote one finds out."""

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "max_prepared_transactions": "10",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "autovacuum": "off",
    "timezone": "Asia/Kathmandu",
    "datestyle": "SQL, DMY",
    "log_line_prefix": "%m [%p] %q%u@%d %a ",
}
"""Of every server. Time zone and date style are odd on purpose: nothing may depend on them."""

EXTENSION_PATH_SINCE = 18
STAND_IN = {
    "uuid-ossp.control": "default_version = '1.1'\ntrusted = true\nrelocatable = true\n",
    "uuid-ossp--1.1.sql": (
        "CREATE FUNCTION uuid_generate_v4() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()';\n"
    ),
}
"""The wheel lacks an extension that DBOS 2 asks for, though it calls none of its functions."""

VOLATILE: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Of a server that need not survive a power failure."""


@dataclass(frozen=True, slots=True)
class Database:
    """One database of a server."""

    server: Server
    name: str

    def url(self, user: str = OWNER, *, over: Literal["tcp", "socket"] = "tcp", **query: str) -> str:
        """Return its URL for a role, password included; ``query`` adds parameters."""
        return self.server.url(self.name, user=user, over=over, **query)

    def connect(self, user: str = OWNER, *, autocommit: bool = True) -> Connection:
        """Connect as a role."""
        return self.server.connect(self.name, user=user, autocommit=autocommit)

    def run(self, script: str, *, user: str = OWNER) -> None:
        """Run SQL without parameters, any number of statements, in one transaction."""
        with self.connect(user) as connection:
            connection.execute(script.encode())

    def rows(self, statement: str, *values: object, user: str = OWNER) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, which has a ``%s`` for each value."""
        with self.connect(user) as connection:
            return connection.execute(statement.encode(), values or None).fetchall()

    def refill(self, template: str | None) -> None:
        """Make the database anew, as a copy of another one or empty; whoever is connected is thrown out."""
        self.server.drop_database(self.name)
        self.server.create_database(self.name, template=template)


class Server:
    """A PostgreSQL server that runs from the start. Use it in a `with` statement, or call `close`."""

    def __init__(
        self,
        binaries: Binaries | None = None,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        follows: Server | None = None,
    ) -> None:
        """Make a server and start it.

        ``durable``: writes reach the disk, as measurements want it. ``settings`` override all others.
        ``follows``: make a hot standby of another server.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="afterrun-pg-"))
        self._keeper = start_keeper(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._templates: dict[str, str] = {}
        self._names = 0
        self.port = 0
        self.passwords: dict[str, str] = follows.passwords if follows else {SUPERUSER: new_password()}
        try:
            self._prepare_folders()
            self.binaries = (binaries or choose()).readable_in(self.folder)
            if follows is None:
                self._initialize()
            else:
                self._copy(follows)
            self.configure({**SETTINGS, **({} if durable else VOLATILE), **self._extensions()})
            self.configure(settings or {})
            self.start()
            if follows is None:
                self.create_role(OWNER, "CREATEDB")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The process

    @property
    def home(self) -> Path:
        """The folder of the Unix socket."""
        return self.folder / "home"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The file of what the server has to say."""
        return self.folder / "log"

    @property
    def pid(self) -> int:
        """The server's process id. Raises `RuntimeError` when it does not run."""
        if self._process is None:
            raise RuntimeError("the server is stopped")
        return self._process.pid

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings of the whole server; they count from its next start, or after `reload`."""
        lines = (f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items())
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def reload(self) -> None:
        """Make the running server read its settings again."""
        with self.connect(user=SUPERUSER) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start the server and wait until it answers. Raises `RuntimeError` with its last words."""
        for _ in range(PORT_ATTEMPTS):
            self.port = self.port or free_port()
            place = ["-D", str(self.data), "-k", str(self.home), "-p", str(self.port)]
            self._process = self._spawn("postgres", *place)
            if self._await_answer():
                return
            told, self._process, self.port = self.last_words(), None, 0
            if NO_PORT not in told:  # else somebody else was faster with the port
                break
        raise RuntimeError(f"PostgreSQL did not start: {self.last_words()}")

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: ``fast`` writes everything first, ``immediate`` is a crash."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT if how == "fast" else signal.SIGQUIT)
        self._process.wait(STOP_SECONDS)
        self._process = None

    def close(self) -> None:
        """Stop the server and remove everything of it."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._keeper.communicate(timeout=STOP_SECONDS)  # sees that nothing is left

    def last_words(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2_000:] if self.log.exists() else ""

    def tool(self, name: str, *args: str, database: str = "postgres", user: str = OWNER) -> None:
        """Run one of PostgreSQL's own client programs as a role. Raises `RuntimeError` when it fails."""
        command = [self.binaries.program(name), *args]
        place = {"PGHOST": str(self.home), "PGPORT": str(self.port), "PGDATABASE": database}
        login = {"PGUSER": user, "PGPASSWORD": self.passwords[user]}
        done = subprocess.run(
            command, env=self._environment | place | login, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")

    # Databases and roles

    def url(
        self,
        database: str = "postgres",
        *,
        user: str = OWNER,
        over: Literal["tcp", "socket"] = "tcp",
        **query: str,
    ) -> str:
        """Return the SQLAlchemy URL of a database for a role, password included."""
        socket_only = {"host": str(self.home), "port": str(self.port)}
        return sa.URL.create(
            "postgresql+psycopg",
            username=user,
            password=self.passwords[user],
            host="127.0.0.1" if over == "tcp" else None,
            port=self.port if over == "tcp" else None,
            database=database,
            query={**({} if over == "tcp" else socket_only), **query},
        ).render_as_string(hide_password=False)

    def connect(
        self, database: str = "postgres", *, user: str = OWNER, autocommit: bool = True
    ) -> Connection:
        """Connect to a database as a role."""
        return psycopg.connect(
            host=str(self.home),
            port=self.port,
            dbname=database,
            user=user,
            password=self.passwords[user],
            autocommit=autocommit,
        )

    def create_database(
        self, name: str | None = None, *, template: str | None = None, owner: str = OWNER, options: str = ""
    ) -> Database:
        """Make a database: an empty one, or a copy of `template`, which nobody may be connected to.

        ``options`` are further words of CREATE DATABASE, such as a locale.
        """
        self._names += 1
        database = Database(self, name or f"app-{self._names}")
        self._administrate(
            sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} {}").format(
                sql.Identifier(database.name),
                sql.Identifier(owner),
                sql.Identifier(template or "template0"),
                sql.SQL(options),
            )
        )
        return database

    def drop_database(self, name: str) -> None:
        """Remove a database if it is there; whoever is connected is thrown out."""
        self._administrate(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def template(self, key: str, fill: Callable[[Database], None]) -> str:
        """Return the name of a database to copy, filled on first use; ``key`` says what is in it."""
        if key not in self._templates:
            database = self.create_database(f"template {key}")
            try:
                fill(database)
            except BaseException:
                self.drop_database(database.name)
                raise
            self._templates[key] = database.name
        return self._templates[key]

    def create_role(self, name: str, options: str = "") -> None:
        """Make a role that may log in, with a password of its own."""
        self.passwords[name] = new_password()
        self._administrate(
            sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}").format(
                sql.Identifier(name), sql.SQL(options), sql.Literal(self.passwords[name])
            )
        )

    def drop_role(self, name: str) -> None:
        """Remove a role that owns nothing and has no rights any more."""
        self._administrate(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
        del self.passwords[name]

    def _administrate(self, statement: sql.Composed) -> None:
        with self.connect(user=SUPERUSER) as connection:
            connection.execute(statement)

    # Making it

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8"}

    def _prepare_folders(self) -> None:
        self.folder.chmod(0o755)  # the server's user passes through
        for folder, mode in ((self.home, 0o755), (self.data, 0o700)):
            folder.mkdir(mode=mode)
            self._hand_over(folder)

    def _hand_over(self, path: Path) -> None:
        if (user := server_user()) is not None:
            shutil.chown(path, user)

    def _extensions(self) -> Mapping[str, str]:
        """Lay out the stand-in for what the server does not find among its own extensions."""
        if self.binaries.major < EXTENSION_PATH_SINCE:
            return {}
        folder = self.folder / "share" / "extension"
        folder.mkdir(parents=True)
        for name, text in STAND_IN.items():
            (folder / name).write_text(text, encoding="utf-8")
        return {"extension_control_path": f"$system:{folder.parent}"}

    def _initialize(self) -> None:
        secret = self.home / "password"
        secret.touch(mode=0o600)
        self._hand_over(secret)
        secret.write_text(self.passwords[SUPERUSER], encoding="utf-8")
        words = ["-U", SUPERUSER, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync", "--no-instructions"]
        self._finish("initdb", "-D", str(self.data), "--pwfile", str(secret), *words)
        secret.unlink()

    def _copy(self, primary: Server) -> None:
        place = ["-h", str(primary.home), "-p", str(primary.port), "-U", SUPERUSER]
        words = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        self._finish(
            "pg_basebackup", "-D", str(self.data), *place, *words, PGPASSWORD=self.passwords[SUPERUSER]
        )

    def _spawn(self, program: str, *args: str, **environment: str) -> subprocess.Popen[bytes]:
        user = server_user()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [self.binaries.program(program), *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=self._environment | environment,
                user=user,
                extra_groups=None if user is None else [],
                start_new_session=True,  # an interrupt from the keyboard is for the tests alone
            )

    def _finish(self, program: str, *args: str, **environment: str) -> None:
        code = self._spawn(program, *args, **environment).wait(START_SECONDS)
        if code != 0:
            raise RuntimeError(f"{program} ended with {code}: {self.last_words()}")

    def _await_answer(self) -> bool:
        """Wait until the server lets us in; say no if it ended instead."""
        process = self._process
        deadline = time.monotonic() + START_SECONDS
        while process is not None and process.poll() is None:
            with suppress(psycopg.OperationalError):
                self.connect(user=SUPERUSER).close()
                return True
            if time.monotonic() > deadline:
                process.send_signal(signal.SIGQUIT)
            time.sleep(POLL_SECONDS)
        return False


def new_password() -> str:
    """Make a password that needs quoting wherever it goes."""
    return f"{secrets.token_hex(8)}{AWKWARD}"


def free_port() -> int:
    """Return a port of the loopback address that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_replay(primary: Server, standby: Server, *, seconds: float = 30.0) -> None:
    """Wait until a standby has everything that is committed on its primary."""
    with primary.connect(user=SUPERUSER) as there, standby.connect(user=SUPERUSER) as here:
        goal = _one(there, "SELECT pg_current_wal_insert_lsn()")
        deadline = time.monotonic() + seconds
        while not _one(here, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [goal]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the standby did not reach {goal}")
            time.sleep(POLL_SECONDS)


def _one(connection: Connection, statement: str, values: Sequence[object] = ()) -> object:
    row = connection.execute(statement.encode(), values).fetchone()
    return None if row is None else row[0]
