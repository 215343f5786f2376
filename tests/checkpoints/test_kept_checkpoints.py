"""Which checkpoints of a thread stay: what the engine goes on from, and whatever that needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterrun.core.times import DAY, Instant
from afterrun.profiles.langgraph import (
    Checkpoint,
    Cut,
    Metadata,
    Place,
    cut,
    is_line,
    read_metadata,
    uuid6_floor,
    uuid6_instant,
)
from checkpoints.drawn_threads import BEGIN, ROOT, at, call, threads


def line(steps: int) -> list[Checkpoint]:
    """Return a thread that went straight on."""
    return [Checkpoint(ROOT, at(n), at(n - 1) if n else None) for n in range(steps)]


def names(found: Cut) -> dict[str, set[str]]:
    """Return the reasons why places stay."""
    told: dict[str, set[str]] = {}
    for place, stay in found.kept.items():
        told.setdefault(stay.name, set()).add(place.id)
    return told


def test_a_line_keeps_its_head() -> None:
    """Of a thread that never forked, all but the newest checkpoint may go, each by itself."""
    rows = line(5)
    found = cut(rows)
    assert names(found) == {"current-generation": {at(4)}}
    assert found.going == {Place(ROOT, at(n)): (Place(ROOT, at(n)),) for n in range(4)}
    assert is_line(rows)


def test_leaves_of_forks_stay_unless_the_policy_says_otherwise() -> None:
    """A fork ends in a leaf, which somebody may go on from."""
    rows = [*line(4), Checkpoint(ROOT, at(5), at(1)), Checkpoint(ROOT, at(6), at(5))]
    assert names(cut(rows)) == {"current-generation": {at(6)}, "fork-leaf": {at(3)}}
    assert names(cut(rows, keep_leaves=False)) == {"current-generation": {at(6)}}
    assert not is_line(rows)


@pytest.mark.parametrize("mark", ["counters_since_delta_snapshot", "delta_writes_versioned"])
def test_a_delta_channel_keeps_its_whole_thread(mark: str) -> None:
    """One checkpoint that tells of a DeltaChannel is enough: its value lies in all of them."""
    told = read_metadata(json.dumps({"source": "loop", mark: {"numbers": [1, 2]}}))
    for place in range(4):
        rows = line(4)
        rows[place] = rows[place]._replace(metadata=told)
        assert set(names(cut(rows))) == {"delta-channel"}
        assert not is_line(rows)
    rows = [row._replace(snapshot=row.id == at(3)) for row in line(4)]
    assert set(names(cut(rows))) == {"delta-channel"}


def test_whatever_cannot_be_read_keeps_its_whole_thread() -> None:
    """Metadata that is no JSON, a head that is unreadable, an id that is no UUID: all block the thread."""
    bad: list[dict[str, Any]] = [
        {"metadata": read_metadata(b"{")},
        {"snapshot": None},
        {"id": "latest"},
        {"id": b"\x00"},
        {"namespace": 5},
    ]
    for change in bad:
        rows = line(4)
        rows[1] = rows[1]._replace(**change)
        found = cut(rows)
        assert not found.going
        assert all(stay.blocks for stay in found.kept.values())
        assert not is_line(rows)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        "[" * 50_000,
        '{"parents": 5}',
        b"x" * 2_000_000,
        '{"a": ' + "1" * 5_000,
    ],
)
def test_metadata_that_is_no_object_is_unreadable(raw: str | bytes) -> None:
    """Anything but an object, in bounded time and without an error."""
    assert not read_metadata(raw).readable


def test_metadata_tells_the_root() -> None:
    """The root graph's checkpoint stands under the empty namespace."""
    assert read_metadata('{"parents": {"": "r", "a": "b"}}') == Metadata(root="r")
    assert read_metadata('{"parents": {"": 5}}') == Metadata()
    assert read_metadata(None) == Metadata()


def test_a_call_goes_with_the_root_checkpoint_that_made_it() -> None:
    """All of a call's checkpoints are members of one unit: nothing is half removed."""
    rows = [*line(5), *call("node:a", (10, 11), at(2)), *call("node:a|deep:b", (12, 13), at(2))]
    found = cut(rows)
    assert found.going[Place(ROOT, at(2))] == (
        Place(ROOT, at(2)),
        *(Place("node:a", at(n)) for n in (10, 11)),
        *(Place("node:a|deep:b", at(n)) for n in (12, 13)),
    )
    assert names(found) == {"current-generation": {at(4)}}


def test_a_call_of_a_kept_root_keeps_its_head() -> None:
    """A resumed root loads the newest checkpoint of its call."""
    found = cut([*line(5), *call("node:a", (10, 11, 12), at(4))])
    assert Place("node:a", at(12)) in found.kept
    assert {Place("node:a", at(10)), Place("node:a", at(11))} <= found.going.keys()


def test_a_call_without_its_root_stays() -> None:
    """A root that is not saved yet is on its way; one that is missing, or not named, is not understood."""
    assert "unsaved-root" in names(cut([*line(3), *call("node:a", (5,), at(9))]))
    assert "missing-root" in names(cut([*line(3)[1:], *call("node:a", (5,), at(0))]))
    assert "unknown-root" in names(cut([*line(3), *call("node:a", (5,), None)]))


def test_a_memory_keeps_its_head() -> None:
    """A subgraph with a memory of its own goes on from its newest checkpoint, whatever became of its root."""
    memory = [Checkpoint("mem", at(n), at(n - 2) if n > 1 else None, Metadata(root=at(0))) for n in (1, 3, 5)]
    found = cut([*line(1), *memory])
    assert Place("mem", at(5)) in found.kept


