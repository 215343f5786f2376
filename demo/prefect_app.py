"""Run a real Prefect server on a database in SQLite or PostgreSQL, and have a client of it work.

Run it with the python of an environment that has Prefect. The server listens on a free port of the loopback
address, keeps its files in a temporary folder, tells nobody anything, and is stopped before the command ends.
The commands are those of `prefect_client.py`. The answer is one JSON object, the last line; everything else
goes to standard error.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.2
CLIENT = Path(__file__).with_name("prefect_client.py")

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "0.2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "1",
}
ALONE = ("vacuum",)
"""Commands that need no server."""


def database_url(location: str) -> str:
    """Return what Prefect calls a location: a path, or a URL of PostgreSQL."""
    if location.startswith("postgresql"):
        return "postgresql+asyncpg://" + location.partition("://")[2]
    return f"sqlite+aiosqlite:///{Path(location).resolve()}"


@contextmanager
def surroundings(location: str) -> Iterator[Mapping[str, str]]:
    """Give the environment of a process of Prefect on a database, with a folder that goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="afterrun-prefect-") as home:
        url = database_url(location)
        yield {**os.environ, **SETTINGS, "PREFECT_HOME": home, "PREFECT_API_DATABASE_CONNECTION_URL": url}


@contextmanager
def server(environment: Mapping[str, str]) -> Iterator[str]:
    """Run a server; give its address."""
    port = _free_port()
    words = ["prefect.server.api.server:create_app", "--factory", "--host", HOST, "--port", str(port)]
    command = [sys.executable, "-E", "-m", "uvicorn", *words, "--log-level", "error"]
    process = subprocess.Popen(command, stdout=sys.stderr, env=environment)
    try:
        _wait_for(process, port)
        yield f"http://{HOST}:{port}/api"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with suppress(OSError), closing(http.client.HTTPConnection(HOST, port, timeout=5)) as connection:
            connection.request("GET", "/api/health")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        time.sleep(POLL_SECONDS)
    raise RuntimeError("the server did not start")


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command")
    parser.add_argument("store", help="path of a SQLite file, or a URL of PostgreSQL")
    parser.add_argument("words", nargs="*", help="further words of the command")
    options = parser.parse_args()
    client = [sys.executable, "-E", str(CLIENT), options.command, *options.words]
    with surroundings(options.store) as environment:
        if options.command in ALONE:
            sys.exit(subprocess.run(client, env=environment, check=False).returncode)
        with server(environment) as url:
            done = subprocess.run(client, env={**environment, "PREFECT_API_URL": url}, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
