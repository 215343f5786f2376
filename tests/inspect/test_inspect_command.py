"""`afterrun inspect`: what a store holds, before anything is removed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.core.errors import Exit
from cli.kit import (
    DAY_MS,
    POWERLESS,
    add_run,
    change,
    make_store,
    run_cli,
    run_process,
    unchanged,
)
from engines.stores import clone_store

NOW = time.time_ns() // 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store of 120 runs, ended 1 to 120 days ago, and two live ones."""
    return make_store(tmp_path / "store.sqlite", runs=120, live=2)


def test_it_counts_what_sql_counts(store: Path) -> None:
    """Runs by state, the oldest and newest time, and growth a day are those of the rows."""
    with unchanged(store):
        answer = run_cli("inspect", store, "--json")
    assert answer.code == Exit.DONE
    found = answer.json
    assert (found["profile"], found["engine"]) == ("dbos", "DBOS Transact")
    assert found["schema"] == {"version": "125", "read": True}
    assert found["runs"] == {"live": 2, "finished": 120, "unknown": 0}
    with closing(sqlite3.connect(store)) as database:
        oldest, newest = database.execute(
            "SELECT datetime(min(created_at) / 1000, 'unixepoch'),"
            " datetime(max(created_at) / 1000, 'unixepoch') FROM workflow_status"
        ).fetchone()
    assert found["oldest"].startswith(oldest.replace(" ", "T"))
    assert found["newest"].startswith(newest.replace(" ", "T"))
    # 29 to 30 of the finished ones and both live ones were made in these 30 days
    assert found["growth"]["days"] == 30.0
    assert found["growth"]["created"] * 30 == pytest.approx(31, abs=1)
    assert found["growth"]["ended"] * 30 == pytest.approx(29, abs=1)
    assert {table["name"]: table["rows"] for table in found["tables"]}["operation_outputs"] == 122


def test_ages_would_free_what_a_plan_says(store: Path) -> None:
    """Units and rows for 7, 30 and 90 days are those of a plan with that age."""
    found = run_cli("inspect", store, "--json").json["would_free"]
    assert [part["keep_for"] for part in found] == ["7d", "30d", "90d"]
    for part in found:
        plan = run_cli("plan", store, "--keep-for", part["keep_for"], "--json").json
        assert part["units"] == plan["units"]["tree"]["expired"] > 0
        assert part["rows"] == sum(plan["rows"].values())
        assert part["units_estimated"] is False
        assert part["bytes"] >= plan["bytes"]["logical"]


def test_what_stays_is_named_with_its_oldest(store: Path) -> None:
    """Protected and blocked units count under their reasons, with the age of the oldest of each."""
    with closing(sqlite3.connect(store)) as database, database:
        add_run(database, "child", NOW - 50 * DAY_MS, status="PENDING", parent="run-60")
        add_run(database, "odd", NOW - 70 * DAY_MS, status="STRANGE")
        database.execute("UPDATE workflow_status SET completed_at = 'soon' WHERE workflow_uuid = 'run-80'")
        database.execute(
            "UPDATE workflow_status SET completed_at = NULL, updated_at = 12 WHERE workflow_uuid = 'run-90'"
        )
        database.execute(
            "UPDATE workflow_status SET completed_at = ? WHERE workflow_uuid = 'run-95'",
            (NOW + 10 * DAY_MS,),
        )
    stays = run_cli("inspect", store, "--json").json["stays"]
    counts = {kind: {name: held["count"] for name, held in stays[kind].items()} for kind in stays}
    assert counts == {
        "protected": {"live-member": 3},
        "blocked": {"unknown-status": 1, "unreadable-end-time": 2, "future-end-time": 1},
    }
    for name, held in counts["blocked"].items():
        plan = run_cli("plan", store, "--keep-for", "7d", "--json").json
        assert plan["units"]["tree"]["blocked"][name] == held
    oldest = stays["protected"]["live-member"]["oldest"]
    with closing(sqlite3.connect(store)) as database:
        [[made]] = database.execute(
            "SELECT strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000, 'unixepoch') FROM workflow_status"
            " WHERE workflow_uuid = 'run-60'"
        ).fetchall()
    assert oldest.startswith(made)


def test_stuck_runs_are_live_ones_without_a_sign_of_life(store: Path) -> None:
    """A run that never ended and is older than 30 days is stuck; a younger one is not."""
    with closing(sqlite3.connect(store)) as database, database:
        add_run(database, "stuck", NOW - 45 * DAY_MS, status="PENDING")
        add_run(database, "waiting", NOW - 29 * DAY_MS, status="PENDING")
    stuck = run_cli("inspect", store, "--json").json["stuck"]
    assert stuck["count"] == 1
    assert stuck["oldest"].startswith(
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((NOW - 45 * DAY_MS) / 1000))
    )


def test_it_says_whether_the_file_can_shrink(store: Path) -> None:
    """Free pages, modes, method and room are there, and no shrink is promised without any free page."""
    found = run_cli("inspect", store, "--json").json
    assert found["reclaim"] == {"method": "none", "worth": False, "room": []}
    change(store, "UPDATE workflow_status SET output = printf('%.*c', 9000, 'x')")
    change(store, "UPDATE workflow_status SET output = NULL")
    found = run_cli("inspect", store, "--json").json
    assert found["space"]["free_pages"] > 100
    assert (found["space"]["journal"], found["space"]["auto_vacuum"]) == ("delete", "none")
    assert found["reclaim"]["method"] == "vacuum"
    assert found["reclaim"]["worth"] is False
    assert found["reclaim"]["room"][0]["enough"] is True
    assert "not worth it yet" in run_cli("inspect", store).out


