"""Superseded checkpoints of real threads: every command, and the engine afterwards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Refused, Report, Retention, SweepOptions
from afterrun.cli import main
from afterrun.stores.sql.backups import BackupOrder

from .langgraph_cuts import cuts, going
from .langgraph_fixtures import Untouched, _checkpoint_database, kind, made, untouched
from .langgraph_stores import GATHERING, Store, content, counts, python, run_langgraph, threads
from .test_langgraph_cuts import remaining, without_names

__all__ = ["_checkpoint_database", "kind", "made", "untouched"]

pytestmark = pytest.mark.engine

OLD = Policy(generations=Policy(keep_for=timedelta(days=30)))


def opened(store: Store) -> Retention:
    """Open a store with a state of its own."""
    return Retention(store.location, state=store.state)


def prune(store: Store, policy: Policy, *, offline: bool = True) -> Report:
    """Remove what a policy lets go and make sure that the store is sound afterwards."""
    with opened(store) as retention:
        report = retention.prune(policy, options=SweepOptions(offline=offline))
        assert report.ended == "completed", report.message
        assert list(retention.verify()) == []
    return report


def test_the_schema_was_read(made: Store) -> None:
    """The stores that these versions make are recognised, and may be written to."""
    with opened(made) as retention:
        schema = retention.store.schema()
    assert schema.read
    assert not schema.problems


@pytest.mark.parametrize("offline", [True, False])
def test_exactly_what_the_keep_set_lets_go_goes(made: Store, *, offline: bool) -> None:
    """The plan's rows go, in each table, and no other row; a second pass removes nothing."""
    wanted, before = going(cuts(made)), counts(made)
    with opened(made) as retention:
        plan = retention.plan(OLD)
    report = prune(made, OLD, offline=offline)
    after = counts(made)
    assert {name: before[name] - after[name] for name in before} == dict(report.rows) == dict(plan.rows)
    left = made.rows("SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints")
    assert not {(thread, (namespace, name)) for thread, namespace, name in left} & wanted
    assert report.rows["checkpoints"] == len(wanted)
    assert plan.others["generation"].expired == report.units.removed
    assert prune(made, OLD).units.removed == 0


def test_every_checkpoint_is_counted_once(made: Store) -> None:
    """The units of a plan, all together, are the rows of the table."""
    with opened(made) as retention:
        plan = retention.plan(OLD)
    units = plan.others["generation"]
    assert units.members == counts(made)["checkpoints"]
    assert units.protected["delta-channel"] == 28
    assert units.protected["fork-leaf"] == 3
    assert plan.units.removed == plan.units.expired == 0


def test_the_engine_reads_and_goes_on_as_before(made: Store, untouched: Untouched) -> None:
    """After three passes, a thread that waited 400 days resumes, and a fan-out runs no task twice."""
    found = cuts(made)
    for _ in range(3):
        prune(made, OLD)
    read = run_langgraph("read", made)
    for thread, before in untouched.read.items():
        assert read[thread] == remaining(before, found[thread])
    assert without_names(run_langgraph("proceed", made)) == without_names(untouched.proceeded)


def test_without_the_ends_of_forks_the_newest_goes_on(made: Store, untouched: Untouched) -> None:
    """`keep_forks = false` lets the ends of older branches go; every thread goes on from its head."""
    newest = Policy(generations=Policy(keep_for=timedelta(days=30), keep_forks=False))
    prune(made, OLD)
    with opened(made) as retention:
        assert retention.plan(OLD).others["generation"].protected["fork-leaf"] > 0
        planned = retention.plan(newest).others["generation"]
    assert "fork-leaf" not in planned.protected
    assert prune(made, newest).units.removed == planned.expired > 0
    goes_on, before = (
        without_names(found) for found in (run_langgraph("proceed", made), untouched.proceeded)
    )
    assert all(before[name] == goes_on[name] for name in goes_on)
    assert {name.partition(" ")[0] for name in before.keys() - goes_on.keys()} == {"waiting-forked"}


def test_a_backup_of_checkpoints_is_refused_where_they_share_values(made: Store) -> None:
    """It would hold whole threads alone, so nothing is removed and no file is made."""
    if made.kind != "postgresql":
        pytest.skip("this saver shares no values")
    before, file = counts(made), made.state.parent / "removed.backup"
    with opened(made) as retention, pytest.raises(Refused, match="whole runs alone"):
        retention.prune(OLD, backup=BackupOrder(path=file))
    assert counts(made) == before
    assert not file.exists()


def test_after_a_restore_the_engine_reads_every_checkpoint_as_before(
    made: Store, untouched: Untouched
) -> None:
    """Where each checkpoint has its values itself, all that went is in the backup and comes back."""
    if made.kind != "sqlite":
        pytest.skip("of this saver there is no such backup")
    before, folder = counts(made), made.state.parent / "backups"
    folder.mkdir(mode=0o700)
    order = BackupOrder(path=folder / "removed.sqlite")
    with opened(made) as retention:
        report = retention.prune(OLD, backup=order)
        assert report.units.removed > 0
        assert not report.units.skipped
        restored = retention.restore(order.path, rest=0.0)
        assert restored.kinds == {"generation": report.units.removed}
        assert list(retention.verify()) == []
    assert counts(made) == before
    assert run_langgraph("read", made) == untouched.read