def test_a_memory_stays_with_the_root_that_would_be_replayed_with_it() -> None:
    """Before a kept fork's leaf, the newest memory stays; before a superseded root, it goes with that."""
    root = [Checkpoint(ROOT, at(n), at(n - 2) if n else None) for n in (0, 2, 4, 6)]
    fork = Checkpoint(ROOT, at(8), at(0))
    memory = [Checkpoint("mem", at(n), at(n - 2) if n > 1 else None) for n in (1, 3, 5, 7)]
    found = cut([*root, fork, *memory])
    assert names(found)["fork-leaf"] == {at(6)}
    assert names(found)["subgraph-memory"] == {at(5)}
    assert found.going[Place(ROOT, at(2))] == (Place(ROOT, at(2)), Place("mem", at(1)))
    assert found.going[Place(ROOT, at(4))] == (Place(ROOT, at(4)), Place("mem", at(3)))


def test_an_id_that_tells_no_time_blocks_itself_alone() -> None:
    """A UUID of another version is ordered as text, and its age is not known."""
    odd = "00000000-0000-4000-8000-000000000001"
    rows = [Checkpoint(ROOT, odd), Checkpoint(ROOT, at(0), odd), Checkpoint(ROOT, at(1), at(0))]
    found = cut(rows)
    assert found.kept[Place(ROOT, odd)].blocks
    assert found.going.keys() == {Place(ROOT, at(0))}


def test_old_formats_keep_what_their_tasks_are_read_from() -> None:
    """Before version 4, a checkpoint's tasks are among the writes to the one before it."""
    for version in (3, None):
        rows = [row._replace(sends=row.id == at(2)) for row in line(4)]
        rows[3] = rows[3]._replace(version=version)
        assert names(cut(rows)) == {"current-generation": {at(3)}, "pending-sends": {at(2)}}
        assert not is_line(rows)


def test_times_of_ids() -> None:
    """An id of version 6 tells its time to the microsecond; no other text does."""
    assert uuid6_instant(at(3)) == BEGIN + 3 * DAY
    assert uuid6_instant("1f0b22e4-7038-6ac7-8001-c4ceaf710b32") is not None
    for text in ("", None, 5, at(3).upper().replace("-6", "-7"), "1f0b22e4-7038-1ac7-8001-c4ceaf710b32"):
        assert uuid6_instant(text) is None
    assert uuid6_instant("00000000-0000-6000-8000-000000000000") is None


@given(st.integers(BEGIN, BEGIN + 40_000 * DAY), st.integers(-5, 5))
def test_the_least_id_of_a_time_is_not_after_those_of_it(instant: int, step: int) -> None:
    """Ids compare with the text for a time as the times do."""
    name = f"{uuid6_floor(instant)}-8000-000000000000"
    assert uuid6_instant(name) == instant
    assert (name < uuid6_floor(instant + step)) == (step > 0)


@given(threads())
def test_every_checkpoint_stays_or_goes_once(rows: list[Checkpoint]) -> None:
    """What stays and what goes are all of the thread, and nothing is both."""
    found = cut(rows)
    members = [place for unit in found.going.values() for place in unit]
    assert sorted([*found.kept, *members]) == [row.place for row in rows]
    assert all(unit[0] == place for place, unit in found.going.items())


@given(threads())
def test_heads_and_leaves_always_stay(rows: list[Checkpoint]) -> None:
    """The newest of every graph stays, and so does every checkpoint that none follows."""
    found = cut(rows)
    for namespace in ("mem", ROOT):
        space = [row for row in rows if row.namespace == namespace]
        followed = {row.parent for row in space}
        for row in space:
            if row.id not in followed or row is space[-1]:
                assert row.place in found.kept


@given(threads(), st.integers(0, 60))
def test_what_remains_finds_what_it_did_before(rows: list[Checkpoint], age: int) -> None:
    """After all old enough units went, every root checkpoint still finds its memory and its calls."""
    found, limit = cut(rows), BEGIN + age * DAY
    gone = {place for unit in found.going.values() if _end(unit) < limit for place in unit}
    left = [row for row in rows if row.place not in gone]
    for row in left:
        if row.namespace == ROOT:
            assert _memory(left, row.id) == _memory(rows, row.id)
    for namespace in {row.namespace for row in rows if ":" in row.namespace}:
        root = next(row.metadata.root for row in rows if row.namespace == namespace)
        head = max(row.id for row in rows if row.namespace == namespace)
        saved = any(row.id == root for row in left)
        assert saved == any(row.place == (namespace, head) for row in left)


@given(threads())
def test_a_second_pass_lets_nothing_more_go(rows: list[Checkpoint]) -> None:
    """What stays after everything superseded went is what a second look keeps."""
    found = cut(rows)
    left = [
        row._replace(parent=row.parent if Place(row.namespace, str(row.parent)) in found.kept else None)
        for row in rows
        if row.place in found.kept
    ]
    again = cut(left)
    roots = [place for place in again.going if place.namespace == ROOT]
    assert roots == []


@given(threads())
def test_a_line_is_cut_as_any_other_thread(rows: list[Checkpoint]) -> None:
    """The short way for plain threads comes to the same as the long one."""
    if is_line(rows):
        found = cut(rows)
        assert list(found.kept) == [rows[-1].place]
        assert found.going == {row.place: (row.place,) for row in rows[:-1]}


def _end(unit: Sequence[Place]) -> Instant:
    return max(uuid6_instant(place.id) or 0 for place in unit)


def _memory(rows: Sequence[Checkpoint], root: str) -> str | None:
    return max((row.id for row in rows if row.namespace == "mem" and row.id < root), default=None)
