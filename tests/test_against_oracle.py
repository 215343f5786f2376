"""The product decides and removes exactly what the oracle does, on thousands of random stores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

import oracle
from afterrun import Budget, Policy, Refused, Retention, SweepOptions
from afterrun.core.batch import live_pace, offline_pace
from afterrun.core.judge import judge
from afterrun.core.plan import make_plan
from afterrun.core.report import Report
from afterrun.profiles.loader import built_in_text
from afterrun.state import StateDirectory
from dumps import Dump, Row, Value, canonical, dump_sqlite, insert_row, open_unchecked
from fakes import NOW, as_policy, retention_at, survey, sweep
from memory import MemoryStore
from oracle import OraclePolicy, Verdicts
from pg_server import Server
from random_stores import PERIODS, VERSIONS, RandomStore, create_store, random_policy, random_store
from sites import PostgresSite

SOAK = os.environ.get("AFTERRUN_SOAK") == "1"
CHUNK = 250
CHUNKS = range(80 if SOAK else 8)
"""Each seed of a chunk is one store; every kind of test takes all of them."""
ON_SERVER = CHUNK if SOAK else 12
"""So many of each chunk on PostgreSQL: filling a store there takes longer than all that is asked of it."""

pytestmark = pytest.mark.slow
OWNED = tuple(oracle.OWNER_COLUMN)
COUNTING = ("keep_last", *(f"keep_{name}" for name in PERIODS))
HANGER = "cycle that hidden rows hang on"


@dataclass(frozen=True)
class World:
    """One random store, open, with a policy and what the oracle says of both."""

    seed: int
    retention: Retention
    look: Callable[[], Dump]
    dump: Dump
    asked: OraclePolicy
    now: int

    @cached_property
    def policy(self) -> Policy:
        """The policy in the product's words."""
        return as_policy(self.asked)

    @cached_property
    def limit(self) -> float:
        """The latest end that anything lets go."""
        asked = self.asked
        general = asked.keep_for_us if asked.keeps else inf
        ages = [general, *(rule.keep_for_us for rule in asked.rules)]
        limit = max(min(self.now - max(age or 0, asked.grace_us), self._before) for age in ages)
        boundary = oracle.cap_boundary(_roots(self), asked, self.now)
        beyond = -inf if boundary is None else min(boundary[0] + 1, self.now - asked.grace_us)
        return max(limit, beyond)

    @property
    def _before(self) -> float:
        return inf if self.asked.before_us is None else self.asked.before_us

    @cached_property
    def verdicts(self) -> Verdicts:
        """What must be decided."""
        return oracle.judge(self.dump, self.asked, self.now)

    @cached_property
    def visible(self) -> Verdicts:
        """What must be decided by who cannot see below a key that nobody can ask for."""
        return oracle.judge(without_hidden(self.dump), self.asked, self.now)


@dataclass(frozen=True)
class Vessel:
    """An open store of one schema, which is filled again and again."""

    version: int
    nullable: bool
    retention: Retention
    refill: Callable[[RandomStore], Dump]
    look: Callable[[], Dump]

    def world(self, rng: Random, seed: int) -> World:
        """Fill it with the next rows."""
        now = NOW + rng.choice((0, 0, 1, 999, 500))
        weird = rng.choice((0.0, 0.03, 0.1, 0.4))
        self.retention.store.dialect.now = lambda: now  # type: ignore[method-assign]
        rows = random_store(rng, now, version=self.version, weird=weird, nullable_updated_at=self.nullable)
        dump = self.refill(rows)
        keys = tuple(key for row in dump[oracle.RUNS] if isinstance(key := row["workflow_uuid"], str))
        return World(seed, self.retention, self.look, dump, random_policy(rng, now, keys), now)


def worlds_in(vessels: Iterator[Vessel], seeds: range) -> Iterator[World]:
    """Fill one store of each schema again and again; stay connected, as a program that embeds the product."""
    for vessel in vessels:
        for seed in seeds:
            rng = Random(seed)
            if (rng.choice(VERSIONS), rng.random() < 0.3) == (vessel.version, vessel.nullable):
                yield vessel.world(rng, seed)


