"""A scheduler over stores of other kinds: large files that give their space back, and PostgreSQL."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy
from afterrun.core.space import WORTH_BYTES
from afterrun.hosting import Opening, scheduled
from afterrun.schedule import IdleGate, Outcome
from reclaim.bloated import PAYLOAD, YOUNG, make_bloated
from sites import DAY_MS, NOW_MS, PostgresSite, fill, keys, run

MONTH = Policy(keep_for=timedelta(days=30))
PATIENCE = 60.0


def swept(location: str, opening: Opening) -> Outcome:
    """Let an idle host sweep once, and shut it down."""
    told: list[Outcome] = []
    with scheduled(location, MONTH, gate=IdleGate(), opening=opening, observer=told.append) as scheduler:
        scheduler.wait(lambda standing: bool(standing.last), PATIENCE)
    return told[-1]


@pytest.mark.parametrize("wanted", [True, False])
def test_an_idle_host_gives_space_back_if_it_was_told_to(tmp_path: Path, *, wanted: bool) -> None:
    """Free pages stay to be used again unless the host asked; then the file is as small as what it holds."""
    store = make_bloated(tmp_path / "app.sqlite", emptied=False)
    before = store.stat().st_size
    outcome = swept(str(store), Opening(state=tmp_path / "state", always=True, reclaim=wanted))
    assert outcome.ended == "completed"
    given = before - store.stat().st_size
    assert given >= WORTH_BYTES if wanted else given == 0
    assert store.stat().st_size >= YOUNG * PAYLOAD


def test_a_hosted_schema_is_swept_and_remembered(postgres_site: PostgresSite, tmp_path: Path) -> None:
    """A server's store is one like any other: swept once, and on record as completed."""
    fill(postgres_site, [run("old"), run("young", completed_at=NOW_MS - DAY_MS)])
    opening = Opening(state=tmp_path / "hosted", always=True)
    url = postgres_site.database.url()
    outcome = swept(url, opening)
    assert (outcome.ended, outcome.removed) == ("completed", len({"old", "young"} - keys(postgres_site)))
    again: list[Outcome] = []
    with scheduled(url, MONTH, gate=IdleGate(), opening=opening, observer=again.append) as scheduler:
        standing = scheduler.wait(lambda standing: standing.state == "waiting", PATIENCE)
    assert (standing.sweeps, again) == (0, [])


def test_a_server_that_is_away_is_no_end_of_the_host(tmp_path: Path) -> None:
    """The failure is told, the host goes on, and the password is in no word of it."""
    opening = replace(Opening(state=tmp_path / "state"), always=True)
    outcome = swept("postgresql://somebody:geheim@127.0.0.1:1/nowhere?connect_timeout=1", opening)
    assert outcome.ended == "failed"
    assert "geheim" not in repr(outcome)
    assert not any("geheim" in path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert os.environ.get("PGPASSWORD") is None
