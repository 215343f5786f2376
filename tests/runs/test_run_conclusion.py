from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from afterrun.runs import RunStatus, RunStore, StaleEpoch, WrongState
from afterrun.runs.schema import generations, leases, obligations, runs
from afterrun.runs.side_tables import metadata
from runs.runs_kit import Home

HOUR = timedelta(hours=1)
TIMES = {"created_at", "started_at", "ended_at", "opened_at", "closed_at"}
TIMES |= {"acquired_at", "released_at", "until", "lease_until", "due_at"}

End = Callable[[RunStore, str, int], object]


def _completed(store: RunStore, run: str, epoch: int) -> None:
    store.calls.complete(run, output=b"out", epoch=epoch)


def _finished(store: RunStore, run: str, epoch: int) -> None:
    store.finish(run, output=b"out", epoch=epoch)


def _claimed(store: RunStore, **order: Any) -> tuple[str, int]:  # noqa: ANN401 - of a new run
    run = store.create("ordinary", content=b"in", **order).run.id
    [claim] = store.claims.take(owner="somebody", names=["ordinary"], keep_for=HOUR)
    return run, claim.epoch


def _left(home: Home, store: RunStore, end: End) -> object:
    """Return what the rows of a run are after its end, without ids and times."""
    run, epoch = _claimed(store)
    end(store, run, epoch)
    tables = (runs, generations, leases, obligations)
    rows = {
        table.name: [row for row in home.rows(table) if run in (row.get("id"), row.get("run_id"))]
        for table in tables
    }
    return {
        name: [
            {
                column: value is None if column in TIMES else value
                for column, value in row.items()
                if column not in ("id", "run_id", "root_id")
            }
            for row in found
        ]
        for name, found in rows.items()
    }


def test_the_short_way_leaves_what_the_general_one_does(home: Home, store: RunStore) -> None:
    """Row by row, but for ids and times."""
    assert _left(home, store, _completed) == _left(home, store, _finished)
    assert len(metadata.tables) > 4


@pytest.mark.parametrize("order", [{"idempotency_key": "once"}, {"deliver_to": "somebody"}])
def test_what_is_not_ordinary_takes_the_general_way(order: dict[str, str], store: RunStore) -> None:
    """A key is buried, a result is posted."""
    run, epoch = _claimed(store, **order)
    _completed(store, run, epoch)
    assert store.get(run).status is RunStatus.COMPLETED
    assert len(store.results.due("somebody")) == ("deliver_to" in order)
    assert store.output_of(run) == b"out"


def test_it_refuses_what_the_general_way_refuses(store: RunStore) -> None:
    """Open work, a passed epoch, and a run that has ended."""
    run, epoch = _claimed(store)
    step = store.steps.start(run, "open", epoch=epoch)
    with pytest.raises(WrongState, match="work of its own open"):
        _completed(store, run, epoch)
    store.steps.complete(step, epoch=epoch)
    with pytest.raises(StaleEpoch):
        _completed(store, run, epoch + 1)
    _completed(store, run, epoch)
    with pytest.raises((WrongState, StaleEpoch)):
        _completed(store, run, epoch)


def test_a_parent_that_waits_is_queued(store: RunStore) -> None:
    """As by any end of a child."""
    parent, epoch = _claimed(store)
    step = store.steps.start(parent, "delegate", epoch=epoch)
    child = store.create("ordinary", parent=step, epoch=epoch).run.id
    store.wait(parent, epoch=epoch)
    [claim] = store.claims.take(owner="somebody", names=["ordinary"], keep_for=HOUR)
    assert claim.run.id == child
    _completed(store, child, claim.epoch)
    assert store.get(parent).status is RunStatus.QUEUED