def test_a_policy_for_generations_touches_no_thread(made: Store) -> None:
    """However old, every thread is still there, and those that cannot be cut are unchanged."""
    before, whole = threads(made), content(made, GATHERING)
    prune(made, OLD)
    assert threads(made) == before
    assert content(made, GATHERING) == whole


def test_no_link_leads_nowhere(made: Store) -> None:
    """A checkpoint that stays follows one that is there, or none, as the engine's own pruning leaves it."""
    prune(made, OLD)
    dangling = made.rows(
        "SELECT c.thread_id FROM checkpoints c WHERE c.parent_checkpoint_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM checkpoints p WHERE p.thread_id = c.thread_id AND p.checkpoint_ns = c.checkpoint_ns "
        "AND p.checkpoint_id = c.parent_checkpoint_id)"
    )
    assert dangling == []


def test_every_kept_checkpoint_has_its_values(made: Store) -> None:
    """Where checkpoints share values, none is missing, and none is left that nothing refers to."""
    if made.kind == "sqlite":
        pytest.skip("this saver shares no values")
    missing = (
        "SELECT count(*) FROM checkpoints c CROSS JOIN LATERAL "
        "jsonb_each_text(c.checkpoint -> 'channel_versions') v "
        "WHERE NOT EXISTS (SELECT 1 FROM checkpoint_blobs b WHERE b.thread_id = c.thread_id "
        "AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = v.key AND b.version = v.value)"
    )
    of_kept = f"{missing} AND (c.thread_id, c.checkpoint_ns, c.checkpoint_id) IN (SELECT * FROM kept)"
    prune(made, OLD)
    left = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints"
    after = made.rows(f"WITH kept AS ({left}) {of_kept}")
    unused = made.rows(
        "SELECT count(*) FROM checkpoint_blobs b WHERE NOT EXISTS (SELECT 1 FROM checkpoints c WHERE "
        "c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns "
        "AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)"
    )
    assert unused == [(0,)]
    kept = made.rows(left)
    made.fill()
    rows = ", ".join("('{}', '{}', '{}')".format(*row) for row in kept)
    assert made.rows(f"WITH kept AS (VALUES {rows}) {of_kept}") == after


def test_age_and_number_keep_what_they_say(made: Store) -> None:
    """A turn of today stays by its age, and the newest of each namespace by their number."""
    run_langgraph("turn", made, "chat-0")
    fresh = made.rows("SELECT count(*) FROM checkpoints WHERE thread_id = 'chat-0'")[0][0] - 15
    assert fresh == 5
    prune(made, OLD)
    assert made.rows("SELECT count(*) FROM checkpoints WHERE thread_id = 'chat-0'") == [(fresh,)]
    made.fill()
    prune(made, Policy(generations=Policy(keep_for=timedelta(days=30), keep_last=4)))
    assert made.rows("SELECT count(*) FROM checkpoints WHERE thread_id = 'chat-1'") == [(4,)]


def test_explain_says_why_a_checkpoint_stays(made: Store) -> None:
    """Head, fork, and DeltaChannel are named; what is superseded is expired."""
    with opened(made) as retention:
        for thread, position, reason in (
            ("chat-1", "DESC", "current-generation"),
            ("gathering-0", "ASC", "delta-channel"),
        ):
            name = _id(made, thread, position)
            told = retention.explain(f"{thread}//{name}", OLD)
            assert reason in {part.name for part in told.reasons}
        told = retention.explain(f"chat-1//{_id(made, 'chat-1', 'ASC')}", OLD)
        assert told.verdict.value == "expired"


def _id(store: Store, thread: str, position: str) -> str:
    found = store.rows(
        f"SELECT checkpoint_id FROM checkpoints WHERE thread_id = '{thread}' AND checkpoint_ns = '' "
        f"ORDER BY checkpoint_id {position} LIMIT 1"
    )
    return str(found[0][0])


def test_an_automatic_sweep_asks_first(made: Store) -> None:
    """At first contact nothing goes; with leave, what the plan counted does."""
    before = counts(made)
    with opened(made) as retention:
        asked = retention.sweep(OLD)
        assert asked.ended == "guard"
        assert counts(made) == before
        done = retention.sweep(OLD, approve=asked.fingerprint)
    assert done.ended == "completed"
    assert done.rows == asked.rows


def test_the_engine_itself_is_asked(made: Store, tmp_path: Path) -> None:
    """With its own savers, everything that is kept reads as it did; a changed payload is noticed."""
    asked = ["verify", made.location, "--engine", str(tmp_path / "reading")]
    asked += ["--engine-python", str(python())]
    assert main(asked) == 0
    prune(made, OLD)
    assert main(asked) == 0
    one, other = (_id(made, name, "DESC") for name in ("chat-1", "chat-2"))
    payload = f"SELECT checkpoint FROM checkpoints WHERE thread_id = 'chat-2' AND checkpoint_id = '{other}'"
    where = f"thread_id = 'chat-1' AND checkpoint_id = '{one}'"
    made.change(f"UPDATE checkpoints SET checkpoint = ({payload}) WHERE {where}")
    assert main(asked) == 1
