"""Stores of jobs whose end is their newest event, on SQLite and on PostgreSQL by the same SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from afterrun import Policy, Report, Retention, SweepOptions
from generations.loops import Loops, days_ago

MONTH: Final = Policy(keep_for=timedelta(days=30))

PROFILE: Final = """
name = "jobs"
engine = "Jobs"
[detect]
tables = ["jobs", "events"]
[detect.read]
"one" = ""
[units.tree]
table = "jobs"
key = "id"
status = "status"
terminal = ["done", "failed"]
successful = ["done"]
live = [["waiting", "running"]]
end = [END]
seen = [{ column = "at", format = "epoch_ms", rows = ROWS }]
edges = [{ column = "parent" }]
missing = "root"
group = ["name"]
owned = [{ table = "events", column = "job" }]
unlinked = [{ table = "ticks", column = "job" }]
"""

ROWS: Final = '{ table = "events", on = { job = "id" }, where = { kind = { not_in = ["planned"] } } }'
NEWEST: Final = f'{{ column = "at", format = "epoch_ms", rows = {ROWS} }}'
OWN: Final = '{ column = "ended", format = "epoch_ms" }'

TABLES: Final = """
CREATE TABLE jobs (id BIGINT PRIMARY KEY, name TEXT, status TEXT, parent BIGINT, ended BIGINT);
CREATE INDEX jobs_parent ON jobs (parent);
CREATE TABLE events (id BIGINT PRIMARY KEY, job BIGINT, kind TEXT, at BIGINT);
CREATE INDEX events_job ON events (job);
CREATE TABLE ticks (task TEXT PRIMARY KEY, job BIGINT REFERENCES jobs (id) ON DELETE SET NULL);
CREATE INDEX ticks_job ON ticks (job);
"""


@dataclass(frozen=True)
class Job:
    """One job; its events are so many days old, or have no time at all."""

    id: int
    events: Sequence[float | None] = (40.0,)
    status: str = "done"
    parent: int | None = None
    ended: float | None = None
    planned: Sequence[float] = ()
    name: str = "mail"


def make(store: Loops, *ends: str) -> None:
    """Make the tables and write the profile, without a version and so read by its shape."""
    store.run(TABLES)
    text = PROFILE.replace("[END]", f"[{', '.join(ends or (NEWEST,))}]").replace("ROWS", ROWS)
    (store.folder / "jobs.toml").write_text(text, encoding="utf-8")
    note_shape(store)


def note_shape(store: Loops) -> None:
    """Write into the profile that a store of this shape was read."""
    with open_jobs(store, writable=False) as retention:
        shape = retention.store.schema().version.removeprefix("shape:")
    path = store.folder / "jobs.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'"one" = "\w*"', f'"one" = "{shape}"', text), encoding="utf-8")


def fill(store: Loops, jobs: Iterable[Job]) -> None:
    """Add jobs and their events."""
    jobs = list(jobs)
    store.insert("jobs", [(job.id, job.name, job.status, job.parent, days_ago(job.ended)) for job in jobs])
    events = [
        *((job.id, "step", days_ago(days)) for job in jobs for days in job.events),
        *((job.id, "planned", days_ago(days)) for job in jobs for days in job.planned),
    ]
    last = store.rows("SELECT coalesce(max(id), 0) FROM events")[0][0]
    if events:
        store.insert("events", [(last + number, *event) for number, event in enumerate(events, start=1)])


def open_jobs(store: Loops, *, writable: bool = True) -> Retention:
    """Open it with its profile."""
    profile = str(store.folder / "jobs.toml")
    return Retention(store.location, profile=profile, state=store.folder / "state", writable=writable)


def left(store: Loops) -> set[int]:
    """Return the keys of the jobs that are left."""
    return {row[0] for row in store.rows("SELECT id FROM jobs")}


def counts(store: Loops) -> Counter[str]:
    """Count the rows of each table."""
    tables = ("jobs", "events", "ticks")
    return Counter({table: store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables})


def prune(store: Loops, policy: Policy = MONTH, *, options: SweepOptions | None = None) -> Report:
    """Remove; plan, report and the difference of all tables must agree, and every row be accounted for."""
    with open_jobs(store) as retention:
        planned = retention.plan(policy)
        before = counts(store)
        report = retention.prune(policy, options=options or SweepOptions(offline=True))
        assert report.ended == "completed", report.message
        assert list(retention.verify()) == []
    gone = before - counts(store)
    assert Counter({table: count for table, count in report.rows.items() if count}) == gone
    assert Counter({table: count for table, count in planned.rows.items() if count}) == gone
    assert planned.units.expired == report.units.removed
    assert planned.units.members + planned.units.unrooted == before["jobs"]
    return report


def verdicts(store: Loops, *ids: int, policy: Policy = MONTH) -> dict[int, str]:
    """Explain jobs; return the verdict of each with its reasons."""
    with open_jobs(store, writable=False) as retention:
        found = {job: retention.explain(str(job), policy) for job in ids}
    return {
        job: " ".join([told.verdict.value, *sorted(reason.name for reason in told.reasons)])
        for job, told in found.items()
    }
