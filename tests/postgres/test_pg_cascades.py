"""Rows that a run takes along by a foreign key: the order of removal, and that each row is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from afterrun import Report
from afterrun.stores.sql.store import SqlStore
from payloads.blob_kit import (
    HEAD,
    MONTH,
    PostgresShop,
    add_blobs,
    add_runs,
    execute,
    left,
    opened,
    prune,
    refer,
)
from pg_server import SUPERUSER, Database
from postgres.statement_tap import driver_of, tapped

OWNED = 'owned = [{ table = "steps", column = "run" }]\n'
ALL_OWNED = (
    'owned = [{ table = "steps", column = "run" }, { table = "results", column = "run" },'
    ' { table = "notes", column = "run" }]\n'
    'links = [{ table = "runs", column = "step" }, { table = "steps", column = "result" }]\n'
)
BLOBS = (
    '[[blobs]]\ntable = "blobs"\nkey = "digest"\nsize = "size"\n'
    'references = [{ table = "runs", column = "input" }, { table = "steps", column = "input" },'
    ' { table = "steps", column = "output" }]\n'
)
TO_RUN = "ALTER TABLE steps ADD FOREIGN KEY (run) REFERENCES runs ON DELETE CASCADE"
TO_STEP = "ALTER TABLE runs ADD step text REFERENCES steps ON DELETE SET NULL"
TO_RESULT = "ALTER TABLE steps ADD result text REFERENCES results ON DELETE SET NULL"
KEYS = (TO_RUN, TO_STEP, TO_RESULT)
"""A run has steps, refers to its last one, and a step refers to its result."""

EDGES = 'edges = [{ column = "parent" }]'
LINKED = 'edges = [{ column = "parent_step", via = { table = "steps", key = "id", owner = "run" } }]'
"""How a run leads to its parent: by that one's key, and by a step of it."""

TAKEN = ["notes", "runs", "steps", "results"]
IN_ORDER = ["steps", "results", "notes", "runs"]
"""Tables in the order of removal: with the cascade, and without."""

COUNT = r'^SELECT count\(\*\).*\n.*"steps"'
"""What counts, within a batch, the steps that will be taken along."""

OTHERWISE = {
    "the run's row stays as it is": (TO_RUN, TO_STEP.replace("SET NULL", "CASCADE"), TO_RESULT),
    "nothing leads to the step": (TO_RUN, "ALTER TABLE runs ADD step text", TO_RESULT),
    "steps stay without their run": (TO_RUN.replace("CASCADE", "SET NULL"), *KEYS[1:]),
    "results hold the run": (*KEYS, "ALTER TABLE results ADD FOREIGN KEY (run) REFERENCES runs"),
    "results hold notes": (*KEYS, "ALTER TABLE results ADD note text REFERENCES notes"),
    "a step has two runs": (*KEYS, "ALTER TABLE steps ADD second text REFERENCES runs ON DELETE SET NULL"),
}
"""Foreign keys with which the profile's own order stays."""


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> PostgresShop:
    """Give an empty store in which steps have ids, and runs have results and notes."""
    made = PostgresShop(database, tmp_path)
    made.profile.write_text(HEAD.replace(OWNED, ALL_OWNED) + BLOBS, encoding="utf-8")
    execute(made, "ALTER TABLE steps ADD id text PRIMARY KEY DEFAULT gen_random_uuid()::text")
    for table in ("results", "notes"):
        execute(made, f"CREATE TABLE {table} (id text PRIMARY KEY, run text)")
        execute(made, f"CREATE INDEX ON {table} (run)")
    return made


def tie(shop: PostgresShop, keys: Sequence[str] = KEYS) -> None:
    """Add foreign keys, each with an index."""
    for key in keys:
        execute(shop, key)
    execute(shop, "CREATE INDEX ON runs (step)")
    execute(shop, "CREATE INDEX ON steps (result)")


def fill(shop: PostgresShop) -> None:
    """Add a tree of two runs and a run that lives, each with three steps, of which it refers to the last."""
    add_runs(shop, "a")
    add_runs(shop, "b", parent="a")
    add_runs(shop, "live", live=True)
    for run in ("a", "b", "live"):
        add_blobs(shop, f"{run}-0", f"{run}-1")
        refer(shop, (run, f"{run}-0"), (run, f"{run}-1"), (run, None))
        execute(shop, "INSERT INTO results VALUES (?, ?)", (f"{run}-result", run))
        execute(shop, "INSERT INTO notes VALUES (?, ?)", (f"{run}-note", run))
        execute(shop, "UPDATE steps SET result = ? WHERE run = ?", (f"{run}-result", run))
    execute(shop, "UPDATE runs SET step = (SELECT max(s.id) FROM steps AS s WHERE s.run = runs.id)")


def order(shop: PostgresShop) -> list[str]:
    """Return the tables in the order in which rows go."""
    with opened(shop) as retention:
        assert isinstance(retention.store, SqlStore)
        assert retention.store.schema().problems == ()
        return [name for name, _ in retention.store.removal.deletes]