def test_tables_for_people_mark_estimates(store: Path) -> None:
    """Sizes from samples carry a ~; with --exact they do not."""
    lines = [
        line for line in run_cli("inspect", store).out.splitlines() if line.startswith("workflow_status")
    ]
    exact = [
        line
        for line in run_cli("inspect", store, "--exact").out.splitlines()
        if line.startswith("workflow_status")
    ]
    assert lines[0].count("~") == 2
    assert exact[0].count("~") == 0


def test_an_empty_store_has_nothing_to_say(tmp_path: Path) -> None:
    """A store without a run is no error."""
    store = make_store(tmp_path / "store.sqlite", runs=0, live=0)
    found = run_cli("inspect", store, "--json").json
    assert found["runs"] == {"live": 0, "finished": 0, "unknown": 0}
    assert (found["oldest"], found["newest"]) == (None, None)
    assert found["growth"] == {"days": 30.0, "created": 0.0, "ended": 0.0, "bytes": 0}
    assert run_cli("inspect", store).code == Exit.DONE


def test_the_locks_of_this_process_survive_an_inspection(store: Path) -> None:
    """After it, a write lock that this process holds on the file still keeps another process out."""
    write = (
        "import sqlite3, sys\n"
        "try: sqlite3.connect(sys.argv[1], timeout=0).execute('DELETE FROM workflow_status')\n"
        "except sqlite3.OperationalError as error: print(error)\n"
    )
    with closing(sqlite3.connect(store, isolation_level=None)) as engine:
        engine.execute("BEGIN IMMEDIATE")
        for words in ((), ("--exact",)):
            assert run_cli("inspect", store, *words).code == Exit.DONE
            command = [sys.executable, "-c", write, str(store)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            assert answer.stdout == "database is locked\n"
        engine.execute("ROLLBACK")


def test_the_right_to_read_is_enough(store: Path) -> None:
    """A file that this user may only read is inspected; nothing appears beside it."""
    store.chmod(0o444)
    store.parent.chmod(0o555)
    try:
        answer = run_process("inspect", store, "--json", prefix=POWERLESS)
    finally:
        store.parent.chmod(0o755)
    assert answer.code == Exit.DONE
    assert answer.json["runs"]["finished"] == 120


def test_a_wal_store_that_cannot_be_read_without_writing_is_refused(store: Path) -> None:
    """SQLite needs to write beside a WAL database: said, with exit code 4, and never read as immutable."""
    change(store, "PRAGMA journal_mode = wal")
    store.chmod(0o444)
    store.parent.chmod(0o555)
    try:
        answer = run_process("inspect", store, "--json", prefix=POWERLESS)
    finally:
        store.parent.chmod(0o755)
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "rights"


def test_exact_needs_a_sqlite_that_can_tell(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where dbstat is missing, --exact is refused, and the estimates are still there."""
    monkeypatch.setattr("afterrun.stores.sql.sqlite.tables.DBSTAT", "no_such_dbstat")
    answer = run_cli("inspect", store, "--exact", "--json")
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "no-dbstat"
    assert run_cli("inspect", store).code == Exit.DONE


@pytest.mark.engine
def test_estimates_are_near_what_every_page_says(tmp_path: Path) -> None:
    """Sampled sizes and rows of each large table of a real store are within 10 % of the exact ones."""
    store = tmp_path / "store.sqlite"
    clone_store(None, store, runs=6_000, version="3.4.0", shape="tree", expired=0.5)
    for _ in range(2):  # as made, and with a hole that a removal left
        with Retention(str(store), writable=False) as retention:
            guessed = {table.name: table for table in retention.inspect().tables}
            exact = {table.name: table for table in retention.inspect(exact=True).tables}
        large = [name for name, table in exact.items() if table.total > 200_000]
        assert len(large) > 4
        for name in large:
            assert guessed[name].total == pytest.approx(exact[name].total, rel=0.1)
            assert guessed[name].rows == pytest.approx(exact[name].rows, rel=0.05)
        run_cli("prune", store, "--keep-for", "30d", "--apply", "--no-backup", "--yes", "--offline")


@pytest.mark.engine
def test_a_large_store_is_looked_at_in_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, units come from sampled pages: marked, near the plan's, with their error."""
    store = tmp_path / "store.sqlite"
    clone_store(None, store, runs=8_000, version="3.4.0", shape="tree", expired=0.6, spread_days=90)
    monkeypatch.setattr("afterrun.core.inspection.EXACT_UNITS", 500)
    found = run_cli("inspect", store, "--json").json["would_free"]
    for part in found:
        plan = run_cli("plan", store, "--keep-for", part["keep_for"], "--json").json
        assert part["units_estimated"] is True
        assert part["units"] == pytest.approx(plan["units"]["tree"]["expired"], rel=0.03)
        assert part["rows"] == pytest.approx(sum(plan["rows"].values()), rel=0.1)
        assert 0 < part["error"] < 0.2
    assert "~" in run_cli("inspect", store).out
