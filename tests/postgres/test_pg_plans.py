"""What PostgreSQL does for each statement, on stores of 100,000 runs: nothing of a sweep may read them all.

The plans are asked for without statistics, as after an upgrade of the server, with those of a time when the
store was small and nothing in it old, and with those of today.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, get_args

import pytest

from afterrun import Budget, Policy, Retention, SweepOptions
from afterrun.core.store import Cursor
from afterrun.core.times import to_datetime
from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from engines.clones import CloneOptions, Shape
from engines.pg_stores import SCHEMA, clone_pg_store
from pg_server import SUPERUSER, Database, Server
from postgres.pg_plan_kit import LIVE_INDEXES, Explained, explained, nodes, plan_of, reads_whole, shape
from postgres.statement_tap import dialect_of, driver_of, tapped
from sql_kit import statements

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]  # which copies 100,000 runs, on a busy machine

RUNS = 100_000
LARGE = 10_000
"""Rows from which a table must not be read as a whole."""

Statistics = Literal["outdated", "none", "new"]
STORES: tuple[tuple[str, Shape], ...] = (("3.4.0", "tree"), ("2.31.1", "flat"))

FORGOTTEN = f"""
DELETE FROM pg_statistic USING pg_class AS c
    WHERE starelid = c.oid AND c.relnamespace = '{SCHEMA}'::regnamespace;
UPDATE pg_class SET reltuples = CASE relkind WHEN 'r' THEN -1 ELSE 0 END, relpages = (relkind <> 'r')::int,
    relallvisible = 0 WHERE relkind IN ('r', 'i') AND relnamespace = '{SCHEMA}'::regnamespace
"""
"""Makes a store look as if nobody had ever counted it, as autovacuum does sooner or later."""

RUN_TABLE = f"{SCHEMA}.workflow_status"

LIVE = f"""
INSERT INTO {RUN_TABLE} (workflow_uuid, status, name, created_at, updated_at, forked_from)
    SELECT 'live ' || n, (ARRAY['PENDING', 'ENQUEUED', 'DELAYED'])[1 + n % 3], 'simple', 1, 1,
        (SELECT workflow_uuid FROM {RUN_TABLE} WHERE completed_at IS NOT NULL LIMIT 1)
    FROM generate_series(1, 600) AS n;
INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id, function_name, child_workflow_id)
    SELECT 'live ' || n, f, 'step', 'live ' || n || f
    FROM generate_series(1, 600) AS n, generate_series(1, 5) AS f
"""

FEW_PARENTS = f"""
WITH few AS (SELECT array_agg(id) AS ids FROM (SELECT workflow_uuid FROM {RUN_TABLE} LIMIT 80) AS t (id))
UPDATE {RUN_TABLE} SET parent_workflow_id = ids[array_position(ids, workflow_uuid) + 40] FROM few
    WHERE workflow_uuid = ANY (ids[1:40])
