"""Failures of a datasource: refused before anything is removed, or on the way without harm."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Refused, Retention, SweepOptions
from afterrun.core.errors import Exit, ProfileError, UsageError
from afterrun.profiles.loader import load_profile
from cli.kit import run_cli
from datasource.pairs import (
    CRASHED,
    EXPIRED,
    HELD,
    MONTH,
    ROWS,
    WAITING,
    Pair,
    ServerPairs,
    Side,
)
from pg_server import SUPERUSER, Database

pytestmark = pytest.mark.engine

ALONE = SweepOptions(batch_units=1)


def test_commit_that_fails_after_the_datasource_has_committed_is_tried_again(
    file_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that keeps the store from committing: the batch comes back and goes, nothing stays pending."""
    with file_pair.retention() as retention, closing(sqlite3.connect(file_pair.store.location)) as reader:
        reader.isolation_level = None
        annex = retention.store.reach.annexes[0]
        monkeypatch.setattr("afterrun.stores.sql.sqlite.dialect.BUSY_MS", 200)
        real = annex.remove

        def remove(keys: list[str]) -> int:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM workflow_status").fetchall()
            return real(keys)

        def let_go(_seconds: float) -> None:
            if reader.in_transaction:
                reader.execute("COMMIT")

        monkeypatch.setattr(annex, "remove", remove)
        retention.store.dialect.driver.execute("PRAGMA busy_timeout=200")  # type: ignore[attr-defined]
        first = retention.prune(MONTH, options=replace(ALONE, sleep=let_go), only=[CRASHED])
        assert first.units.deferred == 1
        assert first.interrupted is not None
        assert first.interrupted["left"] == 1
        let_go(0.0)
        monkeypatch.undo()
        again = retention.prune(MONTH)
    assert (again.ended, again.units.removed) == ("completed", len(EXPIRED))
    assert file_pair.runs() == {WAITING}
    assert file_pair.intents() == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_locked_datasource_is_waited_for_briefly_and_the_unit_deferred(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The runs are locked meanwhile, so nobody waits for the datasource longer than its bound."""
    pair: Pair = request.getfixturevalue("file_pair" if kind == "sqlite" else "server_pair")
    with holding_row(pair, CRASHED), pair.retention() as retention:
        report = retention.prune(MONTH, options=ALONE)
    assert (report.units.removed, report.units.deferred) in {(2, 1), (1, 2)}
    assert CRASHED in pair.runs() & pair.held()
    assert report.longest_batch < 2.5
    assert report.interrupted is None
    assert pair.intents() == []


@contextmanager
def holding_row(pair: Pair, run_id: str) -> Iterator[None]:
    """Hold a lock on a run's row in the datasource: on SQLite, that is one on all rows."""
    if not pair.datasource.on_server:
        with closing(sqlite3.connect(pair.datasource.location, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield
        return
    engine = sa.create_engine(pair.datasource.location, poolclass=sa.NullPool)
    lock = "SELECT 1 FROM dbos.datasource_outputs WHERE workflow_id = :id FOR UPDATE"
    with engine.begin() as connection:
        connection.execute(sa.text(lock), {"id": run_id})
        yield
    engine.dispose()


def test_rows_that_come_while_a_unit_goes_keep_it(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that nobody announced are in no intent: the batch is rolled back, on both sides."""
    with pair.retention() as retention:
        annex = retention.store.reach.annexes[0]
        monkeypatch.setattr(annex, "remove", lambda _keys: 0)
        report = retention.prune(MONTH, options=ALONE)
    assert (report.units.removed, report.units.deferred) == (1, len(HELD))
    assert (pair.runs(), pair.held()) == (HELD | {WAITING}, HELD | {WAITING})
    assert pair.intents() == []


def test_state_that_cannot_be_written_ends_the_removal_before_anything_goes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be remembered is not done."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pair.retention() as retention:
        monkeypatch.setattr("afterrun.state.intents._sync_folder", full)
        report = retention.prune(MONTH)
    assert (report.ended, report.units.removed) == ("failed", 0)
    assert report.message.startswith("state: ")
    assert (pair.runs(), pair.held()) == (EXPIRED | {WAITING}, HELD | {WAITING})


# What is refused, before anything is removed


def test_unreachable_datasource_is_refused(pair: Pair, tmp_path: Path) -> None:
    """A place where nothing answers, or that has no such table: exit 4, and nothing was removed."""
    places = [str(tmp_path / "missing.sqlite"), "postgresql://app:secret@127.0.0.1:1/app", ""]
    for place in [*places, pair.store.location if pair.store.on_server else str(empty(tmp_path))]:
        words = ("--keep-for", "30d", "--apply", "--no-backup", "--yes")
        answer = run_cli("prune", pair.store.location, "--datasource", place, *words)
        assert answer.code in {Exit.REFUSED, Exit.USAGE}, answer
        assert "secret" not in answer.err
    assert (pair.runs(), pair.held()) == (EXPIRED | {WAITING}, HELD | {WAITING})


def empty(folder: Path) -> Path:
    """Make a database without the tables."""
    with closing(sqlite3.connect(folder / "other.sqlite")) as connection:
        connection.execute("CREATE TABLE t (a)")
    return folder / "other.sqlite"


def test_place_that_makes_no_sense_is_refused(pair: Pair) -> None:
    """The store itself, and one place twice."""
    store, datasource = pair.store.location, pair.datasource.location
    with pytest.raises(UsageError, match="named twice"):
        Retention(store, state=pair.state, datasources=[datasource, datasource])
    with pytest.raises((UsageError, Refused)):
        Retention(store, state=pair.state, datasources=[store])


def test_profile_that_knows_no_table_elsewhere_takes_no_datasource(file_pair: Pair, tmp_path: Path) -> None:
    """Only what a profile declares can be reached."""
    profile = tmp_path / "own.toml"
    text = run_cli("profile", "show", "dbos").out
    before, _, _ = text.partition("[[units.tree.elsewhere]]")
    profile.write_text(before, encoding="utf-8")
    with pytest.raises(UsageError, match="leave --datasource out"):
        Retention(
            file_pair.store.location,
            profile=str(profile),
            state=file_pair.state,
            datasources=[file_pair.datasource.location],
        )


CHANGES: dict[str, tuple[str, ...]] = {
    "was never read": ("UPDATE {s}dbos_datasource_migrations SET version = 2",),
    "no index serves": (
        "CREATE TABLE {s}outputs AS SELECT * FROM {s}datasource_outputs",
        "DROP TABLE {s}datasource_outputs",
        "ALTER TABLE {s}outputs RENAME TO datasource_outputs",
    ),
    "a foreign key of notes": (
        "CREATE TABLE {s}notes (w TEXT, n INTEGER, FOREIGN KEY (w, n) REFERENCES {s}datasource_outputs)",
    ),
}
"""What a plan says, and the changes that make it say so."""


@pytest.mark.parametrize("why", CHANGES)
def test_table_that_is_not_as_it_was_read_forbids_removal(pair: Pair, why: str) -> None:
    """A plan works and says why; a removal is refused."""
    for statement in CHANGES[why]:
        pair.datasource.rows(statement)
    with pair.retention() as retention:
        assert any(why in notice for notice in retention.plan(MONTH).notices)
        with pytest.raises(Refused, match=why):
            retention.prune(MONTH)
    assert pair.held() == HELD | {WAITING}


def test_trigger_on_the_table_forbids_removal(file_pair: Pair) -> None:
    """Nobody knows what it would do."""
    file_pair.datasource.rows(
        "CREATE TRIGGER t AFTER DELETE ON datasource_outputs BEGIN DELETE FROM charges; END"
    )
    with file_pair.retention() as retention, pytest.raises(Refused, match="has a trigger 't'"):
        retention.prune(MONTH)


def test_table_from_before_versions_is_read(pair: Pair) -> None:
    """The engine adopted tables that were there before it counted versions."""
    pair.datasource.rows("DROP TABLE {s}dbos_datasource_migrations")
    with pair.retention() as retention:
        assert retention.prune(MONTH).rows[ROWS] == len(HELD)


def test_role_without_the_right_to_remove_there_is_told_what_to_grant(
    on_server: ServerPairs, server_pair: Pair
) -> None:
    """The rights that DBOS grants an application suffice: SELECT and DELETE, and no UPDATE."""
    server, name = on_server.server, f"reader-{time.monotonic_ns()}"
    server.create_role(name)
    place = server.url(str(sa.make_url(server_pair.datasource.location).database), user=name)
    try:
        for grant in (
            f'GRANT USAGE ON SCHEMA dbos TO "{name}"',
            f'GRANT SELECT ON ALL TABLES IN SCHEMA dbos TO "{name}"',
        ):
            server_pair.datasource.rows(grant)
        pair = Pair(server_pair.store, Side(place), server_pair.state)
        with pair.retention() as retention, pytest.raises(Refused, match="GRANT DELETE"):
            retention.prune(MONTH)
        server_pair.datasource.rows(f'GRANT DELETE ON dbos.datasource_outputs TO "{name}"')
        with pair.retention() as retention:
            assert retention.prune(MONTH).rows[ROWS] == len(HELD)
    finally:
        Database(server, sa.make_url(place).database or "").run(f'DROP OWNED BY "{name}"', user=SUPERUSER)
        server.drop_role(name)


def test_profile_that_lists_a_table_twice_is_refused() -> None:
    """It would be counted, and removed from, twice."""
    text = run_cli("profile", "show", "dbos").out
    _, mark, part = text.partition("[[units.tree.elsewhere]]")
    with pytest.raises(ProfileError, match="elsewhere lists a table twice"):
        load_profile(f"{text}\n{mark}{part}", source="own")
