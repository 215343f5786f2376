"""How pruners have failed people, replayed on DBOS stores with the engine's own schema."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from afterrun import Budget, Policy, Report, Retention, SweepOptions
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.core.facts import Unit
from afterrun.core.judge import Verdict
from dumps import Row, Value, dump_sqlite, insert_row, open_unchecked, row_counts
from random_stores import VERSIONS, create_store

DAY_MS = 86_400_000
MINUTE_DAYS = 1 / 1_440
MONTH = Policy(keep_for=timedelta(days=30))
OFFLINE = SweepOptions(offline=True)
KEYS = ("workflow_uuid", "destination_uuid")


class Case:
    """One store of one schema version, with the rows that a situation needs."""

    def __init__(self, path: Path, version: int) -> None:
        create_store(path, version, nullable_updated_at=True)
        self.path = path
        self.version = version
        self.now_ms = time.time_ns() // 1_000_000

    def run(
        self,
        key: str,
        *,
        parent: str | None = None,
        ended: float | None = None,
        status: str = "SUCCESS",
        made: float = 45.0,
        **columns: Value,
    ) -> Row:
        """Make a run; `made` and `ended` are ages in days. A live run has no end."""
        end = None if ended is None else self.ago(ended)
        return {
            "workflow_uuid": key,
            "parent_workflow_id": parent,
            "status": status,
            "created_at": self.ago(made),
            "updated_at": end if end is not None else self.ago(made),
            "completed_at": end,
        } | columns

    def ago(self, days: float) -> int:
        """Return the epoch milliseconds of so many days ago."""
        return self.now_ms - round(days * DAY_MS)

    def add(self, *runs: Row, rows: bool = True) -> None:
        """Insert runs, each with a row in every table that belongs to runs."""
        with open_unchecked(self.path) as connection:
            for run in runs:
                insert_row(connection, "workflow_status", run)
                for table, row in self._rows(run["workflow_uuid"]).items() if rows else ():
                    insert_row(connection, table, row)

    def refer(self, owner: str, child: str) -> None:
        """Record that one run started or awaited another."""
        row: Row = {"workflow_uuid": owner, "function_id": 9, "function_name": "DBOS.getResult"}
        with open_unchecked(self.path) as connection:
            insert_row(connection, "operation_outputs", row | {"child_workflow_id": child})

    def change(self, statement: str, *values: object) -> None:
        """Change the store from another connection, as an engine would."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)

    def open(self) -> Retention:
        """Open the store for retention."""
        return Retention(str(self.path), state=self.path.parent / "state")

    def plan(self, policy: Policy = MONTH) -> Report:
        """Plan."""
        with self.open() as store:
            return store.plan(policy)

    def prune(self, policy: Policy = MONTH, options: SweepOptions = OFFLINE) -> Report:
        """Prune, and make sure that the store is sound afterwards."""
        with self.open() as store:
            report = store.prune(policy, options=options)
            assert list(store.verify()) == []
        return report

    def counts(self) -> dict[str, int]:
        """Count the rows of every table."""
        return row_counts(dump_sqlite(self.path))

    def ids(self) -> set[str]:
        """Return the keys of all runs."""
        return {str(row["workflow_uuid"]) for row in dump_sqlite(self.path)["workflow_status"]}

    def owners(self) -> set[str]:
        """Return the keys of all runs that any row belongs to."""
        rows = (row for table in dump_sqlite(self.path).values() for row in table)
        return {str(row[key]) for row in rows for key in KEYS if row.get(key) is not None}

    def _rows(self, key: Value) -> Mapping[str, Row]:
        owned: Row = {"workflow_uuid": key}
        event = owned | {"key": "k", "value": "v"}
        tables: dict[str, Row] = {
            "operation_outputs": owned | {"function_id": 1, "function_name": "step", "output": "o" * 200},
            "workflow_events": event,
            "workflow_events_history": event | {"function_id": 1},
            "streams": event | {"offset": 0},
            "notifications": {"destination_uuid": key, "message": "m"},
        }
        if self.version > 108:
            tables["workflow_input"] = owned | {"inputs": "i"}
            tables["workflow_output"] = owned | {"output": "o"}
        return tables


