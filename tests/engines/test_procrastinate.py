"""Jobs of a real procrastinate: which may go, what stays of periodic tasks, and that the engine goes on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import BackupOrder, Budget, Policy, Refused, Retention, SweepOptions
from afterrun.core.errors import ProfileError
from afterrun.stores.sql.store import SqlStore
from pg_server import Database

from .procrastinate_stores import (
    ABORTED,
    ALIVE,
    CANCELLED,
    DOING,
    ENDED,
    FAILED,
    RETRYING,
    SCHEMAS,
    SUCCEEDED,
    TICKED,
    TODO,
    JobStore,
    run_procrastinate,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

MONTH = Policy(keep_for=timedelta(days=30))
OLD = 40.0


@pytest.fixture(params=SCHEMAS)
def store(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> JobStore:
    """Give a store with a job in every situation, in the usual schema and in another one."""
    made = JobStore(database, tmp_path, request.param)
    made.fill()
    return made


def test_the_schema_is_one_that_was_read(store: JobStore) -> None:
    """The engine keeps no version: its shape is known, and nothing forbids removal."""
    with store.retention(writable=False) as opened:
        schema = opened.store.schema()
        assert opened.store.profile_name == "procrastinate"
    assert schema.version.startswith("shape:")
    assert (schema.read, schema.problems) == (True, ())
    assert any(
        "retention of procrastinate itself: a worker with delete_jobs" in text for text in schema.notices
    )
    assert "no index serves procrastinate_events.at, so every sweep reads all runs" in schema.notices


def test_what_ended_long_ago_goes_and_nothing_that_the_engine_still_needs(store: JobStore) -> None:
    """Whatever its end was; not what waits, is tried again, or was left by a dead worker."""
    store.age(OLD)
    with store.retention(writable=False) as opened:
        words = {job: opened.explain(str(job), MONTH) for job in ENDED | ALIVE}
    assert {job for job, told in words.items() if told.verdict.value == "expired"} == ENDED
    assert {reason.name for job in ALIVE for reason in words[job].reasons} == {"live-member"}
    assert store.prune(MONTH).units.removed == len(ENDED)
    assert store.jobs() == ALIVE


def test_age_counts_from_the_newest_event(store: JobStore) -> None:
    """Promise 1: no job goes by when it was deferred, or by when it was to begin."""
    store.age(OLD, but={1, CANCELLED})
    store.change("UPDATE {events} SET at = at - interval '90 days' WHERE job_id = 1 AND type = 'deferred'")
    planned = f"job_id = {CANCELLED} AND type = 'scheduled'"
    store.change(f"UPDATE {{events}} SET at = now() - interval '400 days' WHERE {planned}")
    assert store.prune(MONTH).units.removed == len(ENDED) - 2
    assert store.jobs() == {1, CANCELLED, *ALIVE}


def test_a_job_without_events_stays(store: JobStore) -> None:
    """Promise 3: without an event nobody knows when it ended; the engine's own deletion leaves it, too."""
    store.age(OLD)
    store.change("DELETE FROM {events} WHERE job_id = 2")
    with store.retention(writable=False) as opened:
        assert opened.plan(MONTH).units.blocked == {"unknown-end-time": 1}
    store.prune(MONTH)
    assert store.jobs() == {2, *ALIVE}


def test_the_engine_goes_on(store: JobStore) -> None:
    """A worker takes new jobs, and what was due, from the swept store."""
    store.age(OLD)
    store.prune(MONTH)
    told = run_procrastinate("work", store)
    assert told["status"] == "succeeded"
    assert store.status(RETRYING) == store.status(TODO) == "todo"
    assert store.status(DOING) == "doing"


def test_a_failed_job_that_is_tried_again_stays(store: JobStore) -> None:
    """Promise 2: an operator's retry, between the plan and the removal, makes the job alive."""
    store.age(OLD)
    with store.retention() as opened:
        assert opened.plan(MONTH).units.expired == len(ENDED)
        run_procrastinate("retry", store, "6")
        report = opened.prune(MONTH, options=SweepOptions(offline=True))
    assert report.units.removed == len(ENDED) - 1
    assert store.jobs() == {6, *ALIVE}
    assert store.status(6) == "todo"
    run_procrastinate("work", store)
    assert store.status(6) == "failed"
    with store.retention(writable=False) as opened:
        told = opened.explain("6", MONTH)
    assert [reason.name for reason in told.reasons] == ["grace", "keep-for"]


def test_a_retry_in_the_moment_of_the_batch_is_seen(store: JobStore) -> None:
    """Promise 2: inside the transaction the status and the events are read again."""
    store.age(OLD)
    with store.retention() as opened:
        found = opened.store
        assert isinstance(found, SqlStore)
        units = found.units(sorted(FAILED))
        run_procrastinate("retry", store, "6")
        with found.transaction(seconds=5) as batch:
            fresh = {unit.key: [reason.name for reason in unit.protected] for unit in batch.units(units)}
    assert fresh == {6: ["live-member"], 7: []}


def test_periodic_tasks_do_not_tick_twice(store: JobStore) -> None:
    """The row that says which time was served stays and loses its job, as with the engine's own deletion."""
    served = "SELECT task_name, defer_timestamp, periodic_id FROM {periodic_defers}"
    before = store.rows(served)
    assert len(before) == 1
    store.age(OLD)
    store.prune(MONTH)
    assert not store.jobs() & TICKED
    after = store.rows(
        "SELECT task_name, defer_timestamp, periodic_id FROM {periodic_defers} WHERE job_id IS NULL"
    )
    assert after == before
    told = run_procrastinate("ticks", store)
    assert told["again"] == [None]
    assert told["new"] is not None


