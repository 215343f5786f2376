"""Two stores live the same life side by side, one in SQLite, one in memory, and stay equal.

An engine works on both: it starts, finishes and resumes runs, and stores references. Sweeps with all kinds of
bounds run in between; some are cut off by a crash in the middle of a batch.
"""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import oracle
from afterrun import Budget, Policy
from afterrun.core.batch import live_pace, offline_pace
from afterrun.core.errors import StoreFailure, UnitFailure
from dumps import Value, canonical
from fakes import NOW, as_policy, stand_still, sweep
from memory import RUNS, STEPS, Failing
from oracle import OraclePolicy
from sites import MemorySite, Site, SqliteSite, fill, live, run, step

SOAK = os.environ.get("AFTERRUN_SOAK") == "1"
DAY = 86_400_000_000
WEEK = Policy(keep_for=timedelta(days=7))
GROUPS = ("name", "application_name")
PICK = st.integers(min_value=0, max_value=10_000)


class SideBySide(RuleBasedStateMachine):
    """The rules are what engines do and what sweeps do; after each, both stores hold the same rows."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="afterrun-machine-")
        self._sqlite = SqliteSite(Path(self._folder.name) / "app.sqlite")
        self._memory = MemorySite()
        self._now = NOW
        self._count = 0

    def teardown(self) -> None:
        self._sqlite.retention.close()
        self._folder.cleanup()

    # What the engine does

    @initialize()
    def begin(self) -> None:
        """Begin with one run that is over and one that is not."""
        self._start(None, over=True)
        self._start(None, over=False)

    @rule(over=st.booleans())
    def start_root(self, *, over: bool) -> None:
        """Start a run."""
        self._start(None, over=over)

    @rule(pick=PICK, over=st.booleans())
    def start_child(self, *, pick: int, over: bool) -> None:
        """Start a child of any run, also of one that is over; its parent keeps a handle."""
        parent = self._any(pick)
        self._start(parent, over=over)

    @rule(pick=PICK)
    def start_child_of_nobody(self, *, pick: int) -> None:
        """Start a run whose parent is gone, or comes later."""
        self._start(f"r{pick % 60}" if pick % 2 else "nobody", over=True)

    @rule(pick=PICK)
    def finish(self, *, pick: int) -> None:
        """Finish a run."""
        self._change(self._any(pick), status="SUCCESS", completed_at=self._ms, updated_at=self._ms)

    @rule(pick=PICK)
    def resume(self, *, pick: int) -> None:
        """Bring a run back, as the engine's resume does."""
        self._change(self._any(pick), status="ENQUEUED", completed_at=None, updated_at=self._ms)

    @rule(pick=PICK, other=PICK)
    def wait_for(self, *, pick: int, other: int) -> None:
        """Let one run keep a handle of another."""
        self._refer(self._any(pick), self._any(other))

    @rule(days=st.integers(min_value=1, max_value=9))
    def time_passes(self, *, days: int) -> None:
        """Let some days go by."""
        self._now += days * DAY
        self._memory.store.time = self._now
        stand_still(self._sqlite.retention, self._now)

    # What sweeps do

    @rule(
        limit=st.sampled_from([None, 1, 2, 5]),
        batch=st.sampled_from([None, 1, 2]),
        offline=st.booleans(),
        keep_last=st.sampled_from([None, None, 1, 3]),
        more=st.sampled_from([{}, {}, {"cap_units": 3}, {"periods": (("daily", 2),)}]),
    )
    def sweep_both(
        self,
        *,
        limit: int | None,
        batch: int | None,
        offline: bool,
        keep_last: int | None,
        more: dict[str, Any],
    ) -> None:
        """Sweep both with the same bounds; a sweep without a limit leaves what the oracle leaves."""
        asked = OraclePolicy(7 * DAY, None, keep_last, "successful", GROUPS, DAY // 24, frozenset(), **more)
        policy = as_policy(asked)
        pace = offline_pace(max_units=batch) if offline else live_pace(0.02, max_units=batch)
        before = self._sqlite.dump()
        reports = [
            sweep(site.store, policy, pace=pace, budget=Budget(units=limit)).report for site in self._sites
        ]
        assert reports[0].units.removed == reports[1].units.removed
        assert +reports[0].rows == +reports[1].rows
        verdicts = oracle.judge(before, asked, self._now)
        if limit is None:
            assert canonical(self._sqlite.dump()) == canonical(verdicts.after(before))
        assert {row["workflow_uuid"] for row in before[RUNS]} - self._keys() <= {
            key for unit in verdicts.units if unit.verdict == "expired" for key in unit.members
        }

    @rule(at=st.integers(min_value=1, max_value=3), batch=st.sampled_from([None, 1, 2]), kind=PICK)
    def crash(self, *, at: int, batch: int | None, kind: int) -> None:
        """Fail in the middle of a batch, after its rows went: both roll back the same."""
        error = (StoreFailure("disk-full", "full"), UnitFailure("timeout", "slow"), OSError("crash"))[
            kind % 3
        ]
        ends: list[str] = []
        for site in self._sites:
            pace = live_pace(0.02, max_units=batch)
            try:
                ends.append(sweep(Failing(site.store, error, at=at), WEEK, pace=pace).report.ended)
            except OSError:
                ends.append("crashed")
        assert ends[0] == ends[1]

    @rule()
    def reopen(self) -> None:
        """Close the file and open it again, as another process would."""
        self._sqlite.retention.close()
        self._sqlite.open()
        stand_still(self._sqlite.retention, self._now)

    @precondition(lambda self: self._count > 0)
    @rule(pick=PICK)
    def find(self, *, pick: int) -> None:
        """Ask for the unit of a run: both know the same of it, and a cycle is a cycle to both."""
        key = self._any(pick)
        found = [site.store.find(str(key)) for site in self._sites]
        assert {reason.name for reason in found[0].blocked} == {reason.name for reason in found[1].blocked}
        if found[0].complete:
            assert set(found[0].members) == set(found[1].members)
            assert (found[0].end, found[0].settled) == (found[1].end, found[1].settled)

    @invariant()
    def both_hold_the_same(self) -> None:
        """Both stores have equal rows."""
        sqlite, memory = self._sqlite.dump(), self._memory.dump()
        for table in (RUNS, STEPS, "workflow_events"):
            ours = [{name: row[name] for name in row if name in _COLUMNS} for row in sqlite[table]]
            theirs = [{name: row[name] for name in row if name in _COLUMNS} for row in memory[table]]
            assert canonical({table: ours}) == canonical({table: theirs})

    @invariant()
    def nothing_is_broken(self) -> None:
        """No row is left without its run, and the database is sound."""
        assert list(self._sqlite.retention.verify()) == []
        assert list(self._memory.store.problems()) == []

    # How

    @property
    def _sites(self) -> tuple[Site, Site]:
        return self._sqlite, self._memory

    @property
    def _ms(self) -> int:
        return self._now // 1_000

    def _keys(self) -> set[Value]:
        return {row["workflow_uuid"] for row in self._sqlite.dump()[RUNS]}

    def _any(self, pick: int) -> Value:
        keys = sorted(self._keys(), key=str)
        return keys[pick % len(keys)] if keys else "nobody"

    def _start(self, parent: Value, *, over: bool) -> None:
        key = f"r{self._count}"
        self._count += 1
        times = {"updated_at": self._ms, "created_at": self._ms}
        row = run(key, parent, completed_at=self._ms, **times) if over else live(key, parent, **times)
        for site in self._sites:
            fill(site, [row])
        if parent in self._keys():
            self._refer(parent, key)

    def _refer(self, owner: Value, child: Value) -> None:
        if owner not in self._keys():
            return
        self._count += 1
        for site in self._sites:
            site.add(STEPS, step(owner, 100 + self._count, child))

    def _change(self, key: Value, **columns: Value) -> None:
        for site in self._sites:
            site.change(key, **columns)


_COLUMNS = {
    *("workflow_uuid", "parent_workflow_id", "status", "completed_at", "updated_at"),
    *("function_id", "child_workflow_id", "key", "value"),
}

TestSideBySide = SideBySide.TestCase
TestSideBySide.settings = settings(
    max_examples=1_000 if SOAK else 30,
    stateful_step_count=60 if SOAK else 30,
    deadline=None,
    derandomize=not SOAK,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