def files(folder: Path, profile: Path | None) -> Iterator[Vessel]:
    """Make an empty SQLite store of each schema."""
    for version in VERSIONS:
        for nullable in (False, True):
            path = folder / f"{version}-{nullable}.sqlite"
            create_store(path, version, nullable_updated_at=nullable)
            with retention_at(NOW, path, profile=profile) as retention:
                yield Vessel(version, nullable, retention, partial(refill, path), partial(dump_sqlite, path))


def worlds(folder: Path, chunk: int, *, profile: Path | None = None) -> Iterator[World]:
    """Make the worlds of a chunk in SQLite files."""
    return worlds_in(files(folder, profile), range(chunk * CHUNK, (chunk + 1) * CHUNK))


Sites = Mapping[int, PostgresSite]
"""A PostgreSQL store of each schema."""


def databases(sites: Sites, folder: Path, profile: Path | None) -> Iterator[Vessel]:
    """Empty a PostgreSQL store of each schema."""
    for version, site in sites.items():
        site.renew(state=folder / f"{version}.state", profile=profile)
        for nullable in (False, True):
            yield Vessel(version, nullable, site.retention, partial(refill_site, site), site.dump)


class Worlds(Protocol):
    """What makes the worlds of a chunk."""

    def __call__(self, chunk: int, *, profile: Path | None = None) -> Iterator[World]:
        """Make one after another."""


