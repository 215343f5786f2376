from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun import Policy, SweepOptions
from afterrun.core.times import SECOND
from afterrun.runs import NoSealingKey, RunStore, SchemaTooNew, UpgradeNeeded, UpgradeRefused
from afterrun.runs import upgrade as upgrades
from afterrun.runs.keys import VARIABLE
from afterrun.runs.schema import (
    attempts,
    blobs,
    generations,
    leases,
    obligations,
    runs,
    steps,
    store_identity,
    tombstones,
)
from afterrun.runs.side_tables import checkpoints, effects, messages, receipts
from afterrun.runs.upgrade import upgrade_to, version
from afterrun.runs.words import StepKind
from runs.runs_kit import KEYS, LONG_AGO, Home, running

LOOP = "01900000-0000-7000-8000-000000000001"


def _put(home: Home, *rows: tuple[sa.Table, dict[str, Any]]) -> None:
    """Insert rows; a column that the older schema lacks is not named."""
    with home.database() as database, database.writing() as transaction:
        for table, values in rows:
            transaction.insert(table, **values)


def _first_store(home: Home, *, history: bool = True) -> None:
    """Make a store as the first revision left it: a loop in its third generation."""
    with home.database() as database:
        upgrade_to(database, "0001")
    run = {"id": LOOP, "root_id": LOOP, "name": "loop", "status": "running", "generation": 3}
    _put(home, (runs, run | {"created_at": LONG_AGO, "started_at": LONG_AGO}))
    for number in (1, 2, 3):
        begun = LONG_AGO + number * 100 * SECOND
        status = "running" if number == 3 else "continued"
        values = {"run_id": LOOP, "number": number, "status": status, "started_at": begun}
        _put(home, (generations, values))
        if history:
            _history(home, number, begun, ended=None if number == 3 else begun + 50 * SECOND)


def _history(home: Home, number: int, begun: int, *, ended: int | None) -> None:
    status = "running" if ended is None else "completed"
    place = {"run_id": LOOP, "generation": number}
    step = {"number": 1, "name": "work", "attempt": 1, "status": status, "started_at": begun}
    attempt = {"step": 1, "number": 1, "status": status, "queued_at": begun, "started_at": begun}
    _put(
        home,
        (steps, place | step | {"ended_at": ended and ended - SECOND}),
        (attempts, place | attempt | {"ended_at": ended}),
    )


LATER = {"wake_at", "progress", "recipient", "kind"}
"""Columns of runs and steps that later revisions add."""


def _without(table: sa.Table, names: set[str]) -> sa.Table:
    """Return a table without some of its columns."""
    kept: list[sa.Column[Any]] = [sa.Column(part.name) for part in table.columns if part.name not in names]
    return sa.Table(table.name, sa.MetaData(), *kept)


def _content(home: Home) -> dict[str, Any]:
    """Return the rows of all tables that both revisions have alike, and the version."""
    told: dict[str, Any] = {
        table.name: home.rows(_without(table, LATER)) for table in (steps, attempts, version)
    }
    with home.database() as database, database._engine.connect() as connection:
        schema = database.dialect.schema
        old = sa.select(runs.c.id, runs.c.status, runs.c.ended_at)  # a later revision added others
        told["runs"] = connection.execute(old).fetchall()
        connection.commit()
        columns = sa.inspect(connection).get_columns("generations", schema=schema)
    told["columns"] = [column["name"] for column in columns]
    return told


def _ends(home: Home) -> dict[int, int | None]:
    return {row["number"]: row["ended_at"] for row in home.rows(generations)}


def test_a_store_of_the_first_revision_is_upgraded_with_its_data(empty_home: Home) -> None:
    """Generations end with the newest event of their history; the current one of a live run has no end."""
    _first_store(empty_home)
    told = RunStore.pending(empty_home.location)
    assert told is not None
    assert (told.before, told.after, told.rows) == ("0001", upgrades.NEWEST, 10)
    with empty_home.open() as store:
        assert store.upgraded is not None
        assert (store.upgraded.rows, store.upgraded.notes) == (10, ())
        assert store.get(LOOP).generation == 3
    assert _ends(empty_home) == {1: LONG_AGO + 150 * SECOND, 2: LONG_AGO + 250 * SECOND, 3: None}