@pytest.fixture(params=VERSIONS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Make an empty store of each schema version."""
    return Case(tmp_path / "store.sqlite", request.param)


@pytest.fixture
def newest(tmp_path: Path) -> Case:
    """Make an empty store of the newest schema, where versions make no difference."""
    return Case(tmp_path / "store.sqlite", VERSIONS[-1])


def once(act: Callable[[], None]) -> Callable[[object], None]:
    """Return an observer that acts at its first event: a page is judged, no batch has begun."""
    acted: list[object] = []

    def observe(event: object) -> None:
        if not acted:
            acted.append(event)
            act()

    return observe


def test_run_retried_after_it_was_planned_is_skipped(case: Case) -> None:
    """A retry between plan and apply makes a run live again: it stays, with the reason (promise 2)."""
    case.add(case.run("failed", ended=40, status="ERROR"), case.run("other", ended=40))
    retry = "UPDATE workflow_status SET status = 'PENDING', completed_at = NULL WHERE workflow_uuid = ?"
    observer = once(lambda: case.change(retry, "failed"))
    report = case.prune(options=SweepOptions(observer=observer))
    assert report.units.skipped == {"recheck: live-member": 1}
    assert report.units.removed == 1
    assert case.ids() == {"failed"}


def test_retry_resets_the_age(case: Case) -> None:
    """A run that was retried and failed again before its batch is as young as its last end (promise 2)."""
    case.add(case.run("failed", ended=40, status="ERROR"), case.run("other", ended=40))
    end = "UPDATE workflow_status SET completed_at = ? WHERE workflow_uuid = ?"
    observer = once(lambda: case.change(end, case.ago(1), "failed"))
    report = case.prune(options=SweepOptions(observer=observer))
    assert report.units.skipped == {"recheck: keep-for": 1}
    assert case.ids() == {"failed"}


def test_finished_child_lives_as_long_as_its_live_root(case: Case) -> None:
    """The root has run for 40 days, its child ended 35 days ago, the policy keeps 30: both stay."""
    case.add(
        case.run("root", status="PENDING", made=40),
        case.run("child", parent="root", ended=35, made=40),
        case.run("grandchild", parent="child", ended=36, made=40),
        case.run("single", ended=35),
    )
    assert case.plan().units.protected == {"live-member": 1}
    case.prune()
    assert case.ids() == {"root", "child", "grandchild"}


def test_child_polled_by_a_pending_parent_stays(case: Case) -> None:
    """A pending parent that holds a handle of its finished child would wait for ever without its row."""
    case.add(case.run("parent", status="PENDING"), case.run("child", parent="parent", ended=40))
    case.refer("parent", "child")
    case.prune()
    assert case.ids() == {"parent", "child"}


@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED", "DELAYED"])
def test_parent_keeps_its_place_above_a_running_child(case: Case, status: str) -> None:
    """A finished parent that is old enough stays while its child lives, so the child stays a child."""
    case.add(case.run("parent", ended=40), case.run("child", parent="parent", status=status))
    assert case.prune().units.removed == 0
    parents = {row["workflow_uuid"]: row["parent_workflow_id"] for row in _runs(case)}
    assert parents == {"parent": None, "child": "parent"}


def test_tree_goes_with_all_its_levels(case: Case) -> None:
    """Children and grandchildren go with their root by default, and every one is counted."""
    case.add(
        case.run("root", ended=40),
        case.run("left", parent="root", ended=41),
        case.run("right", parent="root", ended=41),
        case.run("below", parent="left", ended=42, status="ERROR"),
        case.run("young root", ended=3),
    )
    plan = case.plan()
    assert (plan.units.expired, plan.rows["workflow_status"]) == (1, 4)
    report = case.prune()
    assert (report.units.removed, report.rows["workflow_status"]) == (1, 4)
    assert case.owners() == {"young root"}


def test_tree_is_as_young_as_its_last_member(case: Case) -> None:
    """A grandchild that ended later than everything above it keeps its whole tree."""
    case.add(
        case.run("root", ended=40),
        case.run("child", parent="root", ended=40),
        case.run("grandchild", parent="child", ended=29),
    )
    with case.open() as store:
        explained = store.explain("root", MONTH)
    assert explained.verdict is Verdict.RECENT
    assert [reason.name for reason in explained.reasons] == ["keep-for"]
    assert case.prune().units.removed == 0


def test_dry_run_counts_what_the_database_would_cascade(case: Case) -> None:
    """Rows that a foreign key would take silently are in the plan, table by table (promise 7)."""
    case.add(case.run("a", ended=40), case.run("b", parent="a", ended=40), case.run("kept", ended=3))
    before = case.counts()
    plan = case.plan()
    assert case.counts() == before
    report = case.prune()
    lost = {table: rows - case.counts()[table] for table, rows in before.items()}
    assert {table: rows for table, rows in lost.items() if rows} == dict(plan.rows) == dict(report.rows)
    assert {"workflow_events", "streams", "notifications"} <= plan.rows.keys()


@pytest.mark.parametrize("rule", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_table_added_later_blocks_only_the_runs_it_refers_to(case: Case, rule: str) -> None:
    """A foreign key that the profile does not know blocks what it points at; the rest goes (promise 3)."""
    case.add(case.run("noted", ended=40), case.run("free", ended=40))
    reference = f"TEXT REFERENCES workflow_status (workflow_uuid) {rule}"
    case.change(f"CREATE TABLE notes (id INTEGER PRIMARY KEY, run {reference})")
    case.change("INSERT INTO notes (run) VALUES ('noted')")
    with case.open() as store:
        reasons = [reason.name for reason in store.explain("noted", MONTH).reasons]
    assert reasons == ["unknown-reference:notes"]
    assert any("notes" in notice for notice in case.plan().notices)
    report = case.prune()
    assert (report.units.blocked, report.units.removed) == ({"unknown-reference:notes": 1}, 1)
    assert case.ids() == {"noted"}
    assert dump_sqlite(case.path)["notes"] == [{"id": 1, "run": "noted"}]


def test_table_added_later_with_the_runs_key_blocks_too(newest: Case) -> None:
    """A new table that names runs without a foreign key is as unknown as one with it (promise 3)."""
    newest.add(newest.run("audited", ended=40), newest.run("free", ended=40))
    newest.change("CREATE TABLE audit (workflow_uuid TEXT)")
    newest.change("INSERT INTO audit VALUES ('audited')")
    assert newest.prune().units.blocked == {"unknown-reference:audit": 1}
    assert newest.ids() == {"audited"}


def test_nothing_to_remove_is_reported_as_nothing(case: Case) -> None:
    """An apply that removes no row says zero, not the number of rows it looked at."""
    case.add(case.run("young", ended=3), case.run("live", status="PENDING"))
    report = case.prune()
    assert (report.units.removed, report.batches, sum(report.rows.values())) == (0, 0, 0)


def test_run_that_someone_else_removed_is_not_counted(case: Case) -> None:
    """A run that is gone when its batch begins counts as skipped, and its rows as not removed."""
    case.add(case.run("taken", ended=40), case.run("mine", ended=40))
    before = case.counts()

    def take() -> None:
        with case.open() as other:
            for name, _ in other.store.removal.deletes:
                key = "destination_uuid" if name == "notifications" else "workflow_uuid"
                if name in before:
                    case.change(f"DELETE FROM {name} WHERE {key} = 'taken'")

    report = case.prune(options=SweepOptions(observer=once(take)))
    assert report.units.skipped == {"recheck: gone": 1}
    assert (report.units.removed, report.rows["workflow_status"]) == (1, 1)
    assert case.owners() == set()


def test_no_table_keeps_history_of_a_removed_run(case: Case) -> None:
    """After a run is gone no row anywhere has its id, though some tables have no foreign key to it."""
    case.add(*(case.run(f"run {n}", ended=40) for n in range(20)), case.run("kept", ended=3))
    case.prune()
    assert case.owners() == {"kept"}
    assert set(case.counts().values()) <= {0, 1}


def test_thousands_of_ids_meet_no_limit_of_the_database(newest: Case) -> None:
    """5,000 runs go in a few batches on a SQLite that takes 999 parameters and shallow expressions."""
    newest.add(*(newest.run(f"run {n}", ended=40) for n in range(5_000)), rows=False)
    with newest.open() as store:
        driver = store.store.dialect._driver  # type: ignore[attr-defined]
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        driver.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
        assert store.plan(MONTH).rows["workflow_status"] == 5_000
        report = store.prune(MONTH, options=OFFLINE)
    assert report.units.removed == 5_000
    assert report.batches <= 3
    assert newest.ids() == set()


def test_age_counts_from_completion_and_not_from_creation(case: Case) -> None:
    """Made 40 days ago, ended a minute ago, the policy keeps 30 days: it stays."""
    case.add(
        case.run("long", made=40, ended=MINUTE_DAYS),
        case.run("slept", made=400, ended=29),
        case.run("short", made=31, ended=30.9),
    )
    case.prune()
    assert case.ids() == {"long", "slept"}


def test_nothing_newer_than_the_cutoff_ever_goes(newest: Case) -> None:
    """Of a thousand ends around a cutoff exactly those strictly before it go, to the millisecond."""
    cutoff_ms = newest.ago(10)
    chance = random.Random(1)
    ends = {f"run {n}": cutoff_ms + chance.randint(-DAY_MS, DAY_MS) for n in range(1_000)}
    ends |= {f"edge {n}": cutoff_ms + n for n in (-2, -1, 0, 1, 2)}
    newest.add(*(newest.run(key, completed_at=end) for key, end in ends.items()), rows=False)
    before = datetime.fromtimestamp(cutoff_ms / 1_000, UTC)
    newest.prune(Policy(before=before))
    assert newest.ids() == {key for key, end in ends.items() if end >= cutoff_ms}


def test_time_in_the_future_never_ages(case: Case) -> None:
    """A run that ended after now, by a clock that was wrong, stays and is reported (promise 3)."""
    case.add(case.run("ahead", ended=-1), case.run("old", ended=40))
    report = case.plan(Policy(before=datetime.fromtimestamp(case.ago(-100) / 1_000, UTC)))
    assert report.units.blocked == {"future-end-time": 1}
    assert case.plan().units.blocked == {"future-end-time": 1}
    case.prune(Policy(before=datetime.fromtimestamp(case.ago(-100) / 1_000, UTC)))
    assert case.ids() == {"ahead"}


def test_clock_a_year_ahead_deletes_nothing(newest: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """When now is far after everything in the store, a sweep asks as if it had never seen it."""
    newest.add(*(newest.run(f"run {n}", made=2, ended=1) for n in range(5)))
    with newest.open() as store:
        assert store.sweep(MONTH, always=True).ended == "completed"
        assert store.sweep(MONTH).ended == "completed"
        year_ahead = store.store.now() + 365 * DAY_MS * 1_000
        monkeypatch.setattr(store.store.dialect, "now", lambda: year_ahead)
        report = store.sweep(MONTH)
    assert (report.ended, report.units.removed, report.units.expired) == ("guard", 0, 5)
    assert len(newest.ids()) == 5


def test_ended_run_without_a_time_is_listed(case: Case) -> None:
    """A finished run with no time at all never goes; the plan and the explanation say so (promise 3)."""
    case.add(case.run("stuck", status="ERROR", updated_at=None), case.run("old", ended=40))
    assert case.plan().units.blocked == {"unknown-end-time": 1}
    with case.open() as store:
        explained = store.explain("stuck", MONTH)
    assert explained.verdict is Verdict.BLOCKED
    assert [reason.name for reason in explained.reasons] == ["unknown-end-time"]
    assert (explained.ended_at, explained.eligible_at) == (None, None)
    case.prune()
    assert case.ids() == {"stuck"}


@pytest.mark.parametrize("spoilt", [0, 1, 946_684_799_999, "", "yesterday", b"\x00"])
def test_unusable_time_hides_no_other_run(case: Case, spoilt: Value) -> None:
    """A time that makes no sense is neither old nor young: its run stays, in a bucket of its own."""
    case.add(case.run("odd", completed_at=spoilt), *(case.run(f"old {n}", ended=40) for n in range(3)))
    assert case.plan().units.blocked == {"unreadable-end-time": 1}
    assert case.prune().units.removed == 3
    assert case.ids() == {"odd"}


def test_failure_between_two_deletes_leaves_every_row(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever table a batch fails at, no row of it is gone, and the next sweep takes all (promise 4)."""
    case.add(case.run("a", ended=40), case.run("b", ended=40))
    before = case.counts()
    with case.open() as store:
        removal = store.store.removal
        assert removal.deletes[-1][0] == "workflow_status"
        for step in range(len(removal.deletes)):
            with monkeypatch.context() as patch:
                patch.setattr(store.store.dialect, "change", FailsAt(store.store.dialect.change, step))
                report = store.prune(MONTH)
            assert (report.ended, report.units.removed, sum(report.rows.values())) == ("failed", 0, 0)
            assert case.counts() == before
        assert store.prune(MONTH).units.removed == 2
    assert case.owners() == set()


class FailsAt:
    """A dialect's `change` that fails at its n-th call, as a full disk does."""

    def __init__(self, change: Callable[..., int], step: int) -> None:
        self._change = change
        self._left = step

    def __call__(self, *given: object) -> int:
        if not self._left:
            raise StoreFailure("full", "no room")
        self._left -= 1
        return self._change(*given)


def test_report_does_not_claim_that_the_file_shrank(newest: Case) -> None:
    """Nearly all pages are free after a prune and the file is as large as before; the report says both."""
    newest.add(*(newest.run(f"run {n}", ended=40) for n in range(2_000)), newest.run("kept", ended=1))
    size = newest.path.stat().st_size
    report = newest.prune()
    assert report.units.removed == 2_000
    assert report.file_before == report.file_after == newest.path.stat().st_size == size
    with newest.open() as store:
        sizes = store.store.sizes()
    assert sizes.total == size
    assert sizes.free > 0.8 * size
    assert 0 < newest.plan(Policy(before=datetime.now(UTC))).logical_bytes < size


def test_batches_that_run_out_of_time_shrink_until_they_pass(
    newest: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store too slow for a large batch is swept all the same, in smaller ones (promise 6)."""
    newest.add(*(newest.run(f"run {n:03}", ended=40) for n in range(100)))
    with newest.open() as store:
        slow = TooSlow(store.store.removal.remove, most=3)
        monkeypatch.setattr(store.store.removal, "remove", slow)
        report = store.prune(MONTH, options=OFFLINE)
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 100, 0)
    assert newest.owners() == set()


def test_unit_that_never_passes_hinders_no_other(newest: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that fails alone is deferred, all others go, and what was done stays done (promise 6)."""
    newest.add(*(newest.run(f"run {n:03}", ended=40) for n in range(50)))
    with newest.open() as store:
        stuck = TooSlow(store.store.removal.remove, most=50, never="run 017")
        monkeypatch.setattr(store.store.removal, "remove", stuck)
        report = store.prune(MONTH, options=OFFLINE)
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 49, 1)
    assert newest.owners() == {"run 017"}


class TooSlow:
    """A removal that runs out of time beyond so many units, and always with one of them."""

    def __init__(
        self, remove: Callable[..., Mapping[str, int]], *, most: int, never: str | None = None
    ) -> None:
        self._remove = remove
        self._most = most
        self._never = never

    def __call__(self, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        if len(units) > self._most or any(unit.key == self._never for unit in units):
            raise UnitFailure("timeout", "interrupted")
        return self._remove(units, max_rows=max_rows)


def test_first_sweep_of_a_long_forgotten_store_asks(newest: Case) -> None:
    """A store that no sweep ever saw loses nothing before somebody approves (promise 10)."""
    newest.add(*(newest.run(f"run {n:03}", ended=40) for n in range(150)))
    before = newest.counts()
    with newest.open() as store:
        report = store.sweep(MONTH)
        assert (report.ended, report.units.expired, report.units.removed) == ("guard", 150, 0)
        assert newest.counts() == before
        assert store.sweep(MONTH).ended == "guard"
        assert store.sweep(MONTH, approve="0" * 16).ended == "guard"
        assert newest.counts() == before
        approved = store.sweep(MONTH, approve=report.fingerprint)
    assert (approved.ended, approved.units.removed) == ("completed", 150)


def test_unusually_large_sweep_asks_again(newest: Case) -> None:
    """A store known and swept for long that would lose most of itself at once asks (promise 10)."""
    newest.add(*(newest.run(f"run {n:03}", ended=20) for n in range(150)), newest.run("old", ended=40))
    with newest.open() as store:
        assert store.sweep(MONTH, always=True).units.removed == 1
        tighter = Policy(keep_for=timedelta(days=10))
        report = store.sweep(tighter)
        assert (report.ended, report.units.removed) == ("guard", 0)
        assert len(newest.ids()) == 150
        assert store.sweep(MONTH).ended == "completed"


def test_budget_stops_between_batches_and_the_rest_goes_later(newest: Case) -> None:
    """Sweeps bounded to a few removals each make progress and finish together (promise 6)."""
    newest.add(*(newest.run(f"run {n:03}", ended=40) for n in range(25)))
    endings = []
    with newest.open() as store:
        for _ in range(3):
            options = SweepOptions(budget=Budget(units=10), offline=True)
            report = store.prune(MONTH, options=options)
            endings.append((report.ended, report.units.removed))
    assert endings == [("budget", 10), ("budget", 10), ("completed", 5)]


def _runs(case: Case) -> list[Row]:
    return dump_sqlite(case.path)["workflow_status"]