@pytest.fixture(scope="module")
def _sites(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Make the PostgreSQL stores of a module: a database takes longer than most of what is done with it."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("states")
        made = {}
        for version in VERSIONS:
            made[version] = PostgresSite(postgres, state=folder / str(version), version=version)
            stack.callback(made[version].close)
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def worlds_of(request: pytest.FixtureRequest, tmp_path: Path) -> Worlds:
    """Give what makes the worlds of a chunk in each kind of store in turn."""
    if request.param == "sqlite":
        return partial(worlds, tmp_path)
    sites: Sites = request.getfixturevalue("_sites")

    def make(chunk: int, *, profile: Path | None = None) -> Iterator[World]:
        seeds = range(chunk * CHUNK, chunk * CHUNK + ON_SERVER)
        return worlds_in(databases(sites, tmp_path, profile), seeds)

    return make


def refill(path: Path, store: RandomStore) -> Dump:
    """Replace all rows of a store."""
    with open_unchecked(path) as connection:
        for table in OWNED:
            present = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            if present:
                connection.execute(f"DELETE FROM {table}")
        for table, row in store.rows:
            insert_row(connection, table, row)
    return dump_sqlite(path)


def refill_site(site: PostgresSite, store: RandomStore) -> Dump:
    """Replace all rows of a PostgreSQL store."""
    return site.refill(store.rows)


def without_hidden(dump: Dump) -> Dump:
    """Hang rows below an unreadable key on a cycle: still there, still live, but in no tree."""
    unreadable = {
        key for row in dump[oracle.RUNS] if not oracle._is_readable_key(key := row["workflow_uuid"])
    } - {None}
    hidden = [
        row | {"parent_workflow_id": HANGER} if row["parent_workflow_id"] in unreadable else row
        for row in dump[oracle.RUNS]
    ]
    hanger: Row = dict.fromkeys(dump[oracle.RUNS][0])
    hanger |= {"workflow_uuid": HANGER, "parent_workflow_id": HANGER, "status": "ERROR"}
    return dump | {oracle.RUNS: [*hidden, hanger]}


def expected_counts(world: World) -> dict[str, object]:
    """Count by hand: units in range under all their reasons, the others under the one that kept them out."""
    expired = recent = 0
    protected: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    # Sorting is stable and both lists follow the table, so equal roots stay in step.
    for unit, root in zip(world.visible.units, _roots(world), strict=True):
        apart = None if _in_range(root, world) else _kept_out_by(root, world.now)
        if apart == "recent" or (apart is None and unit.verdict == "recent"):
            recent += 1
        elif apart == "live-member" or (apart is None and unit.verdict == "protected"):
            protected.update([apart] if apart else unit.protected)
        elif apart or unit.verdict == "blocked":
            blocked.update([apart] if apart else unit.blocked)
        else:
            expired += 1
    return {
        "expired": expired,
        "recent": recent,
        "protected": dict(protected),
        "blocked": dict(blocked),
        "members": sum(unit.rows for unit in world.verdicts.units),
        "unrooted": len(world.verdicts.unrooted),
    }


def decided(world: World, reason: str) -> int:
    """Count the units that a page meets and that are recent for this reason, among others."""
    units = zip(world.visible.units, _roots(world), strict=True)
    return sum(
        unit.verdict == "recent" and reason in unit.kept and _in_range(root, world) for unit, root in units
    )


def _roots(world: World) -> list[Row]:
    trees, _ = oracle._grow(without_hidden(world.dump)[oracle.RUNS])
    return [tree.root for tree in trees]


def _in_range(root: Row, world: World) -> bool:
    """Say whether a root has ended, by a number, before the latest end that any rule or the cap lets go."""
    source = root["completed_at"] if root["completed_at"] is not None else root["updated_at"]
    ended = root["status"] in oracle.TERMINAL and isinstance(source, int | float)
    return ended and isinstance(source, int | float) and source * 1000 < world.limit


def _kept_out_by(root: Row, now: int) -> str:
    if root["status"] in oracle.LIVE:
        return "live-member"
    if root["status"] not in oracle.TERMINAL:
        return "unknown-status"
    end = oracle._read_end(root, now)
    return end if isinstance(end, str) else "recent"


def counts_of(report: Report) -> dict[str, object]:
    """Take from a report what `expected_counts` counts."""
    told = report.units.as_json()
    return {name: told[name] for name in ("expired", "recent", "protected", "blocked", "members", "unrooted")}


@pytest.mark.parametrize("chunk", CHUNKS)
def test_what_a_plan_counts_goes_and_both_are_what_the_oracle_says(worlds_of: Worlds, chunk: int) -> None:
    """Promises 1, 3, 7: plan, prune and what is left agree with the oracle; a refused store is unchanged."""
    for world in worlds_of(chunk):
        options = _random_options(world.seed)
        faults = list(world.retention.verify())  # rows of no run, which the store came with
        plan = world.retention.plan(world.policy)
        check_plan(world, plan)
        if world.verdicts.refused and world.verdicts.expired:
            with pytest.raises(Refused, match="status"):
                world.retention.prune(world.policy, options=options)
        else:
            report = world.retention.prune(world.policy, options=options)
            assert report.ended == "completed", world.seed
            assert report.units.removed == plan.units.expired, world.seed
            assert +report.rows == +plan.rows, world.seed
            assert report.keys_forgotten == plan.keys_forgotten, world.seed
        check_after(world, world.look())
        assert list(world.retention.verify()) == faults, world.seed


@pytest.mark.parametrize("chunk", CHUNKS[::2])
def test_explain_says_of_every_run_what_the_oracle_says(worlds_of: Worlds, chunk: int) -> None:
    """Promise 7: asked about any run, explain gives its unit's verdict, with exactly its reasons."""
    for world in worlds_of(chunk):
        store = world.retention.store
        rules = make_plan(store, world.policy, now=world.now).rules
        unit_of = {key: unit for unit in world.visible.units for key in unit.members}
        for key in filter(_can_be_typed, [row["workflow_uuid"] for row in world.dump[oracle.RUNS]]):
            where = (world.seed, key)
            found = store.find(str(key))
            told = judge(found, rules)
            names = {reason.name for reason in told.blocked}
            unit = unit_of.get(key)
            if unit is None:  # on or below a cycle, or below a key that cannot be asked for
                assert told.verdict.value == "blocked", where
                assert names & {"cycle", "not-a-root"}, where
                continue
            assert (found.key, told.verdict.value) == (unit.root, str(unit.verdict)), where
            assert names == unit.blocked, where
            if "unreadable-key" not in unit.blocked:  # such a key cannot be looked for among references
                assert {reason.name for reason in told.protected} == unit.protected, where
            assert {reason.name for reason in told.kept} == unit.kept, where
            assert (found.end if found.settled else None) == unit.end_us or "future-end-time" in names, where


@pytest.mark.parametrize("chunk", CHUNKS[::4])
def test_sweeps_with_budgets_leave_what_the_oracle_leaves(
    tmp_path: Path, worlds_of: Worlds, chunk: int
) -> None:
    """Promises 6, 10: asked first, then approved once, small sweeps do together what one prune does."""
    for world in worlds_of(chunk):
        world.retention._state = StateDirectory(tmp_path / f"state {world.seed}")
        first = world.retention.sweep(world.policy)
        expired = len(world.verdicts.expired)
        assert (first.ended, first.units.expired) == ("guard", expired), world.seed
        assert canonical(world.look()) == canonical(world.dump), world.seed
        if world.verdicts.refused and expired:
            with pytest.raises(Refused, match="status"):
                world.retention.sweep(world.policy, approve=first.fingerprint)
        else:
            budget = Budget(units=Random(world.seed).choice((1, 3, 1000)))
            removed = 0
            for _ in range(expired + 2):
                options = SweepOptions(budget=budget)
                report = world.retention.sweep(world.policy, options=options, approve=first.fingerprint)
                removed += report.units.removed
                if report.ended != "budget":
                    break
            assert (report.ended, removed) == ("completed", expired), world.seed
        check_after(world, world.look())


@pytest.mark.parametrize("chunk", CHUNKS[1::8])
def test_trees_that_are_too_deep_stay_as_the_oracle_says(
    tmp_path: Path, worlds_of: Worlds, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3: with a small limit many random trees are too deep; they are named and stay whole."""
    monkeypatch.setattr(oracle, "MAX_DEPTH", 2)
    profile = tmp_path / "shallow.toml"
    shallow = built_in_text("dbos").replace("[units.tree]", "[units.tree]\nmax_depth = 2")
    profile.write_text(shallow, encoding="utf-8")
    too_deep = judged = 0
    for world in worlds_of(chunk, profile=profile):
        if world.verdicts.refused:
            continue
        judged += 1
        plan = world.retention.plan(world.policy)
        assert plan.units.expired == len(world.verdicts.expired), world.seed
        assert plan.units.members + plan.units.unrooted == len(world.dump[oracle.RUNS]), world.seed
        too_deep += plan.units.blocked["too-deep"]
        world.retention.prune(world.policy)
        check_after(world, world.look())
    assert too_deep > judged / 8


@pytest.mark.parametrize("chunk", CHUNKS[::2])
def test_the_store_in_memory_agrees(tmp_path: Path, chunk: int) -> None:
    """The same core over other rows comes to the same: no decision is left to SQL."""
    for world in worlds(tmp_path, chunk):
        store = MemoryStore(world.dump, now=world.now)
        pages = Random(world.seed).choice((1, 7, 1000))
        report, going = survey(store, world.policy, page=pages)
        assert counts_of(report) == expected_counts(world), world.seed
        assert sorted(going) == sorted(map(str, world.verdicts.expired)), world.seed
        if world.verdicts.refused and going:
            with pytest.raises(Refused, match="status"):
                sweep(store, world.policy)
        else:
            pace = Random(world.seed).choice((offline_pace(), live_pace(0.02), live_pace(0.02, max_units=1)))
            done = sweep(store, world.policy, pace=pace).report
            assert (done.ended, done.units.removed) == ("completed", len(going)), world.seed
        check_after(world, store.dump())


def check_plan(world: World, plan: Report) -> None:
    """Compare a plan with the oracle's: units by verdict and reason, members, rows by table, ids."""
    assert counts_of(plan) == expected_counts(world), world.seed
    assert plan.units.members + plan.units.unrooted == len(world.dump[oracle.RUNS]), world.seed
    planned = world.verdicts.planned_rows(world.dump)
    assert +plan.rows == {table: rows for table, rows in planned.items() if rows}, world.seed
    going = [unit for unit in world.verdicts.units if unit.verdict == "expired"]
    assert plan.keys_forgotten == sum(unit.rows for unit in going), world.seed
    counted = [name for name in plan.units.decided if name in COUNTING]
    for name in counted:
        assert plan.units.decided[name] == decided(world, name.replace("_", "-")), (world.seed, name)
    assert canonical(world.look()) == canonical(world.dump), world.seed


def check_after(world: World, after: Dump) -> None:
    """Compare a store with what the oracle leaves of it."""
    expected = world.verdicts.after(world.dump)
    assert canonical(after) == canonical(expected), world.seed


def _random_options(seed: int) -> SweepOptions:
    rng = Random(seed)
    return SweepOptions(offline=rng.random() < 0.3, batch_units=rng.choice((None, None, 1, 3)))


def _can_be_typed(key: Value) -> bool:
    return isinstance(key, str) and oracle._is_readable_key(key)