def test_without_that_row_a_task_would_tick_twice(store: JobStore) -> None:
    """The test of ticks can fail: this is what a pruner does that takes the row with its job."""
    store.change("DELETE FROM {periodic_defers}")
    assert run_procrastinate("ticks", store)["again"] != [None]


def test_the_engines_own_deletion_leaves_the_same_store(store: JobStore) -> None:
    """What `delete_old_jobs` takes of every final state is what a month takes, links and all."""
    store.age(OLD, but={TODO, *SUCCEEDED})
    # the engine goes by the time for which a job was scheduled, too
    store.change("UPDATE {events} SET at = at - interval '90 days' WHERE type = 'scheduled'")
    rows = "SELECT id, job_id IS NULL FROM {periodic_defers} ORDER BY id"
    copied = store.database.server.create_database(template=store.database.name)
    theirs = JobStore(copied, store.folder, store.schema)
    try:
        run_procrastinate("prune", theirs)
        expected = (theirs.jobs(), theirs.counts(), theirs.rows(rows))
    finally:
        store.database.server.drop_database(copied.name)
    store.prune(MONTH)
    assert (store.jobs(), store.counts(), store.rows(rows)) == expected


def test_a_sweep_stops_at_its_budget_and_goes_on(store: JobStore) -> None:
    """Windows of keys, a cursor by newest event: three sweeps take what one would."""
    store.age(OLD)
    options = SweepOptions(budget=Budget(units=4))
    removed = []
    for _ in range(3):
        with store.retention() as opened:
            report = opened.sweep(MONTH, options=options, always=True)
        removed.append(report.units.removed)
    assert removed == [4, 4, 3]
    assert store.jobs() == ALIVE


def test_groups_are_tasks_and_queues(store: JobStore) -> None:
    """`keep_last` keeps the newest of each task."""
    store.age(OLD)
    store.prune(Policy(keep_last=1, keep_last_counts="any", group_by=("task_name",)))
    assert store.jobs() == {7, 10, CANCELLED, ABORTED, *ALIVE}


def test_jobs_come_back_from_a_backup(store: JobStore) -> None:
    """Row by row, without an event more: the engine's triggers see nothing that begins."""
    store.age(OLD)
    looks = [f"SELECT t::text FROM {{{table}}} AS t ORDER BY id" for table in ("jobs", "events")]
    before = [store.rows(look) for look in looks]
    file = store.folder / "removed.backup"
    with store.retention() as opened:
        assert opened.prune(MONTH, backup=BackupOrder(path=file)).units.removed == len(ENDED)
        opened.restore(file, "6")
        assert store.jobs() == {6, *ALIVE}
        opened.restore(file)
    assert [store.rows(look) for look in looks] == before
    assert run_procrastinate("work", store)["status"] == "succeeded"


def test_another_trigger_is_refused(store: JobStore) -> None:
    """What an application's own trigger would do to a removal is not known."""
    schema = f'"{store.schema}"'
    store.database.run(
        f"CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';"
        f"CREATE TRIGGER note BEFORE DELETE ON {schema}.procrastinate_jobs FOR EACH ROW"
        f" EXECUTE FUNCTION {schema}.note()"
    )
    with store.retention(writable=False) as opened:
        assert any("a trigger 'note'" in text for text in opened.store.schema().problems)


def test_a_store_whose_trigger_is_off_is_not_a_read_one(store: JobStore) -> None:
    """Without it a deletion would fail at the foreign key; the shape tells before anything is tried."""
    jobs = f'"{store.schema}".procrastinate_jobs'
    store.database.run(f"ALTER TABLE {jobs} DISABLE TRIGGER procrastinate_trigger_delete_jobs_v1")
    with store.retention(writable=False) as opened:
        schema = opened.store.schema()
    assert not schema.read
    assert any("was never read" in text for text in schema.problems)


def test_a_role_that_may_not_empty_links_is_told(store: JobStore, role: str) -> None:
    """The trigger acts for the role that deletes; the grant that it lacks is told before anything goes."""
    store.age(OLD)
    schema = f'"{store.schema}"'
    jobs, defers = f"{schema}.procrastinate_jobs", f"{schema}.procrastinate_periodic_defers"
    store.database.run(
        f'GRANT USAGE ON SCHEMA {schema} TO "{role}";'
        f'GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO "{role}";'
        f'GRANT DELETE ON {jobs}, {schema}.procrastinate_events TO "{role}";'
        f'GRANT UPDATE (status) ON {jobs} TO "{role}"'
    )
    location, before = store.database.url(role, schema=store.schema), store.counts()
    with (
        Retention(location, state=store.folder / "state") as opened,
        pytest.raises(Refused, match=r"GRANT UPDATE \(job_id\) ON .*procrastinate_periodic_defers TO"),
    ):
        opened.prune(MONTH)
    assert store.counts() == before
    store.database.run(f'GRANT UPDATE (job_id) ON {defers} TO "{role}"')
    with Retention(location, state=store.folder / "state") as opened:
        report = opened.prune(MONTH, options=SweepOptions(offline=True))
    assert (report.ended, report.units.removed) == ("completed", len(ENDED))


def test_a_schema_without_the_engines_tables_fits_no_profile(database: Database, tmp_path: Path) -> None:
    """The tables of another schema do not count."""
    JobStore(database, tmp_path).fill()
    database.run("CREATE SCHEMA other; CREATE TABLE other.procrastinate_jobs (id bigint)")
    with pytest.raises(ProfileError, match="no profile fits"):
        JobStore(database, tmp_path, "other").retention(writable=False)
