"""The SQL of times among rows, statement by statement, and what each database does for it.

`AFTERRUN_WRITE_GOLDEN=1 pytest tests/ends/test_end_rows_sql.py` writes the files anew; look at the difference
before you keep it.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.stores import open_store
from afterrun.stores.sql.store import SqlStore
from ends.jobs import make, open_jobs
from generations.loops import Loops, SqliteLoops
from postgres.pg_plan_kit import nodes, plan_of
from sql_kit import FAR, aggregates, statements

GOLDEN = Path(__file__).parent / "golden"
HOW = "-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/ends/test_end_rows_sql.py\n"

JOBS = 20_000
MANY = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
    INSERT INTO jobs SELECT i, 'mail', 'done', NULL, NULL FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {3 * JOBS})
    INSERT INTO events SELECT i, 1 + i % {JOBS}, 'step', 1600000000000 + i FROM n;
"""
READ_EVENTS = re.compile(r'FROM (?:"public"\.)?"events" AS t0')
FOR_ONE_JOB = re.compile(r't0\."job" = [uk]\."id"')


@pytest.fixture
def opened(store: Loops) -> Iterator[SqlStore]:
    """Open an empty store of jobs."""
    make(store)
    found = open_store(store.location, profile=str(store.folder / "jobs.toml"))
    yield found
    found.close()


def compiled(store: SqlStore) -> dict[str, str]:
    """Return all statements by name, each on one line."""
    found = {name: store.dialect.sql(statement) for name, statement in statements(store)}
    for name, texts in aggregates(store):
        found.update({f"{name} {i}" if len(texts) > 1 else name: text for i, text in enumerate(texts)})
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in found.items()}


def written(found: dict[str, str]) -> str:
    """Return the text of a golden file."""
    parts = (
        f"\n-- {name}\n{textwrap.fill(text, 110, break_long_words=False)};\n" for name, text in found.items()
    )
    return HOW + "".join(parts)


def test_the_statements_are_the_reviewed_ones(opened: SqlStore) -> None:
    """The SQL of each database is what its golden file says."""
    path = GOLDEN / f"jobs.{opened.dialect.name}.sql"
    text = written(compiled(opened))
    if os.environ.get("AFTERRUN_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), HOW


def test_events_are_always_those_of_one_job(opened: SqlStore) -> None:
    """Each sub-select is tied to the job beside it: else any event would end every job."""
    texts = compiled(opened)
    reads = {name: len(READ_EVENTS.findall(text)) for name, text in texts.items()}
    assert reads["facts by key"] == 1
    assert all(reads[name] for name in reads if name.startswith(("page by", "remaining by", "newest kept")))
    assert {name: len(FOR_ONE_JOB.findall(text)) for name, text in texts.items()} == reads


def test_the_newest_event_is_found_by_its_index_for_each_job(store: Loops) -> None:
    """No statement of a sweep reads all events, with statistics and without; a page alone reads all jobs."""
    make(store)
    store.run(MANY)
    for analyze in ("", "ANALYZE"):
        store.run(analyze or "SELECT 1")
        with open_jobs(store, writable=False) as retention:
            opened = retention.store
            assert isinstance(opened, SqlStore)
            whole = {
                name: bad
                for name, statement in statements(opened)
                if (bad := scans(opened, statement, store))
            }
        assert {name for name, tables in whole.items() if "events" in tables} == set()
        assert all(name.startswith(("page by", "remaining by")) for name in whole), whole


def test_the_check_of_plans_can_fail(store: Loops) -> None:
    """A count of all events is seen to read them all."""
    make(store)
    store.run(MANY)
    with open_jobs(store, writable=False) as retention:
        opened = retention.store
        assert isinstance(opened, SqlStore)
        events = opened.binding.table("events", "x")
        assert scans(opened, events.select(), store) == {"events"}


def scans(opened: SqlStore, statement: object, store: Loops) -> set[str]:
    """Return the tables that a statement reads as a whole, by their own names."""
    aliases = {"u": "jobs", "k": "jobs", "p": "jobs", "t0": "events", "x": "events"}
    if isinstance(store, SqliteLoops):
        steps = opened.dialect.explain(statement, {})  # type: ignore[arg-type]
        named = [step.split()[1] for step in steps if step.startswith("SCAN ")]
        assert not any("AUTOMATIC" in step for step in steps)
        return {aliases.get(name, name) for name in named if name in aliases or name in aliases.values()}
    given = {"keys": [1, 2], "now": FAR, "bound": FAR, "bound0": FAR, "ended": 5, "tie": 5, "after": 5}
    plan = plan_of(opened, statement, given)  # type: ignore[arg-type]
    return {str(node["Relation Name"]) for node in nodes(plan) if node["Node Type"].endswith("Seq Scan")}
