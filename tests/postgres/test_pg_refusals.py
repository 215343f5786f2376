"""What is refused on PostgreSQL, before anything is removed, and with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from afterrun.profiles.loader import built_in_text
from cli.kit import Answer, run_cli
from dumps import Dump
from memory import RUNS, STEPS
from pg_dumps import dump_postgres, insert_rows
from pg_proxy import Proxy, program
from pg_server import SUPERUSER, Database, Server, await_replay
from sites import EVENTS, SCHEMA, empty_store, event, run, step

POLICY: Final = ("--keep-for", "30d")
LOOKS: Final = ("plan", "explain", "dry run", "inspect")
REMOVALS: Final = ("prune", "sweep")
COMMANDS: Final = {
    "plan": ("plan", "{}", *POLICY),
    "explain": ("explain", "{}", "x", *POLICY),
    "dry run": ("prune", "{}", *POLICY),
    "inspect": ("inspect", "{}"),
    "verify": ("verify", "{}"),
    "prune": ("prune", "{}", *POLICY, "--apply", "--no-backup", "--yes"),
    "sweep": ("sweep", "{}", *POLICY),
}


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own settings, state and terminal out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFTERRUN_STORE", "AFTERRUN_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(database: Database) -> Database:
    """Give a store with one expired tree."""
    database.refill(empty_store(database.server, 125))
    with database.connect(SUPERUSER) as connection:
        rows = [(RUNS, run("x")), (RUNS, run("y", "x")), (STEPS, step("y")), (EVENTS, event("y"))]
        insert_rows(connection, SCHEMA, rows)
    return database


@pytest.fixture
def unchanged(store: Database) -> Iterator[None]:
    """Expect all rows of the store to be there afterwards."""
    before = rows_of(store)
    yield
    assert rows_of(store) == before


def rows_of(database: Database) -> Dump:
    """Return all rows."""
    with database.connect(SUPERUSER) as connection:
        return dump_postgres(connection, SCHEMA)


def say(command: str, url: str) -> Answer:
    """Run a command on a store; whatever it says, it says no password."""
    answer = run_cli(*(word.format(url) for word in COMMANDS[command]))
    secret = sa.make_url(url).password
    assert secret is None or secret[:16] not in answer.out + answer.err
    return answer


def grant(database: Database, role: str, rights: str, *, on: str = "ALL TABLES IN SCHEMA dbos") -> None:
    """Give a role rights on tables, and on the schema."""
    database.run(f'GRANT USAGE ON SCHEMA {SCHEMA} TO "{role}"; GRANT {rights} ON {on} TO "{role}"')


def all_refused(commands: tuple[str, ...], url: str, *words: str) -> None:
    """Expect each command to be refused with these words."""
    for command in commands:
        answer = say(command, url)
        assert answer.code == 4, (command, answer)
        for word in words:
            assert word in answer.err, (command, word)


def all_work(commands: tuple[str, ...], url: str) -> None:
    """Expect each command to do its work."""
    for command in commands:
        answer = say(command, url)
        assert answer.code == 0, (command, answer)


def test_without_the_schema_nothing_is_read(store: Database, role: str, unchanged: None) -> None:
    """A role that may read tables but not enter their schema is told the GRANT it lacks."""
    store.run(f'GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO "{role}"')
    all_refused((*LOOKS, "verify", *REMOVALS), store.url(role), f'GRANT USAGE ON SCHEMA {SCHEMA} TO "{role}"')


def test_without_select_nothing_is_judged(store: Database, role: str, unchanged: None) -> None:
    """A table that cannot be read may hold what protects a run."""
    grant(store, role, "SELECT, UPDATE, DELETE")
    store.run(f'REVOKE SELECT ON {SCHEMA}.{STEPS} FROM "{role}"')
    all_refused(
        (*LOOKS, "verify", *REMOVALS), store.url(role), f'GRANT SELECT ON {SCHEMA}.{STEPS} TO "{role}"'
    )


def test_without_delete_a_role_may_look(store: Database, role: str, unchanged: None) -> None:
    """Plan and explain work; removal names every table that lacks the right."""
    grant(store, role, "SELECT, UPDATE")
    all_work((*LOOKS, "verify"), store.url(role))
    all_refused(REMOVALS, store.url(role), "GRANT DELETE ON ", f"{SCHEMA}.{STEPS}, ", f' TO "{role}"')


def test_without_update_on_any_column_rows_cannot_be_locked(
    store: Database, role: str, unchanged: None
) -> None:
    """To lock a row takes UPDATE on a column: any one of the run table."""
    grant(store, role, "SELECT, DELETE")
    all_work(LOOKS, store.url(role))
    all_refused(
        REMOVALS,
        store.url(role),
        "may not lock rows",
        f'GRANT UPDATE (COLUMN) ON {SCHEMA}.{RUNS} TO "{role}"',
    )


def test_one_column_is_enough_to_lock_rows(store: Database, role: str) -> None:
    """The least rights: SELECT and DELETE, and UPDATE on one column of the run table."""
    grant(store, role, "SELECT, DELETE")
    store.run(f'GRANT UPDATE (application_version) ON {SCHEMA}.{RUNS} TO "{role}"')
    assert say("prune", store.url(role)).code == 0
    assert rows_of(store)[RUNS] == []


@pytest.mark.parametrize("command", ["prune", "sweep"])
def test_a_role_whose_transactions_are_read_only_removes_nothing(
    store: Database, role: str, unchanged: None, command: str
) -> None:
    """Somebody set it so; nothing of ours overrides it."""
    grant(store, role, "SELECT, UPDATE, DELETE")
    store.run(f'ALTER ROLE "{role}" SET default_transaction_read_only = on', user=SUPERUSER)
    all_work(LOOKS, store.url(role))
    all_refused((command,), store.url(role), "read-only", "needs a role that may write")


@pytest.mark.parametrize("table", [RUNS, STEPS])
def test_rows_that_security_hides_are_an_obstacle(
    store: Database, role: str, unchanged: None, table: str
) -> None:
    """Even a plan is refused: what is hidden may protect what is seen. The owner sees all, unless forced."""
    grant(store, role, "SELECT, UPDATE, DELETE")
    store.run(f"ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY")
    all_refused((*LOOKS, "verify", *REMOVALS), store.url(role), f"{SCHEMA}.{table}", "BYPASSRLS")
    all_work(LOOKS, store.url())
    store.run(f"ALTER TABLE {SCHEMA}.{table} FORCE ROW LEVEL SECURITY")
    all_refused(LOOKS, store.url(), "BYPASSRLS")


def test_a_trigger_that_nobody_knows_is_an_obstacle(store: Database, unchanged: None) -> None:
    """What it would do when rows go is unknown; a profile that lists it admits it."""
    store.run(trigger_on(EVENTS))
    all_work(LOOKS, store.url())
    all_refused(REMOVALS, store.url(), "'watch'", "detect.triggers", "--profile FILE")


def test_a_superuser_does_not_run_the_triggers_of_others(
    store: Database, unchanged: None, tmp_path: Path
) -> None:
    """Whoever owns the trigger would get all rights through it, even where a profile knows it."""
    store.run(trigger_on(EVENTS))
    profile = tmp_path / "own.toml"
    profile.write_text(
        built_in_text("dbos").replace("[detect]", '[detect]\ntriggers = ["watch"]'), encoding="utf-8"
    )
    for command in REMOVALS:
        words = [word.format(store.url(SUPERUSER)) for word in COMMANDS[command]]
        answer = run_cli(*words, "--profile", profile)
        assert answer.code == 4
        assert "connect as the owner of the tables" in answer.err
    owner = run_cli(*(word.format(store.url()) for word in COMMANDS["dry run"]), "--profile", profile)
    assert owner.code == 0


def test_a_superuser_may_remove_where_no_trigger_is(store: Database) -> None:
    """The engine's own trigger works at INSERT and harms nobody."""
    assert say("prune", store.url(SUPERUSER)).code == 0
    assert rows_of(store)[RUNS] == []


