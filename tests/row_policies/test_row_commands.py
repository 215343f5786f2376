"""Row policies at the command line: what people and scripts see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.kit import run_cli
from generations.loops import SqliteLoops
from row_policies.tables import Shop, ago, log, make, written


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Give a store with old rows in a file."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    store = SqliteLoops(tmp_path)
    make(store)
    shop = Shop(store)
    log(store, [30, 20, 1], run="r")
    store.insert("events", [("a", written(30), "x"), ("b", written(1), "x")])
    store.insert("event_parts", [("a", 1), ("a", 2)])
    return shop


def words(shop: Shop) -> list[str]:
    """Return the words that name the store."""
    return [shop.store.location, "--profile", str(shop.store.folder / "shop.toml")]


def test_a_plan_says_what_would_go(shop: Shop) -> None:
    """Counts and sizes of each table, in the table for people and in JSON; nothing is removed."""
    done = run_cli(
        "plan", *words(shop), "--rows", "logs=7d", "--rows", "events=7d", "--rows-latest", "logs=2"
    )
    assert done.code == 0, done.err
    assert "rows of logs" in done.out
    assert "rows of events" in done.out
    real = run_cli("plan", *words(shop), "--rows", "logs=7d", "--rows-latest", "logs=2", "--json").json
    assert real["policy"]["tables"] == {"logs": {"keep_for": "1w", "keep_latest": 2}}
    assert real["units"]["row:logs"]["expired"] == 1
    assert real["rows"] == {"logs": 1}
    assert real["tables"]["logs"] == {
        "rows": 1,
        "batches": 0,
        "slowest": 0.0,
        "backlog": 1,
        "outcome": None,
        "why": "",
    }
    assert 0 < real["bytes"]["logical"] < 100
    assert shop.counts()["logs"] == 3


def test_a_removal_says_how_each_table_went(shop: Shop) -> None:
    """Batches, the slowest statement and the end of each table; the exit is 0 when all are drained."""
    done = run_cli("prune", *words(shop), "--rows", "events=7d", "--apply", "--no-backup", "--yes")
    assert done.code == 0, done.err
    assert "row table" in done.out
    assert "drained" in done.out
    assert shop.ids("events") == ["b"]


def test_a_blocked_table_exits_with_3(shop: Shop, tmp_path: Path) -> None:
    """All else is done, the reason is told, and `profile check` finds it before."""
    shop.store.run("ALTER TABLE events RENAME COLUMN occurred TO happened")
    metrics = tmp_path / "run.prom"
    said = ("--rows", "events=7d", "--rows", "logs=7d", "--apply", "--no-backup", "--yes")
    done = run_cli("prune", *words(shop), *said, "--metrics-file", str(metrics))
    assert done.code == 3
    assert "blocked" in done.out
    assert "no column occurred" in done.out
    assert shop.ids("logs") == [2]
    assert 'kind="row:logs",outcome="removed"' in metrics.read_text("utf-8").replace(", ", ",")
    check = run_cli("profile", "check", *words(shop))
    assert "rows.events: the table events has no column occurred" in check.out


def test_rules_of_a_file_hold_for_options(shop: Shop, tmp_path: Path) -> None:
    """A file's tables count, and an option takes the place of the one key that it says."""
    file = tmp_path / "afterrun.toml"
    file.write_text('[tables.logs]\nkeep_for = "40d"\nkeep_latest = 1\n', encoding="utf-8")
    plain = run_cli("plan", *words(shop), "--policy", file, "--json").json
    assert plain["units"]["row:logs"]["expired"] == 0
    said = run_cli("plan", *words(shop), "--policy", file, "--rows", "logs=7d", "--json").json
    assert said["policy"]["tables"] == {"logs": {"keep_for": "1w", "keep_latest": 1}}
    assert said["units"]["row:logs"]["expired"] == 2


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--rows", "logs"),
        ("--rows", "logs=soon"),
        ("--rows", "Logs=7d"),
        ("--rows", "=7d"),
        ("--rows", "logs=0d"),
        ("--rows-latest", "logs=0"),
        ("--rows-latest", "logs=-1"),
        ("--rows-latest", "logs=many"),
        ("--rows-latest", "logs=99999999999999999999999"),
    ],
)
def test_words_that_make_no_sense_are_errors(shop: Shop, option: str, word: str) -> None:
    """They end with 2 and one sentence, and nothing is opened."""
    done = run_cli("plan", *words(shop), option, word)
    assert done.code == 2
    assert done.err.startswith("afterrun: ")
    assert "Traceback" not in done.err


def test_the_statements_can_be_read(shop: Shop) -> None:
    """With --show-sql each row table shows its page and its removal."""
    sql = run_cli("plan", *words(shop), "--rows", "events=7d", "--show-sql", "--json").json["sql"]
    assert "rows of events, first page" in sql
    assert "DELETE" in sql["rows of events, removal from event_parts"]


def test_the_first_sweep_shows_a_fingerprint(shop: Shop) -> None:
    """The guard asks for rows, too, and the approval admits them once."""
    asked = run_cli("sweep", *words(shop), "--rows", "logs=7d", "--json")
    assert asked.code == 4
    found = json.loads(asked.out)["fingerprint"]
    done = run_cli("sweep", *words(shop), "--rows", "logs=7d", "--approve", found, "--json")
    assert (done.code, json.loads(done.out)["tables"]["logs"]["rows"]) == (0, 2)


def test_explain_says_nothing_of_other_kinds(shop: Shop) -> None:
    """A run's explanation has the rules for runs alone."""
    shop.store.insert("runs", [("r", "done", ago(40))])
    real = run_cli("explain", *words(shop), "r", "--keep-for", "30d", "--rows", "logs=7d", "--json").json
    assert "tables" not in real["policy"]
    assert real["verdict"] == "expired"


def test_watch_sweeps_row_tables_too(shop: Shop, tmp_path: Path) -> None:
    """Rules of a store's own tables count for it, and a blocked table makes the exit 3."""
    file = tmp_path / "afterrun.toml"
    file.write_text(
        f"""
        approve = true
        [tables.logs]
        keep_for = "7d"
        [stores.shop]
        store = "{shop.store.location}"
        profile = "{shop.store.folder / "shop.toml"}"
        [stores.shop.tables.events]
        keep_for = "7d"
        """,
        encoding="utf-8",
    )
    shop.store.run("ALTER TABLE events RENAME COLUMN occurred TO happened")
    done = run_cli("watch", "--once", "--config", str(file), "--json")
    assert done.code == 3, done.err
    assert done.json["stores"]["shop"]["ended"] == "completed"
    assert done.json["stores"]["shop"]["removed"] == 2
    assert shop.ids("logs") == [2]
