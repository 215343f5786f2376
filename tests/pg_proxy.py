"""PgBouncer in front of a throwaway server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg
import sqlalchemy as sa

from pg_binaries import server_user
from pg_keeper import start_keeper
from pg_server import OWNER, POLL_SECONDS, START_SECONDS, STOP_SECONDS, SUPERUSER, Server, free_port

PROGRAM = "pgbouncer"

SETTINGS = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = 5
server_round_robin = 1
ignore_startup_parameters = extra_float_digits
admin_users = {admin}
"""


def program() -> str | None:
    """Return the path of PgBouncer if it is here."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin")


class Proxy:
    """A PgBouncer that runs from the start. Use it in a `with` statement, or call `close`."""

    def __init__(self, server: Server, *, mode: str = "transaction") -> None:
        """Put a PgBouncer in front of a server. It knows the roles that the server has at this moment."""
        self._server = server
        self.folder = Path(tempfile.mkdtemp(prefix="afterrun-pg-"))
        self._keeper = start_keeper(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        try:
            self._start(mode)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> Path:
        """The file of what the proxy has to say."""
        return self.folder / "log"

    def url(self, database: str, *, user: str = OWNER) -> str:
        """Return the SQLAlchemy URL of a database through the proxy."""
        direct = sa.make_url(self._server.url(database, user=user))
        return direct.set(port=self.port).render_as_string(hide_password=False)

    def close(self) -> None:
        """Stop the proxy and remove everything of it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._keeper.communicate(timeout=STOP_SECONDS)

    def _start(self, mode: str) -> None:
        found = program()
        if found is None:
            raise LookupError(f"{PROGRAM} is not installed; on Debian: apt-get install {PROGRAM}")
        self.folder.chmod(0o755)
        users, settings = self.folder / "users", self.folder / "pgbouncer.ini"
        words = {name: word.replace('"', '""') for name, word in self._server.passwords.items()}
        _write(users, "".join(f'"{name}" "{word}"\n' for name, word in words.items()))
        place = {"host": self._server.home, "port": self._server.port, "listen": self.port}
        _write(settings, SETTINGS.format(users=users, mode=mode, admin=SUPERUSER, **place))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [found, str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=server_user(),
                extra_groups=None if server_user() is None else [],
                start_new_session=True,
            )
        self._await_answer(self._process)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(
                    host="127.0.0.1",
                    port=self.port,
                    dbname=PROGRAM,
                    user=SUPERUSER,
                    password=self._server.passwords[SUPERUSER],
                    autocommit=True,
                ).close()
            except psycopg.OperationalError:
                time.sleep(POLL_SECONDS)
            else:
                return
        raise RuntimeError(f"{PROGRAM} did not start: {self.log.read_text(encoding='utf-8')[-2_000:]}")


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    if (user := server_user()) is not None:
        shutil.chown(path, user)
    path.write_text(text, encoding="utf-8")
