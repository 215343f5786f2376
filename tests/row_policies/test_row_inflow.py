"""Row policies gain on rows that keep arriving: the backlog of every table falls on every pass."""

from __future__ import annotations

from typing import Final

from afterrun import SweepOptions
from afterrun.core.sweep import Budget
from row_policies.inflow import POLICY, TABLES, Inflow
from row_policies.tables import Shop

PASSES: Final = 6
BETWEEN: Final = 5.0
"""Seconds between two passes, in which rows arrive as they do during one."""


def test_the_backlog_falls_on_every_pass(shop: Shop) -> None:
    """Ten rows a second arrive in each of three tables; passes that are bounded alike gain on all of them."""
    inflow = Inflow(shop)
    inflow.write(1_500)
    options = SweepOptions(budget=Budget(units=600), rest=0.0, sleep=inflow.after)
    before = inflow.left()
    with shop.open() as retention:
        for number in range(PASSES):
            report = retention.sweep(POLICY, options=options, always=True)
            after = inflow.left()
            assert report.ended == "budget", number
            assert {table: after[table] < before[table] for table in TABLES} == dict.fromkeys(TABLES, True)
            told = {table: report.tables[table].backlog for table in TABLES}
            assert all(told[table] <= after[table] for table in TABLES)
            assert report.gaining in (None, True)
            before = after
            inflow.after(BETWEEN)
        last = retention.sweep(POLICY, options=SweepOptions(rest=0.0), always=True)
    assert last.ended == "completed"
    assert {table: last.tables[table].outcome for table in TABLES} == dict.fromkeys(TABLES, "drained")
    assert set(inflow.left().values()) == {0}
    assert shop.counts()["event_parts"] == shop.counts()["task_states"] == 0
