"""What a plan says besides what was asked is what the oracle says, and changes nothing of the plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import oracle
from afterrun.core.outlook import NAMED, Outlook
from afterrun.core.report import Report
from afterrun.core.store import Cursor, Page
from afterrun.core.times import DAY
from dumps import canonical
from test_against_oracle import CHUNKS, World, _roots, expected_counts, worlds

pytestmark = pytest.mark.slow
AGES = (7, 30, 90)
TIMES = ("created_at", "completed_at")


def look(world: World, *, page: int = 1_000) -> tuple[Outlook, list[Any]]:
    """Plan with an outlook and a calendar; return it, and the keys of all units that were read."""
    read: list[Any] = []
    store = world.retention.store
    inner = store.page

    def noted(cursor: Cursor, *, cutoff: int, limit: int) -> Page:
        found = inner(cursor, cutoff=cutoff, limit=limit)
        read.extend(unit.key for unit in found.units)
        return found

    outlook = world.retention.outlook(world.policy, calendar=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "page", noted)
        for _ in outlook.expired(page=page):
            pass
    return outlook, read


@pytest.mark.parametrize("chunk", CHUNKS[::4])
def test_an_outlook_is_what_the_oracle_says(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 7: every column is what its policy would do; no unit is read twice, nor the plan changed."""
    monkeypatch.setattr("afterrun.stores.sql.standing.PART_ROWS", 4)  # so that parts meet
    monkeypatch.setattr("afterrun.stores.sql.aggregates.CENSUS_ROWS", 3)
    for world in worlds(tmp_path, chunk):
        outlook, read = look(world, page=Random(world.seed).choice((1, 3, 1000)))
        assert len(read) - read.count(None) == len(set(read) - {None}), world.seed
        plan = world.retention.plan(world.policy)
        assert told(outlook.report) == told(plan), world.seed
        check_ages(world, outlook)
        check_stays(world, outlook)
        check_stuck(world, outlook)
        check_days(world, outlook)
        assert canonical(world.look()) == canonical(world.dump), world.seed


def told(report: Report) -> dict[str, object]:
    """Return what a report says but for time taken, and sizes, which hang on the samples of each page."""
    words = report.as_json()
    return {name: words[name] for name in words if name not in {"seconds", "bytes"}}


def check_ages(world: World, outlook: Outlook) -> None:
    """Judge each age by the oracle."""
    for ahead, days in zip(outlook.ahead, AGES, strict=True):
        asked = replace(world.asked, keep_for_us=days * DAY, before_us=None)
        verdicts = oracle.judge(world.dump, asked, world.now)
        rows = sum(verdicts.planned_rows(world.dump).values())
        found = (ahead.days, ahead.units, ahead.rows, ahead.estimated)
        assert found == (days, len(verdicts.expired), rows, False), world.seed
        assert bool(ahead.bytes) == bool(rows), world.seed


def check_stays(world: World, outlook: Outlook) -> None:
    """Count what stays as the plan does; ids are of units that the oracle blocks for that reason."""
    expected = expected_counts(world)
    for name, held in (("protected", outlook.protected), ("blocked", outlook.blocked)):
        assert {reason: part.count for reason, part in held.items()} == expected[name], world.seed
    for reason, part in outlook.blocked.items():
        ids = {_as_id(unit.root) for unit in world.visible.units if reason in unit.blocked}
        assert set(part.ids) <= ids, (world.seed, reason)
        assert len(part.ids) >= min(part.count, NAMED, 1), (world.seed, reason)


def _as_id(key: object) -> str:
    return f"x'{key.hex()}'" if isinstance(key, bytes) else "" if key is None else str(key)


def check_stuck(world: World, outlook: Outlook) -> None:
    """Count live runs that have a time, and none from the last 30 days."""
    stuck = []
    for row in world.dump[oracle.RUNS]:
        numbers = [value for name in TIMES if isinstance(value := row[name], int | float)]
        seen = [
            int(min(value, oracle.BEYOND_ALL_MS) * 1000) for value in numbers if value >= oracle.YEAR_2000_MS
        ]
        if row["status"] in oracle.LIVE and seen and max(seen) < world.now - 30 * DAY:
            stuck.append((seen[0], _as_id(row["workflow_uuid"])))
    assert outlook.stuck.count == len(stuck), world.seed
    assert outlook.stuck.oldest == min((since for since, _ in stuck), default=None), world.seed
    assert len(outlook.stuck.ids) == min(len({run for _, run in stuck}), NAMED), world.seed
    assert set(outlook.stuck.ids) <= {run for _, run in stuck}, world.seed


def check_days(world: World, outlook: Outlook) -> None:
    """Count roots that ended at a known time by day; those that go are those that the plan lets go."""
    days: Counter[tuple[int, bool]] = Counter()
    for unit, root in zip(world.visible.units, _roots(world), strict=True):
        end = oracle._row_end(root, world.now)
        if end is not None:
            days[end // DAY, unit.verdict == "expired"] += 1
    found = {
        (day.day.toordinal() - 719_163, gone): count  # the day 1970-01-01
        for day in outlook.days
        for gone, count in ((True, day.expired), (False, day.kept))
        if count
    }
    assert found == days, world.seed
    assert sum(day.expired for day in outlook.days) == outlook.report.units.expired, world.seed
