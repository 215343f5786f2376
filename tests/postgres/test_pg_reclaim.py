"""`afterrun reclaim` on PostgreSQL: plain VACUUM of tables that removals touch, and what holds it back."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from afterrun import Retention
from afterrun.core.errors import Exit, StoreFailure
from afterrun.core.space import ReclaimOptions
from afterrun.stores.sql.postgres import space as postgres_space
from afterrun.stores.sql.postgres import vacuum as postgres_vacuum
from cli.kit import run_cli
from pg_server import POLL_SECONDS, SUPERUSER, Database, Server, await_replay
from postgres.pg_bloat import TOUCHED, contents, fill, may_read, passed, snapshot, total, vacuum_times
from sites import SCHEMA

DEAD = {"operation_outputs": 4_000, "workflow_input": 2_000, "workflow_status": 2_000}
"""Rows that the old runs of `bloated` leave behind."""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def store(database: Database) -> Database:
    """Make a store of which most rows are dead, the kept ones at the end of each table."""
    fill(database)
    return database


def dead_rows(report: dict[str, Any]) -> dict[str, int]:
    """Return the dead rows of each table that has some."""
    return {
        table["name"]: table["dead_rows"] for table in report["space"]["tables"] if table["dead_rows"] != 0
    }


def holders(database: Database) -> list[str]:
    """Return the kinds of what holds VACUUM back."""
    report = run_cli("reclaim", database.url(), "--json").json
    return [holder["kind"] for holder in report["space"]["held_back_by"]]


def test_without_apply_it_only_says_what_a_vacuum_could_do(store: Database) -> None:
    """A dry run counts the dead rows of each touched table and vacuums none."""
    before = vacuum_times(store)
    answer, told = run_cli("reclaim", store.url(), "--json"), run_cli("reclaim", store.url())
    assert answer.code == told.code == Exit.DONE
    report = answer.json
    assert (report["dry_run"], report["ended"], report["method"]) == (True, "planned", "plain-vacuum")
    assert {table["name"] for table in report["space"]["tables"]} == set(TOUCHED)
    assert dead_rows(report) == DEAD
    assert report["bytes"]["given_back"] == 0
    assert passed(before, vacuum_times(store)) == set()
    assert "only an empty end of a table goes back to the file system" in told.out
    assert "--apply" in told.out


def test_apply_vacuums_tables_with_dead_rows_and_leaves_every_row(store: Database) -> None:
    """No dead row is left, every kept one is where it was, and no table has a new file."""
    files = "SELECT relname::text, relfilenode FROM pg_class WHERE relnamespace = %s::regnamespace"
    before, rows, nodes = vacuum_times(store), contents(store), store.rows(files, SCHEMA)
    answer = run_cli("reclaim", store.url(), "--apply", "--json")
    assert (answer.code, answer.json["ended"]) == (Exit.DONE, "completed")
    assert answer.json["dead_rows"] == {"before": 8_000, "after": 0}
    assert passed(before, vacuum_times(store)) == set(DEAD)
    assert contents(store) == rows
    assert store.rows(files, SCHEMA) == nodes
    again = run_cli("reclaim", store.url(), "--json").json
    assert (again["method"], again["worth"]) == ("none", False)


def test_sizes_are_measured_before_and_after(database: Database) -> None:
    """Old rows at the end of their tables go back to the file system, by what the server measures."""
    fill(database, last="old")
    before = {table: total(database, table) for table in TOUCHED}
    dry = run_cli("reclaim", database.url(), "--json").json
    report = run_cli("reclaim", database.url(), "--apply", "--json").json
    after = {table: total(database, table) for table in TOUCHED}
    assert {table["name"]: table["bytes_before"] for table in report["tables"]} == before
    assert {table["name"]: table["bytes_after"] for table in report["tables"]} == after
    sizes = report["bytes"]
    assert (sizes["file_before"], sizes["file_after"]) == (sum(before.values()), sum(after.values()))
    assert sizes["given_back"] == sizes["file_before"] - sizes["file_after"] > 1_000_000
    given = sizes["heap_before"] - sizes["heap_after"]
    assert given <= dry["space"]["tail"] <= given * 1.3
    assert sizes["indexes_after"] >= sizes["indexes_before"]  # plain VACUUM cuts no index


def test_places_in_front_of_kept_rows_are_only_used_again(store: Database) -> None:
    """Nothing shrinks where kept rows lie at the end, and new runs take the place of the old ones."""
    dry = run_cli("reclaim", store.url(), "--json").json
    report = run_cli("reclaim", store.url(), "--apply", "--json").json
    assert dry["space"]["tail"] == 0
    assert report["bytes"]["heap_after"] >= report["bytes"]["heap_before"]
    size = f"SELECT pg_relation_size('{SCHEMA}.operation_outputs')"
    before = store.rows(size)
    store.run(
        f"INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id, function_name, output)"
        f" SELECT 'young-' || i, 9, 'step', repeat('x', 256) FROM generate_series(1, 200) AS i"
    )
    assert store.rows(size) == before


def test_tables_of_others_are_left_alone(store: Database) -> None:
    """A table that no removal touches is not vacuumed, however many dead rows it has."""
    store.run(
        "CREATE TABLE public.other (id int); INSERT INTO public.other SELECT generate_series(1, 500);"
        "DELETE FROM public.other"
    )
    assert run_cli("reclaim", store.url(), "--apply").code == Exit.DONE
    assert store.rows("SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'other'") == [(0,)]


def test_a_snapshot_that_holds_it_back_is_named(database: Database) -> None:
    """Rows that an older snapshot may see stay: `pinned`, exit code 3, with the role and process of it."""
    fill(database, emptied=False)
    with snapshot(database) as reader:
        process = reader.info.backend_pid
        database.run(f"DELETE FROM {SCHEMA}.operation_outputs WHERE workflow_uuid LIKE 'old-%'")
        dry = run_cli("reclaim", database.url(), "--json").json
        answer = run_cli("reclaim", database.url(), "--apply", "--json")
        [holder] = dry["space"]["held_back_by"]
        assert (holder["kind"], holder["name"], holder["process"]) == ("session", "app", process)
        assert holder["state"] == "idle in transaction"
        assert holder["seconds"] >= 0
        assert (answer.code, answer.json["ended"]) == (Exit.DEFERRED, "pinned")
        assert (
            f"4,000 dead rows had to stay for a session of the role app (process {process}, idle in"
            in (answer.json["message"])
        )
        reader.rollback()
        assert run_cli("reclaim", database.url(), "--apply", "--json").json["dead_rows"]["after"] == 0


def test_a_forgotten_prepared_transaction_is_named(store: Database) -> None:
    """It holds VACUUM back without any session, so it is said whose it is."""
    with store.connect(autocommit=False) as client:
        client.execute("CREATE TABLE public.fresh (id int)")
        client.execute("PREPARE TRANSACTION 'forgotten'")
    try:
        [holder] = run_cli("reclaim", store.url(), "--json").json["space"]["held_back_by"]
        assert (holder["kind"], holder["name"], holder["process"]) == ("prepared", "app", None)
        assert "a prepared transaction of the role app" in run_cli("reclaim", store.url()).out
    finally:
        store.run("ROLLBACK PREPARED 'forgotten'")


def test_a_standby_that_reads_is_named(standby: Server, store: Database) -> None:
    """With hot_standby_feedback, a snapshot there keeps rows here."""
    standby.configure({"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"})
    standby.reload()
    await_replay(store.server, standby)
    with standby.connect(store.name, autocommit=False) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1").fetchall()
        deadline = time.monotonic() + 20
        while not (told := holders(store)):
            assert time.monotonic() < deadline
            time.sleep(POLL_SECONDS)
    standby.configure({"hot_standby_feedback": "off"})
    standby.reload()
    assert told == ["standby"]


def test_a_locked_table_is_left_and_the_others_are_done(store: Database) -> None:
    """Another session's lock is not waited for: `partial`, exit code 3, with the table and what to do."""
    before = vacuum_times(store)
    with store.connect(autocommit=False) as other:
        other.execute(f"LOCK TABLE {SCHEMA}.workflow_input IN SHARE UPDATE EXCLUSIVE MODE")
        answer = run_cli("reclaim", store.url(), "--apply", "--json")
        other.rollback()
    report = answer.json
    assert (answer.code, report["ended"]) == (Exit.DEFERRED, "partial")
    assert report["message"] == "left as they are: workflow_input"
    assert any(
        note.startswith("workflow_input: another session holds a lock on it") for note in report["notices"]
    )
    assert passed(before, vacuum_times(store)) == {"operation_outputs", "workflow_status"}
    assert report["seconds"] < 5


