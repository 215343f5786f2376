"""What people and lists read of runs costs the same, whatever the size of their content."""

from __future__ import annotations

from afterrun.runs import RunStore
from runs.read_meter import bytes_read, fill, slim_calls
from runs.runs_kit import Home

SMALL, LARGE = 100, 2**20
SLACK = 32 * 1024
"""Bytes by which reads may differ: rows lie in other pages, and indexes are split elsewhere."""


def test_no_view_reads_content(home: Home, store: RunStore) -> None:
    """Lists, trees, steps and states read no more with a mebibyte for each payload than with 100 bytes."""
    small = fill(store, SMALL)
    before = {name: bytes_read(home, call) for name, call in slim_calls(small).items()}
    large = fill(store, LARGE)
    after = {name: bytes_read(home, call) for name, call in slim_calls(large).items()}
    assert {name: read - before[name] for name, read in after.items() if read > before[name] + SLACK} == {}
    assert all(before.values())


def test_the_meter_sees_content(home: Home, store: RunStore) -> None:
    """A call that reads content reads all of it."""
    root = fill(store, LARGE)
    assert bytes_read(home, lambda opened: opened.input_of(root)) > LARGE
