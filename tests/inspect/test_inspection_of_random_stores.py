"""An inspection of a random store says what its rows and plans say, whatever is odd about them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

import oracle
from afterrun import Policy
from afterrun.core.inspection import HORIZONS, Inspection
from afterrun.core.times import DAY
from dumps import Row, canonical
from test_against_oracle import CHUNKS, World, worlds

pytestmark = pytest.mark.slow
MONTH = 30 * DAY


@pytest.mark.parametrize("chunk", CHUNKS[1::4])
def test_an_inspection_is_what_rows_and_plans_say(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, growth, age and what 7, 30 and 90 days would free are exact, however the scan is cut."""
    monkeypatch.setattr("afterrun.stores.sql.standing.PART_ROWS", 5)  # so that parts meet
    monkeypatch.setattr("afterrun.stores.sql.missing_parents.PARENTS", 3)
    monkeypatch.setattr("afterrun.stores.sql.missing_parents.ROWS", 2)
    for world in worlds(tmp_path, chunk):
        found = world.retention.inspect()
        check_rows(world, found)
        check_plans(world, found)
        assert canonical(world.look()) == canonical(world.dump), world.seed


def check_rows(world: World, found: Inspection) -> None:
    """Count by hand."""
    rows = world.dump[oracle.RUNS]
    states = Counter(
        "live"
        if row["status"] in oracle.LIVE
        else "finished"
        if row["status"] in oracle.TERMINAL
        else "unknown"
        for row in rows
    )
    assert {state: count for state, count in found.runs.items() if count} == states, world.seed
    first = [moment for row in rows if (moment := known(row, "created_at") or known(row, "completed_at"))]
    assert found.oldest == min(first, default=None), world.seed
    days = found.growth["days"]
    made = sum(1 for row in rows if (known(row, "created_at") or 0) >= world.now - MONTH)
    ends = [end for row in rows if (end := oracle._row_end(row, world.now)) is not None]
    ended = sum(1 for end in ends if world.now - end <= MONTH)
    assert found.growth["created"] == pytest.approx(made / days, abs=0.01 + made * 0.05), world.seed
    assert found.growth["ended"] == pytest.approx(ended / days, abs=0.01 + ended * 0.05), world.seed


def known(row: Row, column: str) -> int | None:
    """Return a time of a row in microseconds; nothing where it makes no sense."""
    value = row[column]
    if not isinstance(value, int | float) or value < oracle.YEAR_2000_MS:
        return None
    return int(min(value, oracle.BEYOND_ALL_MS) * 1000)


def check_plans(world: World, found: Inspection) -> None:
    """Compare each age with a plan, and what stays with the plan of the least age."""
    for ahead, days in zip(found.look.ahead, HORIZONS, strict=True):
        plan = world.retention.plan(Policy(keep_for=timedelta(days=days)))
        told = (ahead.days, ahead.units, ahead.rows, ahead.estimated)
        assert told == (days, plan.units.expired, sum(plan.rows.values()), False), world.seed
        if days == min(HORIZONS):
            for name in ("protected", "blocked"):
                held = getattr(found.look, name)
                counted = {reason: part.count for reason, part in held.items()}
                assert counted == dict(getattr(plan.units, name)), (world.seed, name)