def test_a_table_under_rewrite_is_a_sentence(store: Database) -> None:
    """What is locked against all reads cannot be measured: said at once, and nothing is vacuumed."""
    with Retention(store.url()) as retention, store.connect(autocommit=False) as other:
        other.execute(f"LOCK TABLE {SCHEMA}.streams IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreFailure, match="another session has locked a table"):
            retention.reclaim()
        other.rollback()


def test_a_role_that_may_not_vacuum_is_told_what_to_do(store: Database, role: str) -> None:
    """Nothing is done with the right to read alone: exit code 4 with the owner's name; a dry run says it."""
    may_read(store, role)
    before = vacuum_times(store)
    dry = run_cli("reclaim", store.url(role), "--json").json
    answer = run_cli("reclaim", store.url(role), "--apply", "--json")
    assert any("this role may not vacuum" in note for note in dry["space"]["notices"])
    assert dead_rows(dry) == DEAD
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "rights"
    assert "owned by app: connect as that role" in answer.json["error"]["message"]
    assert passed(before, vacuum_times(store)) == set()


def test_the_right_to_maintain_is_enough(store: Database, role: str) -> None:
    """Since PostgreSQL 17 it can be granted by table: those are done, the others are named."""
    if store.server.binaries.major < 17:
        pytest.skip("needs PostgreSQL 17, which brought MAINTAIN")
    may_read(store, role)
    store.run(f'GRANT MAINTAIN ON {SCHEMA}.workflow_input TO "{role}"')
    before = vacuum_times(store)
    report = run_cli("reclaim", store.url(role), "--apply", "--json").json
    assert report["ended"] == "partial"
    assert report["message"] == "left as they are: operation_outputs, workflow_status"
    assert passed(before, vacuum_times(store)) == {"workflow_input"}


def test_a_warning_of_the_server_becomes_a_sentence(
    store: Database, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the server skips a table that seemed ours to vacuum, its words are told, and no success."""
    may_read(store, role)

    def all_may(_driver: object, _reflected: object, tables: list[str]) -> dict[str, tuple[str, bool]]:
        return dict.fromkeys(tables, ("app", True))

    monkeypatch.setattr(postgres_space, "rights_to_vacuum", all_may)
    monkeypatch.setattr(postgres_vacuum, "rights_to_vacuum", all_may)
    answer = run_cli("reclaim", store.url(role), "--apply", "--json")
    assert (answer.code, answer.json["ended"]) == (Exit.DEFERRED, "partial")
    assert sum(note.startswith("PostgreSQL warned: ") for note in answer.json["notices"]) == len(DEAD)
    assert answer.json["dead_rows"]["after"] == 8_000


def test_a_closed_gate_stops_between_two_tables(store: Database) -> None:
    """What was vacuumed stays so, the rest is left for the next time."""
    before, asked = vacuum_times(store), []

    def gate() -> bool:
        asked.append(1)
        return len(asked) <= 1

    with Retention(store.url()) as retention:
        report = retention.reclaim(ReclaimOptions(gate=gate))
        assert report.ended == "interrupted"
        assert passed(before, vacuum_times(store)) == {"operation_outputs"}
        assert retention.reclaim().ended == "completed"
    assert passed(before, vacuum_times(store)) == set(DEAD)


@pytest.mark.parametrize(("rest", "delay"), [(1.0, "2ms"), (0.0, "0")])
def test_it_is_gentle_beside_an_engine_and_leaves_the_session_as_it_was(
    store: Database, rest: float, delay: str
) -> None:
    """Statements may take as long as they need and wait briefly for locks; then all settings are back."""
    names = ("statement_timeout", "lock_timeout", "client_min_messages", "vacuum_cost_delay")
    seen: list[list[str]] = []

    with Retention(store.url()) as retention:
        driver = retention.store.dialect.driver  # type: ignore[attr-defined]

        def settings() -> list[str]:
            return [driver.execute(f"SHOW {name}").fetchone()[0] for name in names]

        def gate() -> bool:
            seen.append(settings())
            return True

        before = settings()
        retention.reclaim(ReclaimOptions(gate=gate, rest=rest))
        assert settings() == before
    assert seen == [["0", "500ms", "warning", delay]] * len(DEAD)


def test_it_needs_the_sweep_lock(store: Database) -> None:
    """While a sweep holds the store, no table is vacuumed."""
    before = vacuum_times(store)
    with Retention(store.url()) as sweeper, sweeper.store.sweep_lock():  # type: ignore[union-attr]
        assert run_cli("reclaim", store.url(), "--apply").code == Exit.LOCKED
    assert passed(before, vacuum_times(store)) == set()


def test_a_standby_is_left_to_its_primary(standby: Server, store: Database) -> None:
    """There a dry run works and says what it cannot know; apply is refused with exit code 4."""
    await_replay(store.server, standby)
    url = standby.url(store.name)
    dry = run_cli("reclaim", url, "--json")
    answer = run_cli("reclaim", url, "--apply", "--json")
    assert dry.code == Exit.DONE
    assert any(note.startswith("this server is a standby") for note in dry.json["space"]["notices"])
    assert (answer.code, answer.json["error"]["reason"]) == (Exit.REFUSED, "standby")


def test_an_offline_sweep_vacuums_what_it_removed_from(database: Database) -> None:
    """`--offline --reclaim` is the same plain VACUUM, and the next sweep finds nothing to do."""
    fill(database, old=300, emptied=False)
    words = ("sweep", database.url(), "--keep-for", "30d", "--offline", "--reclaim", "--json")
    shown = run_cli(*words).json["fingerprint"]
    first, second = run_cli(*words, "--approve", shown), run_cli(*words)
    assert first.json["units"]["tree"]["removed"] == 300
    assert (first.code, first.json["reclaim"]["ended"]) == (Exit.DONE, "completed")
    assert first.json["reclaim"]["dead_rows"] == {"before": 1_200, "after": 0}
    assert second.json["reclaim"]["ended"] == "skipped"
    assert "no table has dead rows" in second.json["reclaim"]["message"]


def test_nothing_to_do_is_done_at_once(database: Database) -> None:
    """Tables that the server knows to be clean are not vacuumed again."""
    fill(database, old=10, emptied=False)
    before = vacuum_times(database)
    answer = run_cli("reclaim", database.url(), "--apply", "--json")
    assert (answer.code, answer.json["ended"]) == (Exit.DONE, "completed")
    assert passed(before, vacuum_times(database)) == set()


def test_lost_counts_are_no_reason_to_leave_a_table(store: Database) -> None:
    """After a crash or a reset the server knows of no dead row: said, and vacuumed all the same."""
    store.rows("SELECT pg_stat_reset()::text", user=SUPERUSER)
    dry = run_cli("reclaim", store.url(), "--json").json
    assert dead_rows(dry) == dict.fromkeys(DEAD)
    assert any("since the server's counts began" in note for note in dry["space"]["notices"])
    assert run_cli("reclaim", store.url(), "--apply", "--json").json["ended"] == "completed"
    assert set(DEAD) <= {name for name, moment in vacuum_times(store).items() if moment}


def words(value: object) -> object:
    """Return the keys of an object at every level, for lists those of the first entry."""
    if isinstance(value, dict):
        return {name: words(part) for name, part in value.items()}
    if isinstance(value, list):
        return [words(value[0])] if value and isinstance(value[0], dict) else []
    return None


def test_the_example_on_the_page_has_the_words_of_a_real_answer(store: Database) -> None:
    """What the reference shows of PostgreSQL is what is printed, key by key."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.split("\n## JSON of a reclaim\n")[1]
    example = json.loads(re.findall(r"```json\n(.*?)```", section, re.DOTALL)[1])
    with snapshot(store):
        real = run_cli("reclaim", store.url(), "--json").json
    assert words(example) == words({name: real[name] for name in example})
