"""Times in a zone that nobody knows: the latest moment that they may mean, up to now, on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Retention, SweepOptions
from afterrun.core.facts import UNREADABLE
from afterrun.core.times import EASTERNMOST, WESTERNMOST, micros, to_instant
from afterrun.stores.sql.store import SqlStore
from generations.loops import Loops, PostgresLoops, SqliteLoops

PROFILE = """
name = "zoneless"
engine = "Zoneless"
[detect]
tables = ["version"]
version = { table = "version", column = "number" }
read = { "1" = "" }
[units.tree]
table = "runs"
key = "id"
status = "status"
terminal = ["done"]
successful = ["done"]
live = [["running"]]
end = [{ column = "ended", format = "text_local" }]
"""
DAY = Policy(keep_for=timedelta(days=1))
TYPES = [("sqlite", "TEXT"), ("postgres", "TEXT"), ("postgres", "timestamp")]
OLD = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MILLISECOND = 1_000


@dataclass(frozen=True)
class Zoneless:
    """A store of runs that have but an end."""

    store: Loops
    column: str

    def add(self, **runs: str) -> None:
        """Add ended runs."""
        self.store.run(*(f"INSERT INTO runs VALUES ('{run}', 'done', '{end}')" for run, end in runs.items()))

    def open(self) -> Retention:
        """Open it."""
        profile = str(self.store.folder / "zoneless.toml")
        return Retention(self.store.location, profile=profile, state=self.store.folder / "state")

    def ends(self) -> Mapping[object, int | None]:
        """Return the end of each run, as it is read."""
        with self.open() as retention:
            store = retention.store
            assert isinstance(store, SqlStore)
            keys = [row[0] for row in self.store.rows("SELECT id FROM runs")]
            return {row.key: row.end for row in store._reader.rows(keys)}

    def prune(self, policy: Policy = DAY) -> set[str]:
        """Remove; return the runs that are left, after plan and removal agreed."""
        with self.open() as retention:
            planned = retention.plan(policy)
            report = retention.prune(policy, options=SweepOptions(offline=True))
        assert planned.units.expired == report.units.removed
        assert planned.units.blocked == {}
        return {row[0] for row in self.store.rows("SELECT id FROM runs")}


@pytest.fixture(params=TYPES, ids=str)
def zoneless(request: pytest.FixtureRequest, tmp_path: Path) -> Zoneless:
    """Give a store for each type of column that may hold such times."""
    kind, column = request.param
    store: Loops = SqliteLoops(tmp_path)
    if kind == "postgres":
        store = PostgresLoops(tmp_path, request.getfixturevalue("database"))
    store.run(
        "CREATE TABLE version (number INTEGER); INSERT INTO version VALUES (1);"
        f"CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended {column});"
        "CREATE INDEX runs_ended ON runs (ended);"
    )
    (tmp_path / "zoneless.toml").write_text(PROFILE, encoding="utf-8")
    return Zoneless(store, column)


def clock(moment: datetime) -> str:
    """Write a moment as its clock shows it, without the zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def test_an_old_time_counts_as_the_westernmost_zones(zoneless: Zoneless) -> None:
    """Nowhere on Earth is a time later than there."""
    zoneless.add(run=clock(OLD))
    found = zoneless.ends()["run"]
    assert found is not None
    assert 0 <= found - to_instant(OLD + WESTERNMOST) < MILLISECOND


@pytest.mark.parametrize("offset", [-12, -8, 0, 5, 14])
def test_no_run_goes_before_its_time_in_whatever_zone(zoneless: Zoneless, offset: int) -> None:
    """A run that ended 23 hours ago stays for a day; one that ended three days ago goes anywhere."""
    zone = timedelta(hours=offset)
    now = datetime.now(UTC)
    zoneless.add(young=clock(now - 23 * HOUR + zone), old=clock(now - 72 * HOUR + zone))
    assert zoneless.prune() == {"young"}


@pytest.mark.parametrize("offset", [-12, 0, 14])
def test_what_may_have_ended_just_now_is_recent(zoneless: Zoneless, offset: int) -> None:
    """East of UTC a new time lies ahead, and is not taken for one of the future."""
    zoneless.add(run=clock(datetime.now(UTC) + timedelta(hours=offset) - timedelta(seconds=5)))
    assert zoneless.prune() == {"run"}
    assert zoneless.prune(Policy(keep_last=1, keep_last_counts="any")) == {"run"}


def test_a_time_beyond_every_zone_is_of_the_future(zoneless: Zoneless) -> None:
    """Promise 3: such an end is unknown."""
    zoneless.add(run=clock(datetime.now(UTC) + EASTERNMOST + HOUR))
    with zoneless.open() as retention:
        assert retention.plan(DAY).units.blocked == {"future-end-time": 1}


def test_a_zone_that_is_there_counts(zoneless: Zoneless) -> None:
    """Text that says its zone is exact; a type without one has none."""
    zoneless.add(zulu="2026-01-01T12:00:00Z", east="2026-01-01 14:00:00+02:00")
    found = zoneless.ends()
    east = timedelta(0)
    if zoneless.column != "TEXT":  # this type drops a zone that is written into it
        found, east = {run: (end or 0) - micros(WESTERNMOST) for run, end in found.items()}, 2 * HOUR
    assert 0 <= (found["zulu"] or 0) - to_instant(OLD) < MILLISECOND
    assert 0 <= (found["east"] or 0) - to_instant(OLD + east) < MILLISECOND


def test_what_is_no_time_is_unreadable(zoneless: Zoneless) -> None:
    """Nothing is guessed of a text that is no time, nor of one before the year 2000."""
    zoneless.add(early="1999-12-31 23:59:59")
    assert zoneless.ends() == {"early": UNREADABLE}


def test_pages_by_such_a_time_miss_none(zoneless: Zoneless) -> None:
    """The index orders runs by the text as it stands; what is past the cutoff by any zone is met."""
    for number in range(60):
        zoneless.add(**{f"run-{number}": clock(datetime.now(UTC) - timedelta(hours=number))})
    left = zoneless.prune()
    assert {f"run-{number}" for number in range(24)} <= left
    assert not {f"run-{number}" for number in range(37, 60)} & left