def test_a_foreign_key_from_another_schema_blocks_what_it_refers_to(store: Database, unchanged: None) -> None:
    """Blocked, not refused: the tree has a known reason to stay, and the plan names the table."""
    store.run(
        f"CREATE SCHEMA billing; CREATE TABLE billing.bills (id int, run text REFERENCES {SCHEMA}.{RUNS});"
        "INSERT INTO billing.bills VALUES (1, 'y')"
    )
    answer = run_cli("prune", store.url(), *POLICY, "--apply", "--no-backup", "--yes", "--json")
    assert answer.code == 0
    assert answer.json["units"]["tree"]["blocked"] == {"unknown-reference:billing.bills": 1}
    assert answer.json["units"]["tree"]["removed"] == 0


def test_a_foreign_key_from_a_table_that_cannot_be_read_is_an_obstacle(
    store: Database, role: str, unchanged: None
) -> None:
    """Which units it would block cannot be known."""
    grant(store, role, "SELECT, UPDATE, DELETE")
    store.run(
        f"CREATE SCHEMA billing; CREATE TABLE billing.bills (id int, run text REFERENCES {SCHEMA}.{RUNS})"
    )
    all_refused((*LOOKS, *REMOVALS), store.url(role), f'GRANT USAGE ON SCHEMA billing TO "{role}"')
    store.run(f'GRANT USAGE ON SCHEMA billing TO "{role}"')
    all_refused((*LOOKS, *REMOVALS), store.url(role), f'GRANT SELECT ON billing.bills TO "{role}"')


