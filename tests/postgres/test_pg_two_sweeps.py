"""Two removals of one schema at once: the second one leaves, wherever and however it comes."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import psycopg
import pytest

from afterrun import Retention, StoreLocked, SweepOptions
from cli.kit import run_process
from crash.aged import MONTH, Request
from crash.killing import holding
from postgres.statement_tap import driver_of
from sites import DAY_MS, SCHEMA, PostgresSite, fill, keys, run

POLICY = ("--keep-for", "30d")


@pytest.fixture
def site(postgres_site: PostgresSite) -> PostgresSite:
    """Give a store with two runs that are old by the server's own clock."""
    (now,) = postgres_site.database.rows("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0]
    fill(postgres_site, [run(key, completed_at=now - 100 * DAY_MS) for key in ("x", "y")])
    postgres_site.retention.close()
    postgres_site.retention = Retention(postgres_site.database.url(), state=postgres_site._state)
    return postgres_site


def removal(site: PostgresSite, folder: Path) -> Request:
    """Ask for a removal in a process with a memory of its own."""
    return Request(store=site.database.url(), state=str(folder / "theirs"), offline=False)


def test_a_second_removal_leaves_at_once(
    site: PostgresSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 5 for a sweep and for a manual apply, from a process with another memory; looking works."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "elsewhere"))
    url = site.database.url()
    with holding(removal(site, tmp_path)) as first:
        for words in (("sweep",), ("prune", "--apply", "--no-backup", "--yes")):
            answer = run_process(*words, url, *POLICY, "--json")
            assert answer.code == 5
            assert answer.json["error"]["kind"] == "locked"
        assert run_process("plan", url, *POLICY).code == 0
        with pytest.raises(StoreLocked, match="try again later"):
            site.retention.prune(MONTH)
        assert keys(site) == {"x", "y"}
        told, _ = first.communicate("go on\n", timeout=60)
    assert json.loads(told) == {"ended": "completed", "removed": 2}
    assert keys(site) == set()


def test_another_name_of_the_server_is_no_way_around_the_lock(site: PostgresSite, tmp_path: Path) -> None:
    """The lock belongs to the schema, not to the URL: a socket and another role meet it, too."""
    database = site.database
    with holding(removal(site, tmp_path)):
        for url in (database.url(over="socket"), database.url("postgres", schema=SCHEMA)):
            with Retention(url, state=tmp_path / "elsewhere") as second, pytest.raises(StoreLocked):
                second.prune(MONTH)


def test_the_lock_of_a_killed_removal_is_free(site: PostgresSite, tmp_path: Path) -> None:
    """It needs no repair and nobody's permission: the next one works as soon as the server has noticed."""
    with holding(removal(site, tmp_path)) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        deadline = time.monotonic() + 10.0
        report = None
        while report is None:
            try:
                report = site.retention.prune(MONTH)
            except StoreLocked:
                assert time.monotonic() < deadline
    assert (report.ended, report.units.removed) == ("completed", 2)


def test_a_removal_gives_its_locks_back(site: PostgresSite) -> None:
    """After its end, and after one that failed on the way, the connection holds no lock of any kind."""
    held = b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    seen: list[object] = []

    def gate() -> bool:
        seen.append(driver_of(site.store).execute(held).fetchone())
        raise psycopg.InterfaceError

    with pytest.raises(psycopg.InterfaceError):
        site.retention.prune(MONTH, options=SweepOptions(gate=gate))
    assert seen == [(2,)], "ours, and the engine's own"
    assert driver_of(site.store).execute(held).fetchone() == (0,)
    assert site.retention.prune(MONTH).units.removed == 2
    assert driver_of(site.store).execute(held).fetchone() == (0,)
