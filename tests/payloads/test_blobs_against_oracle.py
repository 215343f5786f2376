"""Random trees with random sharing, against an oracle in plain Python: no blob is lost, none is left over."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afterrun import Policy, SweepOptions
from payloads.blob_kit import (
    DAY_MS,
    HOUR_MS,
    MONTH,
    NOW_MS,
    OLD_MS,
    PostgresShop,
    Shop,
    SqliteShop,
    dangling,
    left,
    opened,
)
from pg_server import Server

KEYS = [f"k{number}" for number in range(8)]
DIGESTS = st.sampled_from([*KEYS, "missing"]) | st.none()


@dataclass(frozen=True)
class Run:
    """A run with what it refers to: its own input, and two columns of each step."""

    parent: int | None
    live: bool
    ended: int
    input: str | None
    steps: tuple[tuple[str | None, str | None], ...]

    def needs(self) -> set[str]:
        """Return the keys that its rows hold."""
        return {key for key in (self.input, *(key for step in self.steps for key in step)) if key}


@dataclass(frozen=True)
class Blob:
    """A blob with its age, and its pins by their lease."""

    stored: int | None
    pins: tuple[int | None, ...]


RUNS = st.lists(
    st.builds(
        Run,
        parent=st.none() | st.integers(0, 7),
        live=st.sampled_from([False, False, False, True]),
        ended=st.sampled_from([OLD_MS, OLD_MS + 1, NOW_MS - DAY_MS]),
        input=DIGESTS,
        steps=st.lists(st.tuples(DIGESTS, DIGESTS), max_size=3).map(tuple),
    ),
    max_size=8,
)
BLOBS = st.dictionaries(
    st.sampled_from(KEYS),
    st.builds(
        Blob,
        stored=st.sampled_from([OLD_MS, NOW_MS - HOUR_MS, None]),
        pins=st.lists(st.sampled_from([OLD_MS, NOW_MS, NOW_MS + 1, None]), max_size=2).map(tuple),
    ),
)


def ancestors(runs: list[Run], number: int) -> Iterator[int]:
    """Yield a run and those above it: a parent always comes before its children."""
    yield number
    parent = runs[number].parent
    if parent is not None and parent < number:
        yield from ancestors(runs, parent)


def expected(runs: list[Run], blobs: dict[str, Blob]) -> tuple[set[int], set[str]]:
    """Say which runs and blobs are left, by the rules alone."""
    roots = {number: list(ancestors(runs, number))[-1] for number in range(len(runs))}
    kept = {roots[number] for number, run in enumerate(runs) if run.live or run.ended > OLD_MS + 1}
    there = {number for number in roots if roots[number] in kept}
    needed = set[str]().union(*(runs[number].needs() for number in there))
    released = set[str]().union(*(run.needs() for number, run in enumerate(runs) if number not in there))

    def stays(key: str, blob: Blob) -> bool:
        pinned = any(lease is None or lease > NOW_MS for lease in blob.pins)
        found = blob.stored == OLD_MS or key in released
        return key in needed or pinned or not found

    return there, {key for key, blob in blobs.items() if stays(key, blob)}


def fill(shop: Shop, runs: list[Run], blobs: dict[str, Blob]) -> None:
    """Make these the only rows."""
    with closing(shop.connect()) as session:
        session.run("BEGIN")
        for table in ("steps", "pins", "blobs", "runs"):
            session.run(f"DELETE FROM {table}")
        for number, run in enumerate(runs):
            parent = None if run.parent is None or run.parent >= number else str(run.parent)
            state = ("running", None) if run.live else ("done", run.ended)
            session.run("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", str(number), *state, parent, run.input)
            for step in run.steps:
                session.run("INSERT INTO steps VALUES (?, ?, ?)", str(number), *step)
        for key, blob in blobs.items():
            session.run("INSERT INTO blobs VALUES (?, ?, 1, ?)", key, b"x", blob.stored)
            for lease in blob.pins:
                session.run("INSERT INTO pins VALUES (?, ?)", key, lease)
        session.run("COMMIT")


def check(shop: Shop, runs: list[Run], blobs: dict[str, Blob], batch_units: int | None) -> None:
    """Fill, plan, prune and compare."""
    fill(shop, runs, blobs)
    lost = set(dangling(shop))
    there, stay = expected(runs, blobs)
    policy: Policy = MONTH
    state = shop.folder / "state"
    for file in state.glob("*.json"):  # so that each removal makes a full pass
        file.unlink()
    with opened(shop) as retention:
        planned = retention.plan(policy)
        report = retention.prune(policy, options=SweepOptions(batch_units=batch_units))
        assert report.ended == "completed", report.message
        again = retention.prune(policy)
    assert set(left(shop, "runs", "id")) == {str(number) for number in there}
    assert set(left(shop)) == stay
    assert report.blobs.count == len(blobs) - len(stay)
    released = {
        key
        for number, run in enumerate(runs)
        if number not in there
        for key in run.needs() & (blobs.keys() - stay)
    }
    assert planned.blobs.count == len(released)
    assert set(dangling(shop)) <= lost
    assert again.blobs.count == 0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def lasting_shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """Give one store of each database for all examples."""
    with tempfile.TemporaryDirectory() as name:
        if request.param == "sqlite":
            yield SqliteShop(Path(name))
        else:
            server: Server = request.getfixturevalue("postgres")
            database = server.create_database()
            yield PostgresShop(database, Path(name))
            server.drop_database(database.name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS, blobs=BLOBS, batch_units=st.sampled_from([None, 1, 2]))
def test_no_blob_is_lost_and_none_is_left(
    lasting_shop: Shop, runs: list[Run], blobs: dict[str, Blob], batch_units: int | None
) -> None:
    """What is left is exactly what the rules say, in one batch or in many."""
    check(lasting_shop, runs, blobs, batch_units)
