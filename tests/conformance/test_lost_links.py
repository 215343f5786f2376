"""Links that lead to no run are counted by `verify`, on every database and without an id."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Retention
from afterrun.profiles.loader import built_in_text
from memory import RUNS, STEPS
from sites import PostgresSite, SqliteSite, live, run, step

KINDS = ["sqlite", "postgres"]
MONTH = Policy(keep_for=timedelta(days=30))


@pytest.fixture(params=KINDS)
def links(request: pytest.FixtureRequest) -> SqliteSite | PostgresSite:
    """Give an empty store of each database in turn."""
    site: SqliteSite | PostgresSite = request.getfixturevalue(f"{request.param}_site")
    return site


def location(site: SqliteSite | PostgresSite) -> str:
    """Return what a store is opened by."""
    return str(site.path) if isinstance(site, SqliteSite) else site.database.url()


def test_references_of_live_runs_to_runs_that_are_gone_are_counted(links: SqliteSite | PostgresSite) -> None:
    """Only references that protect count: those of live runs, and not those of ended ones or to nothing."""
    links.add(RUNS, live("waiter"), live("fork", forked_from="gone"), run("ended"), run("there"))
    links.add(
        STEPS,
        step("waiter", 1, "there"),
        step("waiter", 2, "gone"),
        step("waiter", 3, "lost"),
        step("waiter", 4),
        step("ended", 1, "gone"),
    )
    told = "references: {} rows of {} by which live runs refer to others ({}) lead to runs that are gone"
    assert list(links.retention.verify()) == [
        told.format(2, STEPS, "cross-tree-reference"),
        told.format(1, RUNS, "fork-base"),
    ]


def test_a_sweep_adds_no_lost_link(links: SqliteSite | PostgresSite) -> None:
    """What a live run refers to stays, so that a store without faults has none afterwards."""
    links.add(RUNS, live("waiter"), live("fork", forked_from="base"), run("base"), run("there"), run("free"))
    links.add(STEPS, step("waiter", 1, "there"), step("free", 1, "there"))
    assert links.retention.prune(MONTH).units.removed == 1
    assert list(links.retention.verify()) == []


def test_a_parent_that_is_gone_counts_where_it_blocks(
    links: SqliteSite | PostgresSite, tmp_path: Path
) -> None:
    """Where the engine removes parents by itself it is no fault; where the profile blocks, it is one."""
    links.add(RUNS, run("one", "gone"), run("two", "gone"), run("root"), run("child", "root"))
    assert list(links.retention.verify()) == []
    profile = tmp_path / "strict.toml"
    text = built_in_text("dbos")
    assert 'missing = "root"' in text
    profile.write_text(text.replace('missing = "root"', 'missing = "block"'), encoding="utf-8")
    with Retention(
        location(links), profile=str(profile), state=tmp_path / "strict", writable=False
    ) as strict:
        assert list(strict.verify()) == [
            "parents: 2 runs have a parent that is gone, so their trees are blocked"
        ]
