"""Random jobs whose ends are events, and a judge in plain Python that imports nothing of afterrun's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from afterrun import Policy, SweepOptions
from afterrun.stores.sql import candidates
from ends.jobs import NEWEST, OWN, Job, fill, left, make, open_jobs
from generations.loops import SqliteLoops

DAYS = st.sampled_from([None, 0.01, 0.5, 6.9, 7.1, 29.0, 31.0, 31.0, 90.0])
KNOWN_DAYS = st.sampled_from([0.5, 31.0, 90.0, -3.0])
JOBS = st.lists(
    st.builds(
        Job,
        id=st.integers(1, 12),
        events=st.lists(DAYS, max_size=3),
        status=st.sampled_from(["done", "done", "done", "failed", "running"]),
        parent=st.one_of(st.none(), st.none(), st.integers(1, 14)),
        ended=DAYS,
        planned=st.lists(KNOWN_DAYS, max_size=1),
        name=st.sampled_from(["mail", "bill"]),
    ),
    max_size=12,
    unique_by=lambda job: job.id,
)
HOUR = 1 / 24


def age(job: Job, *, first: str) -> float | None:
    """Return how many days ago a job ended, by its events or its own column, whichever comes first."""
    events = [days for days in job.events if days is not None]
    by_events = min(events) if events else None
    sources = [by_events, job.ended] if first == "events" else [job.ended, by_events]
    return next((days for days in sources if days is not None), None)


def root_of(job: Job, jobs: Mapping[int, Job]) -> int | None:
    """Climb to the root of a job; there is none in a circle."""
    passed = set()
    while job.parent is not None and job.parent in jobs:
        if job.id in passed:
            return None
        passed.add(job.id)
        job = jobs[job.parent]
    return job.id


def kept_by_count(roots: Iterable[Job], *, first: str, keep_last: int) -> set[int]:
    """Return the roots that are no older than the last successful one that counts, group by group."""
    kept: set[int] = set()
    for name in ("mail", "bill"):
        ranked = [
            (-known, job)
            for job in roots
            if job.name == name and (known := age(job, first=first)) is not None
        ]
        counted = sorted((end, job.id) for end, job in ranked if job.status == "done")
        last = counted[-keep_last] if len(counted) >= keep_last else (-1_000.0, 0)
        kept.update(job.id for end, job in ranked if (end, job.id) >= last)
    return kept


def expected(jobs: Iterable[Job], *, first: str, keep_days: float | None, keep_last: int | None) -> set[int]:
    """Return the jobs that must be left."""
    by_id = {job.id: job for job in jobs}
    roots = {job.id: root_of(job, by_id) for job in by_id.values()}
    firsts = [job for job in by_id.values() if roots[job.id] == job.id]
    newest = kept_by_count(firsts, first=first, keep_last=keep_last) if keep_last else set()
    stay = {key for key, root in roots.items() if root is None}
    for root in firsts:
        members = [by_id[key] for key, owner in roots.items() if owner == root.id]
        ages = [age(member, first=first) for member in members]
        goes = all(member.status != "running" for member in members) and all(
            days is not None and days > HOUR and (keep_days is None or days > keep_days) for days in ages
        )
        if not goes or root.id in newest:
            stay.update(member.id for member in members)
    return stay


@settings(max_examples=60, deadline=None)
@given(
    jobs=JOBS,
    first=st.sampled_from(["events", "own"]),
    index=st.booleans(),
    keep_days=st.sampled_from([None, 7.0, 30.0]),
    keep_last=st.sampled_from([None, 1, 2]),
    window=st.sampled_from([1, 2, 50_000]),
)
def test_exactly_what_an_independent_judge_lets_go_goes(
    jobs: list[Job], first: str, index: bool, keep_days: float | None, keep_last: int | None, window: int
) -> None:
    """Any jobs under any rules, in windows of any size: plan, prune and what is left agree with the judge."""
    if keep_days is None and keep_last is None:
        keep_last = 3
    with tempfile.TemporaryDirectory() as folder, patch.object(candidates, "WINDOW", window):
        store = SqliteLoops(Path(folder))
        make(store, *([NEWEST, OWN] if first == "events" else [OWN, NEWEST]))
        if index:
            store.run("CREATE INDEX jobs_ended ON jobs (ended)")
        if jobs:
            fill(store, jobs)
        kept_for = None if keep_days is None else timedelta(days=keep_days)
        grouped = None if keep_last is None else ("name",)
        rules = Policy(keep_for=kept_for, keep_last=keep_last, group_by=grouped)
        stay = expected(jobs, first=first, keep_days=keep_days, keep_last=keep_last)
        with open_jobs(store) as retention:
            planned = retention.plan(rules)
            report = retention.prune(rules, options=SweepOptions(offline=True))
        assert left(store) == stay
        assert planned.units.members + planned.units.unrooted == len(jobs)
        assert planned.rows["jobs"] == report.rows["jobs"] == len(jobs) - len(stay)


def test_the_judge_knows_a_store_by_hand() -> None:
    """The judge itself: a tree that waits for its child, a loop, and a job by either time."""
    jobs = [
        Job(1, events=[90.0]),
        Job(2, parent=1, events=[2.0]),
        Job(3, parent=4),
        Job(4, parent=3),
        Job(5, events=[90.0], ended=1.0),
        Job(6, events=[], ended=90.0),
    ]
    assert expected(jobs, first="events", keep_days=30, keep_last=None) == {1, 2, 3, 4}
    assert expected(jobs, first="own", keep_days=30, keep_last=None) == {1, 2, 3, 4, 5}
    assert expected(jobs, first="events", keep_days=None, keep_last=1) == {3, 4, 6}
