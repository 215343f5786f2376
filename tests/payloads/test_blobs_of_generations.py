"""Generations refer to blobs, too: what only superseded ones need goes, the current one keeps its own."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from afterrun import BackupOrder, Policy, SweepOptions
from payloads.blob_kit import (
    BLOBS,
    HEAD,
    NOW_MS,
    OLD_MS,
    REFERENCES,
    Shop,
    add_blobs,
    add_runs,
    execute,
    left,
    opened,
    refer,
)

BOTH: Final = Policy(keep_for=timedelta(days=30), generations=Policy(keep_for=timedelta(days=30)))
LOOPS: Final = """
[units.generation]
table = "turns"
key = ["run", "turn"]
current = "turn"
status = "status"
terminal = ["over"]
live = ["running"]
end = [{ column = "ended", format = "epoch_ms" }]
owned = [{ table = "events", on = { run = "run", turn = "turn" } }]
"""
OWNED: Final = 'owned = [{ table = "steps", column = "run" }'
MORE: Final = f'{OWNED}, {{ table = "events", column = "run" }}, {{ table = "turns", column = "run" }}'
BODY: Final = REFERENCES.rstrip().removesuffix("]") + ', { table = "events", column = "body" }]\n'


@pytest.fixture
def loops(shop: Shop) -> Shop:
    """Give a store whose runs have generations with events, each of which may have a body among the blobs."""
    execute(shop, "ALTER TABLE runs ADD COLUMN turn bigint")
    execute(
        shop,
        "CREATE TABLE turns (run text, turn bigint, status text, ended bigint, PRIMARY KEY (run, turn))",
    )
    execute(shop, "CREATE TABLE events (run text, turn bigint, body text)")
    execute(shop, "CREATE INDEX events_turn ON events (run, turn)")
    execute(shop, "CREATE INDEX events_body ON events (body)")
    text = HEAD.replace(OWNED, MORE) + LOOPS + BLOBS.replace(REFERENCES, BODY)
    shop.profile.write_text(text, encoding="utf-8")
    return shop


def loop(shop: Shop, run: str, *bodies: tuple[str, ...], live: bool = True) -> None:
    """Add a run with a generation for each of these sets of blobs, the last of which is the current one."""
    add_runs(shop, run, live=live)
    execute(shop, "UPDATE runs SET turn = ? WHERE id = ?", (len(bodies), run))
    for turn, keys in enumerate(bodies, start=1):
        current = live and turn == len(bodies)
        state = ("running", None) if current else ("over", OLD_MS)
        execute(shop, "INSERT INTO turns VALUES (?, ?, ?, ?)", (run, turn, *state))
        execute(shop, "INSERT INTO events VALUES (?, ?, ?)", *((run, turn, key) for key in keys))


def test_blobs_of_superseded_generations_go_and_those_of_the_current_one_stay(loops: Shop) -> None:
    """Plan and sweep agree: two generations of one loop share a blob, another is carried along."""
    add_blobs(loops, "first", "shared", "carried", "current", stored=NOW_MS)
    loop(loops, "alive", ("first", "shared", "carried"), ("shared", "carried"), ("carried", "current"))
    with opened(loops) as retention:
        planned = retention.plan(BOTH)
        report = retention.prune(BOTH, options=SweepOptions(batch_units=1))
        assert report.ended == "completed", report.message
        assert list(retention.verify()) == []
    assert (planned.blobs.count, planned.blobs.size) == (2, 20)
    assert (report.blobs.count, report.blobs.size) == (2, 20)
    assert planned.rows == report.rows
    assert left(loops) == ["carried", "current"]


def test_a_full_pass_comes_once_after_all_kinds(loops: Shop) -> None:
    """Trees and generations are two passes of one sweep; a stray blob is found at its end."""
    add_blobs(loops, "of a tree", "of a turn", "kept", "of both", stored=NOW_MS)
    add_blobs(loops, "stray")
    loop(loops, "gone", ("of a tree", "of both"), live=False)
    loop(loops, "alive", ("of a turn", "of both"), ("kept",))
    with opened(loops) as retention:
        report = retention.prune(BOTH)
        assert report.ended == "completed", report.message
        assert retention.prune(BOTH).blobs.count == 0
    assert {kind: units.removed for kind, units in report.kinds.items()} == {"tree": 1, "generation": 1}
    assert report.blobs.count == report.rows["blobs"] == 4
    assert left(loops) == ["kept"]


def test_generations_alone_release_blobs_in_a_sweep(loops: Shop) -> None:
    """A policy for nothing but generations removes their blobs and makes the full pass."""
    add_blobs(loops, "old", "kept", stored=NOW_MS)
    add_blobs(loops, "stray")
    loop(loops, "alive", ("old",), ("kept",))
    add_runs(loops, "ended")
    refer(loops, ("ended", "kept"))
    with opened(loops) as retention:
        report = retention.sweep(Policy(generations=BOTH.generations), always=True)
    assert (report.ended, report.blobs.count) == ("completed", 2)
    assert left(loops) == ["kept"]


def everything(shop: Shop) -> dict[str, list[str]]:
    """Return all rows of all tables."""
    with closing(shop.connect()) as session:
        return {
            table: sorted(repr(row) for row in session.run(f"SELECT * FROM {table}"))
            for table in ("runs", "steps", "turns", "events", "blobs", "pins")
        }


def test_generations_come_back_from_a_backup_with_their_blobs(loops: Shop, tmp_path: Path) -> None:
    """One file has trees, generations and what they share; one alone brings its own."""
    add_blobs(loops, "of a tree", "of a turn", "of both", "carried", "kept", stored=NOW_MS)
    loop(loops, "gone", ("of a tree", "of both"), live=False)
    loop(loops, "alive", ("of a turn", "of both"), ("of both", "carried"), ("carried", "kept"))
    before, path = everything(loops), tmp_path / "kept" / "backup"
    path.parent.mkdir()
    with opened(loops) as retention:
        report = retention.prune(BOTH, backup=BackupOrder(path=path))
        assert report.ended == "completed", report.message
        assert left(loops) == ["carried", "kept"]
        assert report.backup is not None
        assert report.backup["kinds"] == {"tree": 1, "generation": 2}
        assert report.blobs.count == 3
        assert retention.restore(path, "alive/1").rows["blobs"] == 2
        assert left(loops) == ["carried", "kept", "of a turn", "of both"]
        assert retention.restore(path).kinds == {"tree": 1, "generation": 1}
    assert everything(loops) == before