def test_a_standby_is_for_looking(store: Database, standby: Server, unchanged: None) -> None:
    """Plan, explain, inspect and verify work there; removal says where it belongs."""
    await_replay(store.server, standby)
    url = standby.url(store.name)
    all_work((*LOOKS, "verify"), url)
    all_refused(REMOVALS, url, "standby", "removal on the primary")


def test_a_proxy_that_pools_transactions_is_refused_and_left_as_it_was(
    store: Database, proxy: Proxy, unchanged: None
) -> None:
    """No lock would last there, and no setting of ours stays behind for the engine's connections."""
    url = proxy.url(store.name)
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'client_encoding'"
    engine = sa.create_engine(url, poolclass=sa.NullPool)

    def seen() -> list[tuple[str, ...]]:
        connections = [engine.connect() for _ in range(4)]
        rows = [tuple(row) for each in connections for row in each.execute(sa.text(settings))]
        marks = [
            each.execute(sa.text("SELECT current_setting('afterrun.mark', true)")).scalar()
            for each in connections
        ]
        for each in connections:
            each.close()
        assert set(marks) == {None}
        return rows

    before = seen()
    all_refused((*LOOKS, *REMOVALS), url, "PgBouncer", "give the address of the server itself")
    assert seen() == before


def test_a_proxy_that_pools_sessions_is_as_good_as_the_server(store: Database) -> None:
    """There the connection is ours until we close it."""
    if program() is None:
        pytest.skip("needs PgBouncer, which only root can install (make tools)")
    with Proxy(store.server, mode="session") as proxy:
        all_work((*LOOKS, "verify", "prune"), proxy.url(store.name))
    assert rows_of(store)[RUNS] == []


def trigger_on(table: str) -> str:
    """Return a script that makes a trigger of the owner's on a table."""
    return (
        "CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';"
        f"CREATE TRIGGER watch BEFORE DELETE ON {SCHEMA}.{table} FOR EACH ROW EXECUTE FUNCTION public.watch()"
    )