def check(shop: PostgresShop, report: Report) -> None:
    """Make sure that the tree went with all its rows, and of the other run nothing."""
    assert (report.units.removed, report.units.deferred) == (1, 0)
    assert dict(report.rows) == {"runs": 2, "steps": 6, "results": 2, "notes": 2, "blobs": 4}
    assert left(shop) == ["live-0", "live-1"]
    assert left(shop, "runs", "id") == ["live"]
    assert left(shop, "steps", "run") == ["live"] * 3
    assert left(shop, "results", "run") == left(shop, "notes", "run") == ["live"]


def test_what_a_run_takes_along_is_counted_and_no_row_is_written_before_it_goes(shop: PostgresShop) -> None:
    """Rows before minus rows after are those reported and planned; shared payloads are found, too."""
    tie(shop)
    fill(shop)
    assert order(shop) == TAKEN
    with opened(shop) as retention, tapped(retention.store) as tap:
        written: list[object] = []

        def look() -> None:
            asked = "SELECT pg_stat_get_xact_tuples_updated(%s::regclass)"
            for table in ("own.runs", "own.steps"):
                written.extend(driver_of(retention.store).execute(asked, (table,)).fetchone() or ())

        tap.once("before", "COMMIT", look)
        planned = retention.plan(MONTH)
        report = retention.prune(MONTH)
    assert tap.all_done
    assert written == [0, 0]
    assert {table: planned.rows[table] for table in TAKEN} == {table: report.rows[table] for table in TAKEN}
    check(shop, report)


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_foreign_keys_leave_the_order_to_the_profile(shop: PostgresShop, name: str) -> None:
    """Where the cascade would take too much, too little, or meet an obstacle, rows go as they always did."""
    tie(shop, OTHERWISE[name])
    assert order(shop) == IN_ORDER


@pytest.mark.parametrize("name", ["nothing leads to the step", "results hold the run"])
def test_the_order_of_the_profile_removes_the_same_rows(shop: PostgresShop, name: str) -> None:
    """Whatever the order is, all goes and each row is counted once."""
    tie(shop, OTHERWISE[name])
    fill(shop)
    check(shop, prune(shop))


def test_rows_go_also_where_no_trigger_takes_them_along(shop: PostgresShop) -> None:
    """A superuser may have switched off what foreign keys do: then a DELETE of our own finds the rows."""
    tie(shop)
    fill(shop)
    shop.database.run("ALTER TABLE own.runs DISABLE TRIGGER ALL", user=SUPERUSER)
    assert order(shop) == TAKEN
    check(shop, prune(shop))


def test_no_row_comes_between_the_count_and_the_removal(shop: PostgresShop) -> None:
    """Whoever adds a step to a run that is about to go waits for our lock, so the count stays right."""
    tie(shop)
    fill(shop)
    tried: list[str] = []

    def add() -> None:
        with closing(shop.connect()) as session:
            session.run("SET lock_timeout = '20ms'")
            try:
                session.run("INSERT INTO steps (run) VALUES ('b')")
            except psycopg.errors.LockNotAvailable:
                tried.append("waited")

    with opened(shop) as retention, tapped(retention.store) as tap:
        tap.once("after", COUNT, add)
        report = retention.prune(MONTH)
    assert tap.all_done
    assert tried == ["waited"]
    check(shop, report)


def link_to_steps(shop: PostgresShop) -> None:
    """Let runs lead to their parents by a step of these, which no lock of ours holds."""
    shop.profile.write_text(shop.profile.read_text("utf-8").replace(EDGES, LINKED), "utf-8")
    execute(shop, "ALTER TABLE runs ADD parent_step text REFERENCES steps ON DELETE SET NULL")
    execute(shop, "CREATE INDEX ON runs (parent_step)")
    execute(shop, "UPDATE runs SET parent_step = (SELECT min(id) FROM steps WHERE run = 'a') WHERE id = 'b'")


CHILD = (
    "INSERT INTO runs (id, status, parent_step) SELECT 'new', 'running', min(id) FROM steps WHERE run = 'b'"
)
OTHERS_RESULT = "UPDATE steps SET result = 'b-result' WHERE run = 'live'"


@pytest.mark.parametrize("news", [CHILD, OTHERS_RESULT], ids=["child", "reference"])
@pytest.mark.parametrize(
    ("word", "deferred"), [("SKIP LOCKED", 0), (COUNT, 1), ('DELETE FROM "own"."runs"', 1)]
)
def test_what_comes_to_refer_to_a_row_that_goes_keeps_its_tree(
    shop: PostgresShop, word: str, news: str, deferred: int
) -> None:
    """The database would empty the reference, so that no look afterwards finds it: its updates tell."""
    tie(shop)
    fill(shop)
    link_to_steps(shop)
    assert order(shop) == TAKEN
    with opened(shop) as retention, tapped(retention.store) as tap:
        tap.once("before", word, lambda: execute(shop, news))
        report = retention.prune(MONTH)
    assert tap.all_done
    assert (report.ended, report.units.removed, report.units.deferred) == ("completed", 0, deferred)
    assert {"a", "b"} <= set(left(shop, "runs", "id"))
    with opened(shop) as retention:
        assert retention.prune(MONTH).units.removed == 0


def test_a_tree_whose_members_lead_to_steps_of_each_other_goes(shop: PostgresShop) -> None:
    """What refers to the tree from within goes with it, and is no obstacle."""
    tie(shop)
    fill(shop)
    link_to_steps(shop)
    check(shop, prune(shop))
