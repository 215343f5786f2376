"""What holds of any rules on any rows: the same rows go on memory, SQLite and PostgreSQL; rules only keep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afterrun.core.facts import Key
from afterrun.core.policy import DEFAULT_GRACE
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import RowSource
from afterrun.core.times import DAY, Instant
from afterrun.stores.sql.rows import SqlRows
from afterrun.stores.sql.store import SqlStore
from generations.loops import Loops, PostgresLoops, SqliteLoops
from pg_server import Database
from row_policies.memory_rows import NOW, Line, MemoryRows
from row_policies.tables import Shop, make
from row_policies.test_row_conformance import planned, swept

EXAMPLES: Final = 300 if os.environ.get("AFTERRUN_SOAK") == "1" else 25
HOUR: Final = DAY // 24

ages = st.one_of(
    st.integers(0, 60).map(lambda hours: hours * HOUR),
    st.integers(0, 900).map(lambda days: days * DAY),
    st.sampled_from([7 * DAY + n for n in (-1_000, 0, 1_000)] + [HOUR - 1_000, HOUR, HOUR + 1_000]),
)
"""Of whole milliseconds, as the store has them; some lie on a limit and beside it."""

ends = st.one_of(ages.map(lambda age: NOW - age), st.sampled_from([None, 5, NOW + DAY]))
lines = st.builds(Line, ends, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "", "", "head"]))
tables = st.dictionaries(st.integers(0, 60), lines, max_size=20)
durations = st.sampled_from([1, 24, 7 * 24, 90 * 24]).map(lambda hours: timedelta(hours=hours))
counts = st.integers(1, 4)
rules = st.one_of(
    st.builds(RowRules, keep_for=durations),
    st.builds(RowRules, keep_latest=counts),
    st.builds(RowRules, keep_for=durations, keep_latest=counts),
)


@dataclass(frozen=True)
class Place:
    """The table of results of an open store, which is filled anew for each example."""

    loops: Loops
    store: SqlStore

    def fill(self, found: Mapping[int, Line]) -> None:
        """Fill it."""
        self.loops.run("DELETE FROM results", "DELETE FROM heads")
        rows = [
            (key, line.part or None, None if line.end is None else line.end // 1_000)
            for key, line in found.items()
        ]
        heads = [(str(key), key) for key, line in found.items() if line.held]
        for table, values in (("results", rows), ("heads", heads)):
            if values:
                self.loops.insert(table, values)

    def source(self, given_rules: RowRules) -> SqlRows:
        """Resolve rules against what is there."""
        profile = self.store.profile.units.rows["results"]
        return SqlRows(self.store, "results", profile, given_rules, now=NOW, grace=DEFAULT_GRACE)

    def left(self) -> set[Key]:
        """Return the keys that are left."""
        return {row[0] for row in self.loops.rows("SELECT id FROM results")}


@pytest.fixture
def places(tmp_path: Path, database: Database) -> Iterator[list[Place]]:
    """Give an open store on each database, with an index by time and without."""
    with ExitStack() as stack:
        found = []
        for name in ("sqlite", "postgres"):
            folder = tmp_path / name
            folder.mkdir()
            loops: Loops = SqliteLoops(folder) if name == "sqlite" else PostgresLoops(folder, database)
            make(loops)
            if name == "sqlite":
                loops.run("CREATE INDEX results_made ON results (made)")
            found.append(Place(loops, stack.enter_context(Shop(loops).open()).store))
        yield found


@pytest.mark.timeout(900)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=tables, asked=rules, more=rules)
def test_the_same_rows_go_everywhere_and_rules_only_keep(
    places: list[Place], found: dict[int, Line], asked: RowRules, more: RowRules
) -> None:
    """By each rule alone and both together: one verdict on all stores, monotony, and age is age."""
    both = RowRules(
        keep_for=_longer(asked.keep_for, more.keep_for),
        keep_latest=_most(asked.keep_latest, more.keep_latest),
    )
    for place in places:
        place.fill(found)
    going = {}
    for name, one in (("asked", asked), ("more", more), ("both", both)):
        sources: list[RowSource] = [MemoryRows(found, one), *(place.source(one) for place in places)]
        answers = [planned(source) for source in sources]
        assert answers[0] == answers[1] == answers[2], one
        going[name] = answers[0][0]
        cutoff = one.cutoff(NOW, grace=DEFAULT_GRACE)
        assert cutoff is not None
        assert all(_end(found, key) < cutoff for key in going[name])
    assert going["both"] <= going["asked"] & going["more"]
    for place in places:
        sweep = swept(place.source(asked))
        assert (sweep.outcome, sweep.result.units.removed) == ("drained", len(going["asked"]))
        assert place.left() == found.keys() - going["asked"]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=tables, asked=rules, only=st.sets(st.integers(0, 70)))
def test_a_list_only_narrows(
    places: list[Place], found: dict[int, Line], asked: RowRules, only: set[int]
) -> None:
    """Of the rows that may go, exactly those that are listed do."""
    going, _ = planned(MemoryRows(found, asked))
    for place in places:
        place.fill(found)
        source = place.source(asked)
        source.only = only
        assert planned(source)[0] == going & only
        swept(source)
        assert place.left() == found.keys() - (going & only)


def _end(found: Mapping[int, Line], key: object) -> Instant:
    end = found[key].end if isinstance(key, int) else None
    assert end is not None
    return end


def _longer(one: object, other: object) -> timedelta | None:
    known = [age for age in (one, other) if isinstance(age, timedelta)]
    return max(known, default=None)


def _most(one: int | None, other: int | None) -> int | None:
    known = [count for count in (one, other) if count is not None]
    return max(known, default=None)
