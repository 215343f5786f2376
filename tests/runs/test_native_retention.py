"""Our own store takes the same way of retention as every engine's."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun import BackupOrder, Policy, SweepOptions
from afterrun.core.row_rules import RowRules
from afterrun.core.times import DAY
from afterrun.profiles import load_built_in
from afterrun.runs import DEFAULT_POLICY, KeySpent, RunStatus, RunStore, words
from afterrun.runs.schema import runs
from afterrun.runs.side_tables import metadata
from fakes import NOW
from runs.runs_kit import LONG_AGO, MONTH, Home, child_of, ended_run, machine_for, running

ITS_OWN = {"idempotency_tombstones", "store_identity", "server_lease"}
"""Tables of the store itself, whose rows go with no run."""


def _everything(home: Home) -> dict[str, list[str]]:
    """Return all rows of all tables, in a comparable form."""
    return {name: sorted(map(repr, home.rows(table))) for name, table in metadata.tables.items()}


def _rich_tree(store: RunStore) -> str:
    """Make an ended tree that has a row in every table, but for pins."""
    root = running(store, key="rich")
    step, child = child_of(store, root)
    store.start(child)
    store.finish(child, output=b"found", deliver_to="boss")
    for result in store.results.due("boss"):
        store.results.acknowledge(result)
    store.steps.complete(step, output=b"found")
    first = store.tasks.add(root, "first")
    then = store.tasks.add(root, "then", needs=[first])
    store.tasks.complete(first)
    store.tasks.complete(then)
    pay = store.steps.start(root, "pay")
    store.effects.apply(store.effects.propose(pay, "pay", request=b"10", begin=True), receipt=b"ok")
    store.messages.send(root, b"go on", key="go on")
    store.messages.consume(root, record_as=pay)
    turn = store.turns.open(root, "user", content=b"why?")
    store.turns.answer(turn, b"because")
    store.turns.close(turn)
    store.follow_ups.done(store.follow_ups.add(root, "call back"))
    store.checkpoints.save(root, b"state")
    resource = machine_for(store, root)
    store.cancel_tree(str(resource.starter), reason="there")
    store.resources.release(resource)
    store.approvals.approve(store.approvals.ask(root, "go on?"), by="ops")
    store.decisions.decide(store.decisions.ask(root, "where?"), "left", by="ops")
    store.leases.release(store.leases.acquire(root, owner="w", keep_for=timedelta(hours=1)))
    store.continue_as_new(root, content=b"state")
    store.finish(root, output=b"done")
    return root


def test_a_removed_tree_comes_back_from_its_backup_row_by_row(
    home: Home, store: RunStore, tmp_path: Path
) -> None:
    """Runs, their parts, their content and its numbers are as they were, and the store goes on with them."""
    root = _rich_tree(store)
    before = _everything(home)
    path = tmp_path / "backups" / "removed"
    path.parent.mkdir()
    with home.retention() as retention:
        report = retention.prune(MONTH, backup=BackupOrder(path=path))
        assert (report.ended, report.units.removed) == ("completed", 1)
        assert set(home.counts()) == {"idempotency_tombstones"}
        retention.restore(path)
        assert list(retention.verify()) == []
    assert _everything(home) == before
    assert store.output_of(root) == b"done"
    assert not store.create("rich", idempotency_key="rich").new


def test_the_first_sweep_asks_and_an_approved_one_removes(home: Home, store: RunStore) -> None:
    """Automatic removal begins as it does for every engine."""
    ended_run(store)
    home.clock.now = NOW - DAY  # a clock far ahead of the whole store would be asked about again
    live = running(store)
    with home.retention() as retention:
        asked = retention.sweep(MONTH, options=SweepOptions(rest=0.0))
        assert (asked.ended, asked.units.expired) == ("guard", 1)
        report = retention.sweep(MONTH, options=SweepOptions(rest=0.0), approve=asked.fingerprint)
        assert (report.ended, report.units.removed) == ("completed", 1)
        again = retention.sweep(MONTH, options=SweepOptions(rest=0.0))
        assert (again.ended, again.units.removed) == ("completed", 0)
        assert list(retention.verify()) == []
    assert [row["id"] for row in home.rows(runs)] == [live]


def test_age_counts_from_the_latest_end_in_the_tree(home: Home, store: RunStore) -> None:
    """A child that ended yesterday keeps a root that ended long ago."""
    root = running(store)
    step, child = child_of(store, root)
    store.steps.complete(step)
    store.finish(root)
    home.clock.now = NOW - DAY
    store.start(child)
    store.finish(child, RunStatus.FAILED)
    assert home.verdict(root) == ["recent", "keep-for"]


def test_the_default_policy_is_thirty_days_from_the_end(home: Home, store: RunStore) -> None:
    """For trees and for past generations: a day more lets them go, a day less keeps them."""
    for age, gone in ((29, False), (31, True)):
        home.clock.now = NOW - age * DAY
        run = ended_run(store)
        loop = running(store)
        store.continue_as_new(loop)
        with home.retention() as retention:
            assert retention.explain(run, DEFAULT_POLICY).verdict.value == ("expired" if gone else "recent")
            past = retention.explain(f"{loop}/1", DEFAULT_POLICY)
        assert past.verdict.value == ("expired" if gone else "recent")
    default = load_built_in("native").policy
    assert default is not None
    assert default.policy() == DEFAULT_POLICY


def test_a_key_is_spent_for_ever_unless_a_policy_has_a_rule_for_keys(home: Home, store: RunStore) -> None:
    """Once its time is over it starts a run again, but for as long as its own run is there."""
    run = running(store, key="import of May")
    store.finish(run)
    held = running(store, key="import of June")
    store.finish(held, deliver_to="boss")
    home.prune()
    with pytest.raises(KeySpent):
        store.create("import", idempotency_key="import of May")
    keys = {"keys": RowRules(keep_for=timedelta(days=365))}
    assert home.prune(Policy(tables=keys)).kinds["row:keys"].removed == 0
    home.prune(Policy(tables={"keys": RowRules(keep_for=timedelta(days=90))}))
    assert "idempotency_tombstones" not in home.counts()
    assert store.create("import", idempotency_key="import of May").new
    assert store.create("import", idempotency_key="import of June").run.id == held


def test_successful_runs_are_counted_by_name(home: Home, store: RunStore) -> None:
    """The newest two of a name stay; failures are not counted, and go."""
    failed = store.create("import").run.id
    store.start(failed)
    store.finish(failed, RunStatus.FAILED)
    made = [ended_run(store) for _ in range(4)]
    home.prune(Policy(keep_last=2, grace=timedelta(0)))
    assert {row["id"] for row in home.rows(runs)} == {made[2], made[3]}


def test_an_unknown_state_blocks_its_tree_and_forbids_removal(home: Home, store: RunStore) -> None:
    """What a newer version may write is not taken for ended; the database of this one refuses it."""
    run = ended_run(store)
    profile = home.folder / "older.toml"
    text = (Path(words.__file__).parents[1] / "profiles" / "native.toml").read_text("utf-8")
    profile.write_text(text.replace('"failed", "cancelled", "timed_out"]\nsucc', '"failed"]\nsucc'), "utf-8")
    other = running(store)
    store.finish(other, RunStatus.TIMED_OUT)
    [[verdict, *reasons]] = home.verdicts([other], profile=str(profile))
    assert (verdict, reasons) == ("blocked", ["unknown-status"])
    assert home.verdict(run) == ["expired"]


def test_rows_of_every_table_go_with_their_run(home: Home, store: RunStore) -> None:
    """A row in each table that belongs to runs, also where no call fills one yet, leaves with it."""
    run = ended_run(store)
    skipped = {"runs", "blobs", *ITS_OWN}
    with home.behind() as transaction:
        for name, table in metadata.tables.items():
            if name not in skipped and not home.counts().get(name):
                transaction.insert(table, **_any_row(table, run))
    assert metadata.tables.keys() - home.counts().keys() <= ITS_OWN
    assert home.prune().units.removed == 1
    assert set(home.counts()) == set()


def _any_row(table: sa.Table, run: str) -> dict[str, Any]:
    """Return a row of a run, closed where a table tells open from closed."""
    closed = {"status": "cancelled", "ended_at": LONG_AGO, "run_id": run, "generation": 1, "released_at": 1}
    closed |= {"consumed_at": LONG_AGO, "answered_at": LONG_AGO, "began_at": LONG_AGO}
    chosen = closed | {"acknowledged_at": 2, "delivered_at": 1, "resumable": 0, "epoch": 1, "needs": 2}
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.name in chosen:
            row[column.name] = chosen[column.name]
        elif column.name == "content_id":
            row[column.name] = 1
        elif not column.nullable:
            row[column.name] = "text" if isinstance(column.type, sa.Text) else 1
    return row