def test_the_last_generation_ends_with_its_run(empty_home: Home) -> None:
    """What the run itself tells of its end counts more than its history."""
    _first_store(empty_home, history=False)
    with empty_home.behind() as transaction:
        transaction.change(sa.update(runs).values(status="completed", ended_at=LONG_AGO + 999 * SECOND))
        last = generations.c.number == 3
        transaction.change(sa.update(generations).where(last).values(status="completed"))
    empty_home.open().close()
    assert _ends(empty_home)[3] == LONG_AGO + 999 * SECOND


def test_an_end_that_no_history_tells_stays_unknown_and_is_reported(empty_home: Home) -> None:
    """A generation without steps gets no invented end; the upgrade says how many there are."""
    _first_store(empty_home, history=False)
    with empty_home.open() as store:
        assert store.upgraded is not None
        assert ["2 generations" in note for note in store.upgraded.notes] == [True]
    assert _ends(empty_home) == {1: None, 2: None, 3: None}


MALFORMED = {
    "an event before the year 2000": sa.update(attempts).where(attempts.c.generation == 2).values(ended_at=5),
    "an event still to come": sa.update(steps)
    .where(steps.c.generation == 2)
    .values(ended_at=LONG_AGO + 400 * 86_400 * SECOND),
    "an attempt that goes on": sa.update(attempts)
    .where(attempts.c.generation == 2)
    .values(status="running", ended_at=None),
    "a past generation that runs": sa.update(generations)
    .where(generations.c.number == 2)
    .values(status="running"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_history_stops_the_upgrade_names_the_key_and_changes_nothing(
    empty_home: Home, what: str
) -> None:
    """What contradicts itself is for a person to look at; the store is as it was, row by row."""
    _first_store(empty_home)
    with empty_home.behind() as transaction:
        transaction.change(MALFORMED[what])
    before = _content(empty_home)
    with pytest.raises(UpgradeRefused, match="nothing was changed") as refused:
        empty_home.open()
    assert refused.value.keys == (f"{LOOP}/2",)
    assert f"{LOOP}/2" in str(refused.value)
    assert _content(empty_home) == before


def test_a_refusal_names_20_keys_at_most(empty_home: Home) -> None:
    """Many malformed generations make no endless message."""
    _first_store(empty_home)
    with empty_home.behind() as transaction:
        for number in range(4, 40):
            values = {"run_id": LOOP, "number": number, "status": "continued", "started_at": LONG_AGO}
            transaction.insert(generations, **values)
    with pytest.raises(UpgradeRefused) as refused:
        empty_home.open()
    assert len(refused.value.keys) == 20


def test_an_upgrade_waits_for_leases_to_end(empty_home: Home) -> None:
    """While a runner holds a run, the store stays as it is; once the lease is over, it is upgraded."""
    _first_store(empty_home)
    lease = {"run_id": LOOP, "epoch": 1, "owner": "w", "acquired_at": LONG_AGO}
    _put(empty_home, (leases, lease | {"until": empty_home.clock.now + 60 * SECOND}))
    with pytest.raises(UpgradeRefused, match="1 leases are live"):
        empty_home.open()
    assert RunStore.pending(empty_home.location) is not None
    empty_home.clock.now += 61 * SECOND
    with empty_home.open() as store:
        assert store.upgraded is not None


def test_an_old_store_is_not_opened_without_leave_to_upgrade_it(empty_home: Home) -> None:
    """Without ``migrate`` the caller learns what the upgrade would cost, and nothing is changed."""
    _first_store(empty_home)
    with pytest.raises(UpgradeNeeded, match="rewrites 10 rows"):
        RunStore.open(empty_home.location, migrate=False)
    assert RunStore.pending(empty_home.location) is not None


def test_no_store_is_made_without_leave(empty_home: Home) -> None:
    """Without ``migrate`` an empty database stays empty."""
    with pytest.raises(UpgradeNeeded, match="no run store yet"):
        RunStore.open(empty_home.location, migrate=False)
    assert RunStore.pending(empty_home.location) is not None


def test_a_process_older_than_the_schema_is_refused(home: Home) -> None:
    """A schema that this version does not know is left alone, whatever ``migrate`` says."""
    with home.behind() as transaction:
        transaction.change(sa.update(version).values(version_num="9999"))
    for migrate in (True, False):
        with pytest.raises(SchemaTooNew, match="a newer one upgraded it"):
            RunStore.open(home.location, migrate=migrate)


def test_a_store_that_is_up_to_date_is_opened_while_runs_are_held(home: Home) -> None:
    """Leases are in the way of an upgrade only, and opening again changes nothing."""
    with home.open() as store:
        store.leases.acquire(running(store), owner="w", keep_for=timedelta(hours=1))
    before = home.counts()
    with home.open() as store:
        assert store.upgraded is None
    assert home.counts() == before


def _second_store(home: Home) -> None:
    """Make a store as the second revision left it, with a row of each kind beside the steps of its run."""
    with home.database() as database:
        upgrade_to(database, "0002")
    at, of = LONG_AGO, {"run_id": LOOP}
    part = of | {"generation": 1}
    began = {"step": 1, "attempt": 1, "request_id": 1, "opened_at": at}
    run = {"id": LOOP, "root_id": LOOP, "name": "loop", "status": "running", "generation": 2}
    owed = of | {"root_id": LOOP, "generation": 1, "kind": "resumable-checkpoint", "subject": "2"}
    _put(
        home,
        (blobs, {"id": 1, "address": "a", "size": 2, "content": b"hi", "created_at": at}),
        (runs, run | {"created_at": at, "started_at": at}),
        (generations, of | {"number": 1, "status": "continued", "started_at": at, "ended_at": at}),
        (generations, of | {"number": 2, "status": "running", "started_at": at}),
        (messages, of | {"number": 1, "sender": "me", "content_id": 1, "sent_at": at, "consumed_at": at}),
        (messages, of | {"number": 2, "content_id": 1, "sent_at": at}),
        _old("turns", of | {"number": 1, "role": "user", "opened_at": at, "ended_at": at}),
        _old("follow_ups", of | {"number": 1, "subject": "call", "opened_at": at}),
        _old("follow_ups", of | {"number": 2, "subject": "ask", "opened_at": at, "due_at": at + SECOND}),
        _old("managed_resources", of | {"number": 1, "kind": "vm", "address": "vm-1", "opened_at": at}),
        (checkpoints, part | {"number": 1, "content_id": 1, "resumable": 0, "made_at": at}),
        (checkpoints, part | {"number": 2, "content_id": 1, "resumable": 1, "made_at": at}),
        (obligations, owed | {"opened_at": at}),
        (effects, part | began | {"number": 1, "status": "applied", "ended_at": at}),
        (effects, part | began | {"number": 2, "status": "ambiguous"}),
        (effects, part | began | {"number": 3, "status": "pending"}),
        (receipts, part | {"effect": 1, "content_id": 1, "received_at": at}),
    )


def _old(name: str, values: dict[str, Any]) -> tuple[sa.Table, dict[str, Any]]:
    """Return a row of a table as it was."""
    return sa.Table(name, sa.MetaData(), *(sa.Column(column) for column in values)), values


def test_what_runs_said_and_promised_is_upgraded_with_its_rows(empty_home: Home) -> None:
    """Every row is there, what is new is filled in, and the calls go on with it."""
    _second_store(empty_home)
    told = RunStore.pending(empty_home.location)
    assert told is not None
    assert (told.before, told.rows) == ("0002", 14)
    with empty_home.open() as store:
        assert [(one.number, one.read_by) for one in store.messages.of(LOOP)] == [(1, None), (2, None)]
        assert [row["generation"] for row in empty_home.rows(messages)] == [2, None]
        found = store.messages.consume(LOOP)
        assert found is not None
        assert (found[0].number, found[1]) == (2, b"hi")
        assert [turn.generation for turn in store.turns.of(LOOP)] == [2]
        assert [one.subject for one in store.follow_ups.due()] == ["call", "ask"]
        [resource] = store.resources.held()
        assert (resource.request_key, resource.fingerprint, resource.starter) == (
            "resource 1",
            "unknown",
            None,
        )
        store.resources.release(resource)
        resumable = store.checkpoints.newest(LOOP, resumable=True)
        assert resumable is not None
        assert resumable.number == 2
        applied, doubtful, pending = store.effects.of(LOOP)
        assert store.effects.receipt_of(applied) == b"hi"
        assert [one.began_at is None for one in (applied, doubtful, pending)] == [False, False, True]
        assert store.effects.settle(doubtful, applied=False, by="ops").status == "cancelled"


def test_a_resumable_checkpoint_that_nobody_owed_is_settled(empty_home: Home) -> None:
    """Without open work there is none to resume from; the upgrade makes up none."""
    _second_store(empty_home)
    with empty_home.behind() as transaction:
        transaction.change(sa.delete(obligations))
    with empty_home.open() as store:
        assert store.checkpoints.newest(LOOP, resumable=True) is None


def test_two_processes_that_upgrade_at_once_do_it_once(
    empty_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one finds the work done when it gets the lock."""
    _first_store(empty_home)
    stale = RunStore.pending(empty_home.location)
    empty_home.open().close()
    monkeypatch.setattr(upgrades, "pending", lambda _: stale)
    with empty_home.open() as store:
        assert store.upgraded is None


def test_an_upgraded_loop_loses_its_past_to_retention(empty_home: Home) -> None:
    """The ends that the upgrade found are those by which past generations go."""
    _first_store(empty_home)
    empty_home.open().close()
    policy = Policy(generations=Policy(keep_for=timedelta(days=7)))
    empty_home.prune(policy)
    assert list(_ends(empty_home)) == [3]


def _store_with_content(home: Home) -> dict[int, bytes]:
    """Make a store as the second revision left it: content in the clear, by its SHA-256."""
    with home.database() as database:
        upgrade_to(database, "0002")
    held = {1: b"what it was asked", 2: b'{"token": "ghp_' + b"a1" * 18 + b'"}', 3: bytes(range(256)) * 300}
    old = sa.Table("blobs", sa.MetaData(), *(sa.Column(name) for name in OLD_BLOB))
    for number, content in held.items():
        address = hashlib.sha256(content).hexdigest()
        values = {"id": number, "address": address, "size": len(content), "content": content}
        _put(home, (old, values | {"created_at": LONG_AGO}))
    run = {"id": LOOP, "root_id": LOOP, "name": "agent", "status": "completed", "generation": 1}
    times = {"created_at": LONG_AGO, "started_at": LONG_AGO, "ended_at": LONG_AGO + SECOND}
    _put(home, (runs, run | times | {"input_id": 1, "output_id": 2, "idempotency_key": "k"}))
    generation = {"run_id": LOOP, "number": 1, "status": "completed", "input_id": 3}
    _put(home, (generations, generation | {"started_at": LONG_AGO, "ended_at": LONG_AGO + SECOND}))
    for key, run_id in (("k", LOOP), ("gone", "no more")):
        digest = hashlib.sha256(held[2]).hexdigest()
        stone = {"key": key, "run_id": run_id, "status": "completed", "outcome_digest": digest}
        _put(home, (tombstones, stone | {"ended_at": LONG_AGO}))
    return held


OLD_BLOB = ("id", "address", "size", "content", "created_at")


def test_content_of_the_second_revision_is_sealed_by_the_first_key(empty_home: Home) -> None:
    """Numbers and content are as before; addresses are new, and no digest of before is left."""
    held = _store_with_content(empty_home)
    told = RunStore.pending(empty_home.location)
    assert told is not None
    assert (told.before, told.rows) == ("0002", 4)
    with empty_home.open() as store:
        assert (store.input_of(LOOP), store.output_of(LOOP)) == (held[1], held[2])
        display = store.output_display_of(LOOP)
        assert display is not None
        assert display.text == '{"token": "[removed]"}'
        assert store.create("copy", content=held[3]).new
        rows = {row["id"]: row for row in empty_home.rows(blobs)}
        assert {number: row["address"] for number, row in rows.items()} == {
            number: store.address_of(content) for number, content in held.items()
        }
        assert {row["created_at"] for row in rows.values()} == {LONG_AGO}
        stones = {row["key"]: row["outcome_digest"] for row in empty_home.rows(tombstones)}
        assert stones == {"k": store.address_of(held[2]), "gone": None}
    assert b"what it was asked" not in b"".join(bytes(row["content"]) for row in empty_home.rows(blobs))


def test_content_of_the_second_revision_stays_shut_without_a_key(
    empty_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are upgraded; content waits for a key, or for the word that none is wanted."""
    held = _store_with_content(empty_home)
    monkeypatch.delenv(VARIABLE)
    with empty_home.open() as store, pytest.raises(NoSealingKey):
        store.input_of(LOOP)
    with empty_home.open("off") as store:
        assert (store.input_of(LOOP), store.output_of(LOOP)) == (held[1], held[2])
    with empty_home.open(KEYS) as store:
        assert (store.input_of(LOOP), store.output_of(LOOP)) == (held[1], held[2])


def test_content_is_not_sealed_while_runs_are_held_or_without_leave(
    empty_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that has the store open could write in the clear; nothing is changed until it is gone."""
    monkeypatch.delenv(VARIABLE)
    with empty_home.open("off") as store:
        run = store.create("agent", content=b"in the clear").run.id
        lease = store.leases.acquire(run, owner="w", keep_for=timedelta(hours=1))
        before = [empty_home.rows(table) for table in (blobs, store_identity)]
        with pytest.raises(UpgradeRefused, match="leases are live"):
            empty_home.open(KEYS)
        store.leases.release(lease)
        with pytest.raises(UpgradeNeeded, match="not sealed yet"):
            RunStore.open(empty_home.location, sealing=KEYS, migrate=False)
        assert [empty_home.rows(table) for table in (blobs, store_identity)] == before


def _store_of_ended_roots(home: Home) -> dict[str, str]:
    """Make a store as the third revision left it: an ended root with an ended child, and a live root."""
    with home.database() as database:
        upgrade_to(database, "0003")
    ids = {
        name: f"01900000-0000-7000-8000-00000000000{n}" for n, name in enumerate(("root", "child", "live"))
    }
    place = {"run_id": ids["root"], "generation": 1}
    for name, run in ids.items():
        ended = None if name == "live" else LONG_AGO + SECOND
        status = "running" if ended is None else "completed"
        root = ids["root"] if name == "child" else run
        values = {"id": run, "root_id": root, "name": name, "status": status, "generation": 1}
        link = {"parent_id": ids["root"], "parent_generation": 1, "parent_step": 1, "parent_attempt": 1}
        values |= link if name == "child" else {}
        generation = {"run_id": run, "number": 1, "status": status, "started_at": LONG_AGO}
        _put(home, (runs, values | {"created_at": LONG_AGO, "ended_at": ended}))
        _put(home, (generations, generation | {"ended_at": ended}))
    step = place | {"number": 1, "name": "delegate", "status": "completed", "attempt": 1}
    _put(home, (steps, step | {"started_at": LONG_AGO, "ended_at": LONG_AGO + SECOND}))
    return ids


def test_after_an_upgrade_sweeps_look_at_every_ended_root(empty_home: Home) -> None:
    """They find what ended before they went by roots alone, and remove it."""
    ids = _store_of_ended_roots(empty_home)
    told = RunStore.pending(empty_home.location)
    assert told is not None
    assert (told.before, told.rows) == ("0003", 3)
    empty_home.open().close()
    looks = {row["id"]: (row["due_at"], row["look_at"]) for row in empty_home.rows(runs)}
    due = {ids["root"]: LONG_AGO + SECOND, ids["child"]: None, ids["live"]: None}
    assert looks == {run: (moment, None) for run, moment in due.items()}
    policy, options = Policy(keep_for=timedelta(days=30)), SweepOptions(offline=True)
    with empty_home.retention() as retention:
        report = retention.sweep(policy, options=options, always=True)
    assert (report.units.scanned, report.units.removed) == (1, 1)
    assert [row["id"] for row in empty_home.rows(runs)] == [ids["live"]]


def test_what_stood_there_before_workflows_is_as_it_was(empty_home: Home) -> None:
    """Steps are ordinary steps, no run has a time to go on, and a server can have the store."""
    _first_store(empty_home)
    with empty_home.open() as store:
        assert [entry.kind for entry in store.history.page(LOOP)] == [StepKind.STEP]
        assert store.claims.next_due() is None
        assert store.serving.held_until() is None
        assert store.serving.acquire(owner="server", keep_for=timedelta(hours=1)).epoch == 1
        assert store.serving.held_until() is not None
    [run] = empty_home.rows(runs)
    assert (run["wake_at"], run["progress"], run["recipient"]) == (None, None, None)
