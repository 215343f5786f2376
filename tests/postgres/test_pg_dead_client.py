"""How long the locks of a client that stands still outlive it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from afterrun.profiles.loader import built_in_text
from memory import RUNS, STEPS
from pg_server import SUPERUSER
from postgres.pg_victim import Errand, pg_victims
from postgres.statement_tap import driver_of
from sites import SCHEMA, PostgresSite, fill, keys, run

PROMISE: Final = 7.0
SLOW_MACHINE: Final = 1.0
SERVER_WORKS: Final = 3.5
"""Seconds that the server still works on a statement, of the five that a batch may take."""
STATEMENT_MS: Final = (
    "SELECT setting::int BETWEEN 1000 AND 5000 FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'"
)

SLOW: Final = f"""
CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_catalog.pg_sleep({SERVER_WORKS}); RETURN NULL; END';
CREATE TRIGGER slow AFTER DELETE ON {SCHEMA}.{STEPS} EXECUTE FUNCTION public.slow();
"""
AT_WORK: Final = """
SELECT pid FROM pg_stat_activity WHERE application_name = 'afterrun' AND wait_event = 'PgSleep'
    AND datname = current_database()
"""


@pytest.fixture
def slow(postgres_site: PostgresSite, tmp_path: Path) -> Iterator[Path]:
    """Make removal slow on the server, by a trigger; give the file of a profile that knows it."""
    postgres_site.database.run(SLOW)
    path = tmp_path / "slow.toml"
    known = built_in_text("dbos").replace("[detect]", '[detect]\ntriggers = ["slow"]')
    path.write_text(known, encoding="utf-8")
    yield path
    postgres_site.database.run("DROP FUNCTION public.slow CASCADE")


@pytest.mark.parametrize(
    ("ending", "least", "most"),
    [(signal.SIGSTOP, SERVER_WORKS, PROMISE + SLOW_MACHINE), (signal.SIGKILL, 0.0, SERVER_WORKS - 0.5)],
    ids=["stopped", "killed"],
)
def test_locks_of_a_client_that_is_gone_are_free_within_seven_seconds(
    postgres_site: PostgresSite,
    slow: Path,
    tmp_path: Path,
    ending: signal.Signals,
    least: float,
    most: float,
) -> None:
    """Stopped, the server ends its statement and then the idle time; killed, it need not even do that."""
    site = postgres_site
    fill(site, [run("x")])
    errand = Errand(store=site.database.url(), state=str(tmp_path / "state"), profile=str(slow))
    with pg_victims() as victims, site.database.connect(SUPERUSER) as engine:
        client = victims.start(errand)
        deadline = time.monotonic() + 30.0
        while engine.execute(AT_WORK).fetchone() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.kill(client, ending)
        gone = time.monotonic()
        try:
            engine.execute("SET lock_timeout = '30s'")
            resumed = engine.execute(
                f"UPDATE {SCHEMA}.{RUNS} SET status = 'PENDING' WHERE workflow_uuid = 'x'".encode()
            )
            waited = time.monotonic() - gone
        finally:
            if ending == signal.SIGSTOP:
                os.kill(client, signal.SIGKILL)
        assert victims.wait() == -signal.SIGKILL
    assert resumed.rowcount == 1
    assert least < waited < most
    assert keys(site) == {"x"}


def test_a_batch_says_to_the_server_how_long_it_may_last(postgres_site: PostgresSite) -> None:
    """The bounds hold on the server, whatever becomes of the client; a newer server bounds the whole, too."""
    driver = driver_of(postgres_site.store)

    def shown(name: str) -> object:
        return driver.execute(f"SHOW {name}".encode()).fetchall()[0][0]

    with postgres_site.store.transaction(seconds=5.0):
        assert shown("transaction_isolation") == "read committed"
        assert shown("lock_timeout") == "1500ms"
        assert shown("idle_in_transaction_session_timeout") == "2s"
        assert driver.execute(STATEMENT_MS).fetchone() == (True,)
        if driver.info.server_version >= 170_000:
            assert shown("transaction_timeout") == "7s"
    assert shown("statement_timeout") == "0"