"""
"""A column of parents that is NULL in nearly all rows."""

WHOLE_STORE = ("remaining by", "page by updated_at")
"""Statements about all runs: what a cut off sweep left, and runs from before the engine's upgrade, which no
index serves; no sweep that knows that there are none asks for them."""


CENSUS = "SELECT rows.status, count(*)"
LEFT = "SELECT count(*) AS count_1 \nFROM"
"""What of a sweep may read a table: the census, and the count of what is left, which is about all of it."""


@dataclass(slots=True)
class Big:
    """A big store, what is special about it, and what the server knows of it."""

    database: Database
    version: str
    shape: Shape
    statistics: Statistics | None = None
    large: Collection[str] = ()

    def know(self, statistics: Statistics) -> None:
        """Let the server have these statistics, by whatever way leads there from those that it has."""
        if statistics == "outdated" != self.statistics:
            self._fill()
        if statistics == "none":
            self.database.run(FORGOTTEN, user=SUPERUSER)
        elif statistics == "new":
            self.database.run("VACUUM ANALYZE")
        self.statistics = statistics

    def _fill(self) -> None:
        """Make it, with statistics that were gathered when it held a run for each situation."""
        options: CloneOptions = {"shape": self.shape, "expired": 0.5, "analyze": False}
        clone = clone_pg_store(self.database, runs=RUNS, version=self.version, **options)
        self.large = {table for table, rows in clone.rows.items() if rows >= LARGE}
        self.database.run(LIVE)
        if self.shape == "flat":
            self.database.run(FEW_PARENTS)

    @contextmanager
    def opened(self) -> Iterator[SqlStore]:
        """Open it for removal."""
        store = open_store(self.database.url(), writable=True)
        try:
            yield store
        finally:
            store.close()


@pytest.fixture(scope="module")
def stores(postgres: Server) -> Iterator[dict[tuple[str, Shape], Big]]:
    """Keep the big stores that were made."""
    made: dict[tuple[str, Shape], Big] = {}
    yield made
    for big in made.values():
        postgres.drop_database(big.database.name)


@pytest.fixture(
    scope="module", params=[(*store, state) for store in STORES for state in get_args(Statistics)], ids=str
)
def big(request: pytest.FixtureRequest, postgres: Server, stores: dict[tuple[str, Shape], Big]) -> Big:
    """Give a big store with one kind of statistics."""
    version, shape, statistics = request.param
    if (version, shape) not in stores:
        stores[version, shape] = Big(postgres.create_database(), version, shape)
        stores[version, shape].know("outdated")
    stores[version, shape].know(statistics)
    return stores[version, shape]


def parameters(store: SqlStore, count: int) -> Mapping[str, object]:
    """Return values for all parameters: these many roots, and a place in the middle of what is old."""
    runs = f"{SCHEMA}.workflow_status WHERE completed_at IS NOT NULL ORDER BY completed_at"
    driver = driver_of(store)
    keys = [key for (key,) in driver.execute(f"SELECT workflow_uuid FROM {runs} LIMIT {count}".encode())]
    middle = f"SELECT completed_at, workflow_uuid FROM {runs} OFFSET {RUNS // 5} LIMIT 1"
    ((ended, tie),) = driver.execute(middle.encode()).fetchall()
    bound = store.now() // 1_000 - 30 * 86_400_000
    bounds = dict.fromkeys(("bound", "bound0", "bound1"), bound)
    return {
        "keys": dialect_of(store).bind_keys(keys),
        "now": store.now(),
        "one": 1,
        "ended": ended,
        "tie": tie,
        **bounds,
    }


@pytest.mark.parametrize("count", [1, 100, 1_000])
def test_no_statement_of_a_sweep_reads_a_whole_table(big: Big, count: int) -> None:
    """Page, facts, children, flags, locks, weighing and removal use indexes, whatever the statistics say."""
    assert {"workflow_status", "operation_outputs"} <= set(big.large)
    with big.opened() as store:
        given = parameters(store, count)
        found = {
            name: (bad, shape(plan))
            for name, statement in statements(store)
            if not name.startswith(WHOLE_STORE)
            and (bad := reads_whole(plan := plan_of(store, statement, given), big.large))
        }
    assert found == {}


def test_the_check_of_plans_can_fail(big: Big, monkeypatch: pytest.MonkeyPatch) -> None:
    """The census and the page over an unindexed source are seen to read everything.

    So are children, by a planner that knows nothing and was not told to go by an index.
    """
    with big.opened() as store:
        given = parameters(store, 1_000)
        assert not store.streams()[1].indexed
        for statement in (store.aggregates._census_part(None), store.candidates.statement(1, "first", 1_000)):
            assert reads_whole(plan_of(store, statement, given), big.large)
        if big.statistics == "none":
            dialect_of(store)._steer(())
            monkeypatch.setattr(dialect_of(store), "_steer", lambda _parameters: None)
            assert reads_whole(plan_of(store, store.facts.by_parent[0], given), big.large)


@pytest.mark.parametrize("position", ["first", "since", "later"])
def test_a_page_reads_the_index_in_its_order_and_stops(big: Big, position: str) -> None:
    """However many runs are old, a page reads as many entries as it has, and sorts none of the others."""
    with big.opened() as store:
        given = parameters(store, 1)
        plan = plan_of(store, store.candidates.statement(0, position, 1_000), given)
        tallest = [node for node in nodes(plan) if node["Node Type"] == "Limit"]
    assert len(tallest) == 1, shape(plan)
    (below,) = tallest[0]["Plans"]
    assert (below["Node Type"], below["Index Name"]) == ("Index Scan", "idx_workflow_status_completed_at")


def test_what_live_runs_refer_to_is_found_from_each_of_them(big: Big) -> None:
    """From the partial indexes of live runs, of which there are 600, to the rows of each, never from all."""
    with big.opened() as store:
        held = {held.name: held.statement for held in store.facts.flags}
        plan = plan_of(store, held["cross-tree-reference"], parameters(store, 1_000))
    assert plan["Node Type"] == "Nested Loop", shape(plan)
    steps = list(nodes(plan))
    runs = {node.get("Index Name") for node in steps if node.get("Relation Name") != "operation_outputs"}
    assert runs & LIVE_INDEXES
    conditions = [
        node["Index Cond"]
        for node in steps
        if str(node.get("Index Name", "")).startswith("operation_outputs") and "Index Cond" in node
    ]
    assert len(conditions) == 1
    assert "w.workflow_uuid" in conditions[0], conditions


@pytest.mark.parametrize(
    ("budget", "offline"), [(None, True), (120, False)], ids=["offline", "live, cut off"]
)
def test_a_sweep_that_removes_reads_everything_once(
    big: Big, tmp_path: Path, budget: int | None, offline: bool
) -> None:
    """In all that a real sweep runs, the census alone reads the table, and counting what was left."""
    with Retention(big.database.url(), state=tmp_path) as retention:
        never = Policy(keep_for=timedelta(days=3_000))
        retention.sweep(never, always=True)  # notes that the rare stream is empty
        oldest = retention.store.page(Cursor(), cutoff=retention.store.now(), limit=1_500).units[-1].end
        assert oldest is not None
        policy = Policy(before=to_datetime(oldest))
        options = SweepOptions(offline=offline, budget=Budget(units=budget), sleep=lambda _: None)
        with explained(retention.store) as seen:
            report = retention.sweep(policy, options=options, always=True)
    assert report.ended == ("completed" if budget is None else "budget")
    assert report.units.removed > 100
    assert sum(one.text.startswith("DELETE") for one in seen) >= 6
    whole = [one.text for one in seen if reads_whole(one.plan, big.large) and not _newest(one)]
    assert sum(text.startswith(CENSUS) for text in whole) == 1, whole
    assert all(text.startswith((CENSUS, LEFT)) for text in whole), whole


def _newest(one: Explained) -> bool:
    """Say whether this is a look at the end of an index, which stops at its first row."""
    return one.plan["Node Type"] == "Limit" and "DESC" in one.text and "Seq Scan" not in shape(one.plan)


def test_an_empty_sweep_costs_the_same_whatever_is_kept(database: Database, tmp_path: Path) -> None:
    """With nothing to remove, the number of statements does not grow, and none reads a table."""
    policy = Policy(keep_for=timedelta(days=30))
    counted: list[int] = []
    for runs in (1_000, 20_000):
        clone_pg_store(database, runs=runs, version="3.4.0", shape="tree", expired=0.0)
        with Retention(database.url(), state=tmp_path / str(runs)) as retention:
            retention.sweep(policy, always=True)
            with explained(retention.store) as seen:
                report = retention.sweep(policy)
        assert (report.ended, report.units.scanned, report.units.removed) == ("completed", 0, 0)
        assert [
            one.text for one in seen if reads_whole(one.plan, ["workflow_status"]) and not _newest(one)
        ] == []
        counted.append(len(seen))
    assert counted[0] == counted[1] <= 6


def test_one_page_is_read_with_the_same_number_of_statements_anywhere(big: Big) -> None:
    """A page in the middle of a stream costs no more statements than the first."""
    counted: list[int] = []
    with big.opened() as store:
        cursor: Cursor | None = Cursor()
        for _ in range(10):
            assert cursor is not None
            with tapped(store) as tap:
                cursor = store.page(cursor, cutoff=store.now(), limit=1_000).cursor
            counted.append(len([text for text in tap.statements if not text.startswith("SET")]))
    assert counted[-1] <= counted[0] == max(counted) <= 10
